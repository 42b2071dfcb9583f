/*
 * up_pool.c - makes the file of the pool: a btrfs that holds the files of all sandboxes.
 *
 * The file is allocated, not sparse: a file system below that runs full would turn the pool read-only for every box. It
 * starts small; the warden lets it grow ahead of need. It gets its name when it is complete.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/log.h"
#include "cli/up/up.h"
#include "proto/size.h"

#define BTRFS_MAGIC 0x9123683e

static const char *setting(const char *name)
{
	const char *v = getenv(name);
	return v && *v ? v : NULL;
}

static int run_mkfs(const char *path)
{
	char *argv[] = {
		"mkfs.btrfs", "-q", "-f", "-K", "-m", "single", "-d", "single", "-L", "atoll", (char *)path, NULL};
	extern char **environ;
	pid_t pid;
	int status = 0;
	/* It prints notes even when told to be quiet; our own output is for programs. */
	posix_spawn_file_actions_t quiet;
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	int r = posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&quiet);
	if (r != 0)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

/* The size to begin with; 0: there is no room. */
static uint64_t first_size(const struct statfs *st, uint64_t max)
{
	uint64_t room = st->f_bavail * (uint64_t)st->f_bsize, size = UP_POOL_FIRST;
	if (max && max < size)
		size = max;
	if (size > room / 2)
		size = room / 2;
	size -= size % UP_POOL_ALIGN;
	return size < UP_POOL_MIN ? 0 : size;
}

static int fill_file(const char *path, uint64_t size)
{
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fchmod(fd, 0600) < 0 || fallocate(fd, 0, 0, (off_t)size) < 0)
		return errno;
	return run_mkfs(path);
}

static void warn_plain(const char *why)
{
	log_event(LOG_WARN, "no pool: sandboxes have no disk limits and no snapshots", "why=%s", LOG_Q(why));
}

static void make_file(const char *path, uint64_t size)
{
	char half[PATH_MAX + 32], why[160];
	snprintf(half, sizeof half, "%s.new", path);
	int r = fill_file(half, size);
	if (r == 0 && rename(half, path) < 0)
		r = errno;
	if (r == 0) {
		log_event(LOG_INFO, "made the pool", "path=%s bytes=%llu", LOG_Q(path), (unsigned long long)size);
		return;
	}
	unlink(half);
	if (r == ENOENT)
		snprintf(why, sizeof why, "mkfs.btrfs is missing: apt-get install btrfs-progs");
	else
		snprintf(why, sizeof why, "making %s: %s", "pool.img", strerror(r));
	warn_plain(why);
}

int up_prepare_pool(struct cli *c, const struct up_place *p, struct err *e)
{
	const char *kind = setting("ATOLL_POOL"), *text = setting("ATOLL_POOL_SIZE");
	uint64_t max = 0;
	char path[PATH_MAX + 16];
	struct statfs st = {0};
	if (kind && strcmp(kind, "plain") != 0 && strcmp(kind, "btrfs") != 0) {
		cli_hint(c, "Unset it, or set it to 'plain'.");
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_POOL can be 'btrfs' or 'plain', not '%s'", kind);
	}
	if (text && (!size_parse(str_of(text), &max) || max < UP_POOL_MIN)) {
		cli_hint(c, "Write it like 100G; at least 256M.");
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_POOL_SIZE is '%s', which is no size of a pool", text);
	}
	snprintf(path, sizeof path, "%s/pool.img", p->data);
	bool plain = kind && strcmp(kind, "plain") == 0;
	if (plain || access(path, F_OK) == 0 || statfs(p->data, &st) < 0 || st.f_type == BTRFS_MAGIC)
		return 0;
	uint64_t size = first_size(&st, max);
	if (size)
		make_file(path, size);
	else
		warn_plain("the disk of the data directory has too little room");
	return 0;
}
