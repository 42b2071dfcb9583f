/*
 * /proc and /sys: the files that command the kernel, and those that tell its secrets.
 *
 * Two layers refuse a write: kernel files belong to host root, which has no id in the box (EACCES), and the mount is
 * read-only (EROFS). The first hides the second, so the second is asked for by statvfs: both must hold.
 */
#include "escape/escape.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

enum { SYSFS_TYPE = 0x62656572, CGROUP_TYPE = 0x27e0eb, CGROUP2_TYPE = 0x63677270, SYSLOG_READ_ALL = 3 };

/* A device takes writes also on a read-only mount: the opened file is the cover, which forgets them. */
static bool is_null(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

/* Opens for writing, never writes. ENOENT means that this kernel has no such file. */
static void try_write(struct outcome *o, const char *path)
{
	struct statvfs fs;
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	int os = errno;
	expect(o, "EROFS or EACCES on a read-only mount");
	if (fd >= 0 && is_null(fd))
		refused(o, "%s: covered by /dev/null", path);
	else if (fd >= 0)
		escaped(o, "%s opened for writing", path);
	else if (os == ENOENT)
		skipped(o, "this kernel has no %s", path);
	else if (os != EROFS && os != EACCES)
		errored(o, "%s: %s, expected EROFS or EACCES", path, errno_name(os));
	else if (statvfs(path, &fs) < 0)
		errored(o, "statvfs %s: %s", path, errno_name(errno));
	else if (!(fs.f_flag & ST_RDONLY))
		errored(o, "%s: %s by its owner alone, the mount is writable", path, errno_name(os));
	else
		refused(o, "%s: %s, read-only", path, errno_name(os));
}

static void write_path(const struct check *c, struct outcome *o)
{
	try_write(o, c->data);
}

/* Counts instead of naming: a tree has a thousand files. */
struct walk {
	int files, open, writable_mount;
	char first[256];
};

static void walk_file(const char *path, struct walk *w)
{
	struct statvfs fs;
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	w->files++;
	if (fd >= 0 && w->open++ == 0)
		snprintf(w->first, sizeof(w->first), "%s", path);
	else if (fd < 0 && statvfs(path, &fs) == 0 && !(fs.f_flag & ST_RDONLY) && w->writable_mount++ == 0 && !w->open)
		snprintf(w->first, sizeof(w->first), "%s", path);
}

static void walk_tree(const char *dir, struct walk *w, int depth)
{
	char path[512];
	DIR *d = depth < 12 ? opendir(dir) : NULL;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_type == DT_DIR)
			walk_tree(path, w, depth + 1);
		else if (e->d_type == DT_REG)
			walk_file(path, w);
	}
	if (d)
		closedir(d);
}

static void judge_walk(struct outcome *o, const char *dir, const struct walk *w)
{
	expect(o, "every file refused");
	if (w->open)
		escaped(o, "%d of %d files under %s open for writing, first %s", w->open, w->files, dir, w->first);
	else if (w->writable_mount)
		errored(o, "%d of %d files under %s refused by their owner alone, first %s", w->writable_mount,
			w->files, dir, w->first);
	else if (w->files == 0)
		errored(o, "%s shows no files", dir);
	else
		refused(o, "none of %d files under %s", w->files, dir);
}

static void proc_sys_all(const struct check *c, struct outcome *o)
{
	(void)c;
	struct walk w = {0};
	walk_tree("/proc/sys", &w, 0);
	judge_walk(o, "/proc/sys", &w);
}

/* All of /proc that does not belong to one process, also files that the next kernel adds. */
static void proc_all(const struct check *c, struct outcome *o)
{
	(void)c;
	struct walk w = {0};
	char path[300];
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		struct stat st;
		snprintf(path, sizeof(path), "/proc/%s", e->d_name);
		if (e->d_name[0] == '.' || (e->d_name[0] >= '0' && e->d_name[0] <= '9') || lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			walk_tree(path, &w, 1);
		else if (S_ISREG(st.st_mode))
			walk_file(path, &w);
	}
	if (d)
		closedir(d);
	judge_walk(o, "/proc", &w);
}

/* A secret is kept when it cannot be opened or read, or is masked: nothing in it, not one line. */
static void try_read(struct outcome *o, const char *path)
{
	char text[4096];
	struct stat st;
	ssize_t n = slurp(path, text, sizeof(text));
	expect(o, "masked: empty, EACCES or EPERM");
	if (n == -ENOENT)
		skipped(o, "this kernel has no %s", path);
	else if (n == -EACCES || n == -EPERM)
		refused(o, "%s: %s", path, errno_name((int)-n));
	else if (n < 0)
		errored(o, "%s: %s", path, errno_name((int)-n));
	else if (n > 0)
		escaped(o, "%s can be read: '%.40s'", path, text);
	else if (stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISREG(st.st_mode)))
		refused(o, "%s is masked", path);
	else
		errored(o, "%s is neither masked nor readable", path);
}

