/*
 * doctor_storage.c - where the files of boxes can live on this host: a pool with limits and snapshots, or plain
 * directories. And whether daemons that have ended keep images.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/fd.h"
#include "cli/client.h"
#include "cli/doctor/doctor.h"

#define BTRFS_MAGIC 0x9123683e

static const char plain[] = "files stay in plain directories: no disk limits, no snapshots, no durable fsync";

static bool has_mkfs(void)
{
	static const char *const places[] = {"/usr/sbin/mkfs.btrfs", "/sbin/mkfs.btrfs", "/usr/bin/mkfs.btrfs"};
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], X_OK) == 0)
			return true;
	return false;
}

static bool kernel_has_btrfs(void)
{
	char list[8192], module[256];
	struct utsname u;
	if (doctor_read("/proc/filesystems", list, sizeof list) && strstr(list, "\tbtrfs"))
		return true;
	uname(&u);
	snprintf(module, sizeof module, "/lib/modules/%.100s/kernel/fs/btrfs", u.release);
	return access(module, F_OK) == 0;
}

static void check_pool(struct cli *c, struct doctor_row *r)
{
	(void)c;
	const char *kind = getenv("ATOLL_POOL"), *data = cli_data_dir();
	struct statfs st = {0};
	bool on_btrfs = statfs(data, &st) == 0 && st.f_type == BTRFS_MAGIC;
	if (kind && strcmp(kind, "plain") == 0)
		doctor_set(r, DOCTOR_NOTE, "Unset ATOLL_POOL.", "ATOLL_POOL is plain: %s", plain);
	else if (!kernel_has_btrfs())
		doctor_set(r, DOCTOR_NOTE, "Use a kernel with CONFIG_BTRFS_FS.", "no btrfs in this kernel; %s", plain);
	else if (on_btrfs)
		doctor_set(r, DOCTOR_OK, NULL, "%s is on btrfs and is used as it is", data);
	else if (access("/dev/loop-control", F_OK) < 0)
		doctor_set(r, DOCTOR_NOTE, "modprobe loop", "no loop devices; %s", plain);
	else if (!has_mkfs())
		doctor_set(r, DOCTOR_NOTE, "apt-get install btrfs-progs", "mkfs.btrfs is missing; %s", plain);
	else
		doctor_set(r, DOCTOR_OK, NULL, "a btrfs in the file pool.img: disk limits and snapshots");
}

/* Whether the kernel counts nothing any more on some btrfs of this host, which may be the pool. */
static bool quotas_inconsistent(void)
{
	bool found = false;
	char text[8];
	glob_t g = {0};
	if (glob("/sys/fs/btrfs/*-*/qgroups/inconsistent", 0, NULL, &g) == 0)
		for (size_t i = 0; i < g.gl_pathc; i++)
			found |= doctor_read(g.gl_pathv[i], text, sizeof text) && strcmp(text, "1") == 0;
	globfree(&g);
	return found;
}

enum quota { QUOTA_UNKNOWN, QUOTA_NONE, QUOTA_SIMPLE, QUOTA_FULL, QUOTA_UNCOUNTED };

/* What the warden's pool has: it may have been made by another kernel. Unknown without a daemon that has a warden. */
static enum quota ask_quota(struct cli *c)
{
	auto_client struct client cl = {0};
	auto_buf struct buf body = {0};
	struct err e;
	struct str kind = STR_NULL;
	bool inconsistent = false;
	int status = client_open(c, &cl, &e);
	if (status == 0)
		status = client_ask(&cl, "GET", "/v1/health", STR(""), &body, &e);
	c->hint[0] = 0;
	auto_json struct json_doc *d = status == 200 ? json_parse(buf_str(&body), NULL) : NULL;
	const struct json *pool = d ? json_get(json_get(json_root(d), "host"), "pool") : NULL;
	if (!pool)
		return QUOTA_UNKNOWN;
	json_read_str(pool, "quota", &kind, NULL);
	json_read_bool(pool, "inconsistent", &inconsistent, NULL);
	return inconsistent		  ? QUOTA_UNCOUNTED
	       : str_eq_c(kind, "simple") ? QUOTA_SIMPLE
	       : str_eq_c(kind, "full")	  ? QUOTA_FULL
					  : QUOTA_NONE;
}

