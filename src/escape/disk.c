/*
 * The disk of the host: bytes, and files without bytes. The box has a limit of disk_mib; both attacks must end there
 * with EDQUOT, or with ENOSPC where the whole pool is smaller. A sparse file proves nothing: it takes no space.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "escape/escape.h"

/* Even an empty file takes 128 bytes of metadata: more of them than this in a MiB are not counted. */
enum { FILES_PER_MIB = 8192 };
enum { BLOCK = 1 << 16, BLOCKS_PER_MIB = 16 };

static bool limit_of(struct outcome *o, long *ret_mib)
{
	*ret_mib = arg_number("disk_mib");
	expect(o, "EDQUOT at the disk limit of the box");
	if (*ret_mib > 0)
		return true;
	skipped(o, "no disk limit on this host; 'atoll doctor' says why");
	return false;
}

static void judge(struct outcome *o, const char *what, bool bounded, long n, const char *unit, int os)
{
	if (!bounded)
		escaped(o, "%s: %ld %s and no end", what, n, unit);
	else if (os == EDQUOT || os == ENOSPC)
		refused(o, "%s: %s after %ld %s", what, errno_name(os), n, unit);
	else
		errored(o, "%s: %s after %ld %s", what, errno_name(os), n, unit);
}

/* Writes blocks to the disk until one is refused, at most `max`; returns how many, and the errno. */
static long fill_file(const char *path, long max, int *ret_os)
{
	char block[BLOCK];
	long n = 0;
	memset(block, 0x5a, sizeof block);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (*ret_os = fd < 0 ? errno : 0; !*ret_os && n < max; n++) {
		/* A block that fits in part is followed by one that does not fit at all. */
		if (write(fd, block, sizeof block) < 0 || (n % BLOCKS_PER_MIB == 0 && fdatasync(fd) < 0))
			*ret_os = errno;
	}
	return n;
}

static void disk_bound(const struct check *c, struct outcome *o)
{
	(void)c;
	char path[128];
	long mib;
	int os;
	if (!limit_of(o, &mib))
		return;
	snprintf(path, sizeof path, "%s/big", scratch_dir());
	long n = fill_file(path, mib * BLOCKS_PER_MIB, &os);
	unlink(path);
	judge(o, "one file", os != 0, n / BLOCKS_PER_MIB, "MiB", os);
}

typedef int (*make_entry)(const char *path, const char *first);

static int make_empty(const char *path, const char *first)
{
	(void)first;
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -1 : 0;
}

static int make_name(const char *path, const char *first)
{
	return link(first, path);
}

/* A file has at most 65535 names: a new first one now and then. Long names fill the disk sooner. */
static long make_many(make_entry make, int width, long max, int *ret_os)
{
	enum { NAMES_PER_FILE = 10000 };
	char path[400], first[400] = "";
	long n = 0;
	for (*ret_os = 0; !*ret_os && n < max; n++) {
		bool is_first = n % NAMES_PER_FILE == 0;
		snprintf(path, sizeof path, "%s/%0*ld", scratch_dir(), width, n);
		if (is_first)
			memcpy(first, path, sizeof first);
		if ((is_first ? make_empty : make)(path, first) < 0)
			*ret_os = errno;
	}
	return n;
}

static void disk_inodes(const struct check *c, struct outcome *o)
{
	(void)c;
	static const struct {
		const char *what;
		make_entry make;
		int width; /* of names */
	} ways[] = {{"empty files", make_empty, 1}, {"names of files", make_name, 200}};
	long mib;
	int os;
	if (!limit_of(o, &mib))
		return;
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		long n = make_many(ways[i].make, ways[i].width, mib * FILES_PER_MIB, &os);
		judge(o, ways[i].what, os != 0, n, "of them", os);
		scratch_remove();
	}
}

#define SMALL_DISK (NEXT_DOOR | CHECK_SMALL_DISK)
static const struct check checks[] = {
	{"disk-bound", "the whole disk of the host", "disk quota", disk_bound, NULL, SMALL_DISK},
	{"disk-inodes", "millions of files without content", "disk quota, which counts metadata", disk_inodes, NULL,
		SMALL_DISK},
};
const struct check_group group_disk = {"disk", checks, ARRAY_LEN(checks)};