static void read_path(const struct check *c, struct outcome *o)
{
	try_read(o, c->data);
}

static void read_paths(const struct check *c, struct outcome *o)
{
	for (const char *const *path = c->data; *path; path++)
		try_read(o, *path);
}

/* Directories that tell of hardware, disks and load of the host: covered by an empty one. */
static void covered_dirs(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const dirs[] = {"/proc/acpi", "/proc/asound", "/proc/bus", "/proc/driver", "/proc/fs",
		"/proc/irq", "/proc/pressure", "/proc/scsi", "/sys"};
	expect(o, "empty");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		DIR *d = opendir(dirs[i]);
		if (!d && errno != ENOENT)
			errored(o, "%s: %s", dirs[i], errno_name(errno));
		if (!d)
			continue;
		refused(o, "%s is empty", dirs[i]);
		for (struct dirent *e; (e = readdir(d));)
			if (e->d_name[0] != '.')
				escaped(o, "%s/%s can be seen", dirs[i], e->d_name);
		closedir(d);
	}
}

/* Addresses of the kernel: masked, or all of them zero. */
static void kallsyms(const struct check *c, struct outcome *o)
{
	(void)c;
	char text[65536];
	ssize_t n = slurp("/proc/kallsyms", text, sizeof(text));
	if (n <= 0) {
		try_read(o, "/proc/kallsyms");
		return;
	}
	expect(o, "masked, or every address zero");
	for (char *line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0)
		if (strspn(line, "0") < 16) {
			escaped(o, "/proc/kallsyms gives addresses: '%.40s'", line);
			return;
		}
	refused(o, "/proc/kallsyms shows no address");
}

static void dmesg(const struct check *c, struct outcome *o)
{
	(void)c;
	char text[256];
	TRY(o, "syslog(2)", syscall(SYS_syslog, SYSLOG_READ_ALL, text, sizeof(text)), EPERM);
	/* Reading would take lines away from the host's own reader: look at the kind of the file instead. */
	struct stat st;
	auto_fd int fd = open("/proc/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		TRY(o, "open(/proc/kmsg)", -1, EACCES, EPERM);
	else if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode))
		refused(o, "/proc/kmsg is masked");
	else
		escaped(o, "/proc/kmsg can be read");
}

/* sysfs is not mounted at all; a box that had it would show devices, cgroups and uevent_helper. */
static void sysfs(const struct check *c, struct outcome *o)
{
	(void)c;
	struct statfs fs;
	char mounts[16384];
	expect(o, "no sysfs, cgroup, debugfs, tracefs, securityfs or configfs mounted");
	if (statfs("/sys", &fs) == 0 &&
		(fs.f_type == SYSFS_TYPE || fs.f_type == CGROUP_TYPE || fs.f_type == CGROUP2_TYPE))
		escaped(o, "/sys is mounted");
	if (slurp("/proc/self/mounts", mounts, sizeof(mounts)) <= 0) {
		errored(o, "/proc/self/mounts cannot be read");
		return;
	}
	static const char *const bad[] = {" sysfs ", " cgroup ", " cgroup2 ", " debugfs ", " tracefs ", " securityfs ",
		" configfs ", " bpf ", " pstore ", " efivarfs ", " devtmpfs ", " hugetlbfs ", " binfmt_misc ",
		" fusectl "};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (strstr(mounts, bad[i]))
			escaped(o, "mounted:%s", bad[i]);
	refused(o, "none is mounted");
}

/* Going through init's root must end in the same place as "/". */
static void proc_root(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const ways[] = {"/proc/1/root", "/proc/1/root/..", "/proc/1/root/../../../..",
		"/proc/1/cwd/../../..", "/proc/self/root/../..", "/proc/1/task/1/root/.."};
	struct stat root, there;
	expect(o, "EACCES, or the box's own root");
	if (stat("/", &root) < 0) {
		errored(o, "stat(/): %s", errno_name(errno));
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		if (stat(ways[i], &there) < 0)
			TRY(o, ways[i], -1, EACCES, EPERM);
		else if (there.st_dev != root.st_dev || there.st_ino != root.st_ino)
			escaped(o, "%s is another root", ways[i]);
		else
			refused(o, "%s is this root", ways[i]);
	}
}

