#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "mover/mover.h"

static void read_db(const char *path, struct buf *ret)
{
	fd_read_file(AT_FDCWD, path, USER_DB_MAX, ret); /* an image may have none */
}

void mover_user(const char *text, struct user *ret)
{
	auto_buf struct buf passwd = {0}, group = {0};
	struct err e;
	read_db("/etc/passwd", &passwd);
	read_db("/etc/group", &group);
	if (user_find(buf_str(&passwd), buf_str(&group), str_of(text), ret, &e) < 0)
		mover_die("%s", e.msg);
}

int mover_run(int argc, char **argv)
{
	struct user who;
	int at = 2;
	/* The build shows one stream. */
	dup2(1, 2);
	if (argc < 3)
		mover_die("run needs a user, a directory and a command");
	mover_user(argv[0], &who);
	umask(022);
	make_path(argv[1], &(struct user){0});
	if (chdir(argv[1]) < 0)
		mover_die("the directory '%s' cannot be entered: %s", argv[1], strerror(errno));
	setenv("HOME", *who.home ? who.home : "/", 1);
	for (; at < argc && strcmp(argv[at], "--") != 0; at++)
		putenv(argv[at]);
	if (++at >= argc)
		mover_die("run needs a command");
	if (setgroups(who.groups_n, who.groups) < 0 || setresgid(who.gid, who.gid, who.gid) < 0 ||
		setresuid(who.uid, who.uid, who.uid) < 0)
		mover_die("cannot become user '%s': %s", argv[0], strerror(errno));
	execvp(argv[at], argv + at);
	mover_die("'%s' cannot be run: %s", argv[at], strerror(errno));
}