/* What a pool that is made now would have. */
static enum quota expect_quota(void)
{
	struct utsname u;
	int major = 0, minor = 0;
	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	if (!kernel_has_btrfs())
		return QUOTA_NONE;
	if (quotas_inconsistent())
		return QUOTA_UNCOUNTED;
	return major > 6 || (major == 6 && minor >= 7) ? QUOTA_SIMPLE : QUOTA_FULL;
}

static void check_quota(struct cli *c, struct doctor_row *r)
{
	enum quota q = ask_quota(c);
	const char *would = q == QUOTA_UNKNOWN ? "would be " : "";
	if (q == QUOTA_UNKNOWN)
		q = expect_quota();
	if (q == QUOTA_NONE)
		doctor_set(r, DOCTOR_NOTE, NULL, "no pool of btrfs, no quotas");
	else if (q == QUOTA_UNCOUNTED)
		doctor_set(r, DOCTOR_NOTE,
			"A pool of Atoll is counted within seconds, or its log says why not; on a btrfs of the host: "
			"btrfs quota rescan -w MOUNT",
			"Linux has given up counting: until all is counted anew, disk limits do not hold");
	else if (q == QUOTA_SIMPLE)
		doctor_set(r, DOCTOR_OK, NULL, "%ssimple quotas: they cost nothing on a write", would);
	else
		doctor_set(r, DOCTOR_NOTE,
			"Linux 6.7 or newer gives simple quotas to a pool that it makes; a pool keeps the kind it has.",
			"%sfull quota groups: a snapshot counts as much as its box's files, and the first write of a "
			"box takes 1.2 ms more",
			would);
}

/* ---- notes of daemons that share the image directory ---- */

enum { ENDED_AFTER = 7 * 86400, SILENT_AFTER = 30 * 86400 };

struct ended {
	size_t n;
	char first[80];
};

/* The lock that its warden holds in staging/INSTANCE. */
static bool warden_lives(const char *instance)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	auto_free char *path = xasprintf("%s/staging/%s/lock", cli_images_dir(), instance);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && (fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK);
}

/* Its data directory is gone, or it has never said where that is and has noted nothing for long. */
static bool has_ended(const char *instance)
{
	struct stat st, data;
	char where[4096];
	auto_free char *notes = xasprintf("%s/users/%s", cli_images_dir(), instance);
	auto_free char *path = xasprintf("%s/.data", notes);
	if (lstat(notes, &st) < 0 || !S_ISDIR(st.st_mode) || warden_lives(instance))
		return false;
	time_t rests = time(NULL) - st.st_mtime;
	if (!doctor_read(path, where, sizeof where) || !*where)
		return rests > SILENT_AFTER;
	return rests > ENDED_AFTER && lstat(where, &data) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

static void look_at_notes(DIR *users, struct ended *ret)
{
	for (struct dirent *d; (d = readdir(users));)
		if (d->d_name[0] != '.' && has_ended(d->d_name) && !ret->n++)
			snprintf(ret->first, sizeof ret->first, "%.79s", d->d_name);
}

static void check_notes(struct cli *c, struct doctor_row *r)
{
	struct ended found = {0};
	char advice[240];
	(void)c;
	auto_free char *path = xasprintf("%s/users", cli_images_dir());
	DIR *users = opendir(path);
	if (!users && errno == EACCES)
		return doctor_set(r, DOCTOR_UNKNOWN, "Run 'atoll doctor' as root.", "you may not read %.150s", path);
	if (users) {
		look_at_notes(users, &found);
		closedir(users);
	}
	if (!found.n)
		return doctor_set(r, DOCTOR_OK, NULL, "no daemon that has ended keeps images");
	snprintf(advice, sizeof advice, "If it will not come back: rm -r %.120s/%s", path, found.first);
	doctor_set(r, DOCTOR_NOTE, advice, "%zu daemon%s that seem%s to have ended still keep%s images", found.n,
		found.n > 1 ? "s" : "", found.n > 1 ? "" : "s", found.n > 1 ? "" : "s");
}

const struct doctor_check doctor_storage_checks[] = {
	{"storage", "pool", check_pool},
	{"storage", "disk quotas", check_quota},
	{"storage", "image notes", check_notes},
};
const size_t doctor_storage_checks_count = ARRAY_LEN(doctor_storage_checks);
