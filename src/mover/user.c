#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "mover/mover.h"

enum { FIELDS = 7 };

/* Splits "a:b:c" into at most FIELDS parts. */
static size_t split(struct str line, struct str ret[FIELDS])
{
	size_t n = 0;
	while (n < FIELDS) {
		bool last = memchr(line.p, ':', line.n) == NULL;
		ret[n++] = str_split(line, ':', &line);
		if (last)
			break;
	}
	return n;
}

static bool to_id(struct str text, uid_t *ret)
{
	uint64_t id;
	if (!str_to_u64(text, 65535, &id))
		return false;
	*ret = (uid_t)id;
	return true;
}

static void read_db(const char *path, struct buf *ret)
{
	fd_read_file(AT_FDCWD, path, MOVER_DB_MAX, ret); /* an image may have none */
}

static bool find_user(struct str who, struct user *ret, char name[64])
{
	auto_buf struct buf text = {0};
	uid_t number = 0;
	bool numeric = to_id(who, &number);
	read_db("/etc/passwd", &text);
	for (struct str rest = buf_str(&text); rest.n;) {
		struct str f[FIELDS], line = str_split(rest, '\n', &rest);
		uid_t uid, gid;
		if (split(line, f) < 6 || !to_id(f[2], &uid) || !to_id(f[3], &gid))
			continue;
		if (!str_eq(f[0], who) && !(numeric && uid == number))
			continue;
		ret->uid = uid;
		ret->gid = gid;
		snprintf(name, 64, "%.*s", STR_ARG(f[0]));
		snprintf(ret->home, sizeof ret->home, "%.*s", STR_ARG(f[5]));
		return true;
	}
	ret->uid = number;
	ret->gid = 0;
	return numeric;
}

static bool find_group(struct str group, const char *member, struct user *ret)
{
	auto_buf struct buf text = {0};
	uid_t number;
	bool found = to_id(group, &number);
	if (found)
		ret->gid = number;
	read_db("/etc/group", &text);
	for (struct str rest = buf_str(&text); rest.n;) {
		struct str f[FIELDS], line = str_split(rest, '\n', &rest);
		uid_t gid;
		if (split(line, f) < 4 || !to_id(f[2], &gid))
			continue;
		if (group.n && str_eq(f[0], group)) {
			ret->gid = gid;
			found = true;
		}
		for (struct str names = f[3]; !group.n && *member && names.n;)
			if (str_eq_c(str_split(names, ',', &names), member) && ret->groups_n < MOVER_GROUPS_MAX)
				ret->groups[ret->groups_n++] = gid;
	}
	return found;
}

void user_find(const char *text, struct user *ret)
{
	struct str group, who = str_split(str_of(text), ':', &group);
	char name[64] = "";
	*ret = (struct user){.home = "/root"};
	if (who.n && !find_user(who, ret, name))
		mover_die("the image has no user '%s' in /etc/passwd", text);
	if (!find_group(group, name, ret) && group.n)
		mover_die("the image has no group '%.*s' in /etc/group", STR_ARG(group));
}

int mover_run(int argc, char **argv)
{
	struct user who;
	int at = 2;
	/* The build shows one stream. */
	dup2(1, 2);
	if (argc < 3)
		mover_die("run needs a user, a directory and a command");
	user_find(argv[0], &who);
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