/* Words that have no business in an environment which any command of the box can read. */
static void environ_of(struct outcome *o, int pid)
{
	static const char *const bad[] = {"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "API_KEY", "PRIVATE", "ATOLL_DATA",
		"ATOLL_RUN", "ATOLL_LISTEN", "SSH_", "SUDO_", "AWS_"};
	char path[64], env[16384];
	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	ssize_t n = slurp(path, env, sizeof(env));
	if (n < 0) {
		if (n != -ENOENT && n != -ESRCH)
			TRY(o, path, (errno = (int)-n, -1), EACCES, EPERM);
		return;
	}
	for (char *at = env; at < env + n; at += strlen(at) + 1)
		for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
			const char *end = strchr(at, '=');
			const char *hit = strstr(at, bad[i]);
			if (hit && end && hit < end)
				escaped(o, "%s has %.*s", path, (int)(end - at), at);
		}
	refused(o, "%s has no secret", path);
}

static void environ_secrets(const struct check *c, struct outcome *o)
{
	(void)c;
	expect(o, "EACCES, or nothing of the host in it");
	each_pid(environ_of, o);
}

static const char *const kernel_secrets[] = {"/proc/timer_list", "/proc/locks", "/proc/sched_debug",
	"/proc/latency_stats", "/proc/timer_stats", "/proc/vmallocinfo", "/proc/pagetypeinfo", "/proc/slabinfo",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/interrupts", "/proc/mtrr", NULL};
static const char *const host_facts[] = {"/proc/cmdline", "/proc/bootconfig", "/proc/config.gz", "/proc/modules",
	"/proc/iomem", "/proc/ioports", "/proc/diskstats", "/proc/partitions", "/proc/swaps", "/proc/mdstat",
	"/proc/softirqs", "/proc/schedstat", "/proc/zoneinfo", "/proc/buddyinfo", "/proc/allocinfo", NULL};
static const char *const key_lists[] = {"/proc/keys", "/proc/key-users", NULL};
#define MASK "masked /proc, foreign owner"
#define RO   "read-only /proc, foreign owner"
static const struct check checks[] = {
	{"core-pattern-write", "CVE-2022-0811 family: a program of ours as the host's core dump handler", RO,
		write_path, "/proc/sys/kernel/core_pattern", CHECK_DEMO},
	{"modprobe-write", "a program of ours as the host's module loader", RO, write_path, "/proc/sys/kernel/modprobe",
		CHECK_DEMO},
	{"hotplug-write", "a program of ours as the host's hotplug helper", RO, write_path, "/proc/sys/kernel/hotplug",
		CHECK_DEMO},
	{"uevent-helper-write", "a program of ours as the kernel's uevent helper", "no sysfs", write_path,
		"/sys/kernel/uevent_helper", CHECK_DEMO},
	{"binfmt-register", "a binary format of ours for every program of the host", RO, write_path,
		"/proc/sys/fs/binfmt_misc/register", CHECK_DEMO},
	{"sysrq-trigger", "reboot or crash the host through sysrq", MASK, write_path, "/proc/sysrq-trigger",
		CHECK_DEMO},
	{"proc-sys-write", "every file under /proc/sys", RO, proc_sys_all, NULL, CHECK_DEMO},
	{"proc-write", "every file of /proc that belongs to no process", RO, proc_all, NULL, CHECK_DEMO},
	{"kcore-read", "the host's memory through /proc/kcore", MASK, read_path, "/proc/kcore", CHECK_DEMO},
	{"kallsyms-read", "the kernel's addresses through /proc/kallsyms", MASK, kallsyms, NULL, CHECK_DEMO},
	{"keys-read", "the keys of other users through /proc/keys", MASK, read_paths, key_lists, CHECK_DEMO},
	{"dmesg", "the kernel log through syslog(2) and /proc/kmsg", "seccomp, capabilities, masked /proc", dmesg, NULL,
		CHECK_DEMO},
	{"kernel-secrets-read", "timers, allocator, page and interrupt tables of the host", MASK, read_paths,
		kernel_secrets, CHECK_DEMO},
	{"host-facts-read", "how the host was booted and built, its modules, disks and memory", "masked /proc",
		read_paths, host_facts, CHECK_DEMO},
	{"hardware-read", "hardware, disks and load of the host (CVE-2020-8694 …)", "masked /proc, no sysfs",
		covered_dirs, NULL, CHECK_DEMO},
	{"sysfs-absent", "sysfs, cgroupfs, debugfs and their like", "mount namespace", sysfs, NULL, CHECK_DEMO},
	{"proc-root", "the host's root through /proc/1/root", "pid and mount namespace", proc_root, NULL, 0},
	{"environ-secrets", "tokens in the environment of PID 1 or of any command", "clean environment",
		environ_secrets, NULL, 0},
};
const struct check_group group_procfs = {"procfs", checks, ARRAY_LEN(checks)};
