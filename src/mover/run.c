/*
 * A command of a build, as a user of the image. Where the host has no volumes, directories of cache and tmpfs mounts
 * are volatile: what the command adds in them is removed afterwards, so that it does not become part of the layer.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/mover.h"

static struct map before; /* paths in volatile directories that the image has */
static size_t known;

static int note(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	if (++known > MOVER_ENTRIES_MAX)
		mover_die("more than %u files", MOVER_ENTRIES_MAX);
	map_put(&before, str_of(path), &before);
	return 0;
}

/* Depth first, so that a directory is empty when its turn comes. Mount points of the box stay, because they are busy.
 */
static int drop(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)at;
	if (!map_get(&before, str_of(path)))
		type == FTW_DP ? rmdir(path) : unlink(path);
	return 0;
}

/* UID:GID:MODE:PATH. Returns the path. */
static const char *make_volatile(char *spec)
{
	struct stat st;
	unsigned uid, gid, mode;
	int at = 0;
	if (sscanf(spec, "%u:%u:%o:%n", &uid, &gid, &mode, &at) != 3 || !at || spec[at] != '/')
		mover_die("a malformed mount '%s'", spec);
	const char *path = spec + at;
	bool there = lstat(path, &st) == 0;
	if (!there) {
		make_path(path, &(struct user){0});
		if (chown(path, uid, gid) < 0 || chmod(path, mode & 07777) < 0)
			mover_die("'%s' cannot be made: %s", path, strerror(errno));
	}
	nftw(path, note, 64, FTW_PHYS);
	return path;
}

/* UID:GID:MODE:PATH: the directory of a cache gets its owner as long as it is empty. */
static void own_empty(const char *spec)
{
	unsigned uid, gid, mode;
	int at = 0;
	if (sscanf(spec, "%u:%u:%o:%n", &uid, &gid, &mode, &at) != 3 || !at || spec[at] != '/')
		mover_die("a malformed mount '%s'", spec);
	DIR *d = opendir(spec + at);
	size_t n = 0;
	while (d && readdir(d))
		n++;
	if (!d || (n <= 2 && (fchown(dirfd(d), uid, gid) < 0 || fchmod(dirfd(d), mode & 07777) < 0)))
		mover_die("'%s' cannot be made: %s", spec + at, strerror(errno));
	closedir(d);
}

/* Options for mounts, before the user's name. Returns how many words they are. */
static int take_mounts(int argc, char **argv, char **paths, size_t *ret_n)
{
	int at = 0;
	bool input = false;
	for (; at + 1 < argc; at += 2) {
		if (strcmp(argv[at], "--volatile") == 0) {
			paths[(*ret_n)++] = (char *)make_volatile(argv[at + 1]);
		} else if (strcmp(argv[at], "--own") == 0) {
			own_empty(argv[at + 1]);
		} else if (strcmp(argv[at], "--file") == 0) {
			place_file(argv[at + 1]);
			input = true;
		} else {
			break;
		}
	}
	/* The command has no input, whatever was sent. */
	int null = input ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	if (null >= 0)
		dup2(null, 0);
	return at;
}

/* Returns in a child only; the program ends with the child's code. */
static void run_apart(char **paths, size_t n)
{
	int status = 0;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		return;
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		mover_die("the command cannot be started: %s", strerror(errno));
	for (size_t i = 0; i < n; i++)
		nftw(paths[i], drop, 64, FTW_PHYS | FTW_DEPTH);
	place_clean();
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

_Noreturn static void become(const struct user *who, char **argv, const char *name)
{
	if (setgroups(who->groups_n, who->groups) < 0 || setresgid(who->gid, who->gid, who->gid) < 0 ||
		setresuid(who->uid, who->uid, who->uid) < 0)
		mover_die("cannot become user '%s': %s", name, strerror(errno));
	execvp(argv[0], argv);
	mover_die("'%s' cannot be run: %s", argv[0], strerror(errno));
}

int mover_run(int argc, char **argv)
{
	struct user who;
	size_t n = 0;
	/* The build shows one stream. */
	dup2(1, 2);
	auto_free char **paths = xcalloc((size_t)argc + 1, sizeof *paths);
	umask(022);
	int at = take_mounts(argc, argv, paths, &n);
	if (argc - at < 3)
		mover_die("run needs a user, a directory and a command");
	const char *name = argv[at++], *dir = argv[at++];
	mover_user(name, &who);
	make_path(dir, &(struct user){0});
	if (chdir(dir) < 0)
		mover_die("the directory '%s' cannot be entered: %s", dir, strerror(errno));
	setenv("HOME", *who.home ? who.home : "/", 1);
	for (; at < argc && strcmp(argv[at], "--") != 0; at++)
		putenv(argv[at]);
	if (++at >= argc)
		mover_die("run needs a command");
	if (n || place_any())
		run_apart(paths, n);
	become(&who, argv + at, name);
}
