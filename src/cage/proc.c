#include "cage/proc.h"

#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "base/fd.h"
#include "cage/fs.h"
#include "proto/limits.h"

/* Files that belong to the host's root with mode 0400 (kpageflags, slabinfo, vmallocinfo …) are closed to a box by the
 * user namespace alone. Programs need to read the size and load of the machine (cpuinfo, meminfo, stat, loadavg,
 * uptime, vmstat) and the kernel's abilities (version, filesystems, cgroups): these stay. */
static const char *const covered_files[] = {"kcore", "keys", "key-users", "kallsyms", "kmsg", "timer_list",
	"sched_debug", "latency_stats", "interrupts", "mtrr", "sysrq-trigger", "kpagecount", "kpageflags",
	"kpagecgroup",
	/* How the host was booted and built, its modules, buses, disks and memory, and who locks which of its files. A
	 * read of `locks` holds up all who take locks. */
	"cmdline", "bootconfig", "config.gz", "modules", "iomem", "ioports", "diskstats", "partitions", "swaps",
	"locks", "mdstat", "softirqs", "schedstat", "zoneinfo", "buddyinfo", "allocinfo"};
/* Hardware and disks of the host. And pressure/, whose files every user may write: each write adds a trigger that the
 * kernel watches. */
static const char *const covered_dirs[] = {"acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi"};

#define TEXT_(n) #n
#define TEXT(n)	 TEXT_(n)
static const struct {
	const char *file, *value;
} user_limits[] = {
	{"max_user_namespaces", "0"},
	{"max_pid_namespaces", "0"},
	{"max_net_namespaces", "0"},
	{"max_mnt_namespaces", "0"},
	{"max_ipc_namespaces", "0"},
	{"max_uts_namespaces", "0"},
	{"max_cgroup_namespaces", "0"},
	{"max_time_namespaces", "0"},
	{"max_inotify_instances", TEXT(BOX_INOTIFY_INSTANCES)},
	{"max_inotify_watches", TEXT(BOX_INOTIFY_WATCHES)},
};

/* Memory of the network that no cgroup counts. A connection that no program has accepted takes 4 KiB; a socket's
 * options (optmem) and connections in TIME_WAIT are not charged either. Kernels before 6.8 have one optmem_max for all
 * namespaces, with this value. */
static const struct {
	const char *file, *value;
} net_limits[] = {
	{"sys/net/core/somaxconn", TEXT(BOX_SOMAXCONN)},
	{"sys/net/core/optmem_max", TEXT(BOX_OPTMEM)},
	{"sys/net/ipv4/tcp_max_tw_buckets", TEXT(BOX_TIME_WAIT)},
};

int proc_make(struct err *e)
{
	return fs_make("proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "mount /proc", e);
}

static int limit_net(int proc, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(net_limits); i++) {
		int r = fd_write_file(proc, net_limits[i].file, str_of(net_limits[i].value));
		if (r < 0 && r != -ENOENT)
			return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "write /proc/%s", net_limits[i].file);
	}
	return 0;
}

static int limit_user(int dir, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(user_limits); i++) {
		int r = fd_write_file(dir, user_limits[i].file, str_of(user_limits[i].value));
		if (r < 0 && r != -ENOENT)
			return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "write /proc/sys/user/%s", user_limits[i].file);
	}
	return 0;
}

/* Puts a copy of the mount at from_dir/from over proc/name. A name that this kernel does not have is no error. */
static int put_over(int proc, const char *name, int from_dir, const char *from, unsigned attrs, struct err *e)
{
	auto_fd int target = openat(proc, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (target < 0)
		return errno == ENOENT ? 0 : err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open /proc/%s", name);
	auto_fd int copy = fs_clone(from_dir, from, 0, e);
	if (copy < 0 || fs_set(copy, attrs, -1, e) < 0)
		return -1;
	if (sys_move_mount(copy, target) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "cover /proc/%s", name);
	return 0;
}

static int check_sources(int proc, int dev, struct err *e)
{
	struct statfs fs;
	struct stat null;
	if (fstatfs(proc, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
		return err_set(e, ERRC_BOX_CREATE_FAILED, "/proc is not a procfs");
	if (fstatat(dev, "null", &null, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISCHR(null.st_mode) ||
		null.st_rdev != makedev(1, 3))
		return err_set(e, ERRC_BOX_CREATE_FAILED, "/dev/null is not the null device");
	return 0;
}

int proc_protect(int proc, int dev, int empty, struct err *e)
{
	if (check_sources(proc, dev, e) < 0 || limit_net(proc, e) < 0)
		return -1;
	auto_fd int user = openat(proc, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (user < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open /proc/sys/user");
	for (size_t i = 0; i < ARRAY_LEN(covered_files); i++)
		if (put_over(proc, covered_files[i], dev, "null", MOUNT_ATTR_RDONLY, e) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LEN(covered_dirs); i++)
		if (put_over(proc, covered_dirs[i], empty, "", MOUNT_ATTR_RDONLY, e) < 0)
			return -1;
	/* After all covers: a cloned mount counts as a mount namespace until it is placed. */
	if (limit_user(user, e) < 0)
		return -1;
	/* All of /proc: the files of a process (oom_score_adj) have no mount point of their own. */
	return fs_set(proc, MOUNT_ATTR_RDONLY, -1, e);
}
