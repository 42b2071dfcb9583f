/*
 * Mounts: new mounts, changes to mounts that mask and protect, files reached past them, and the table of mounts.
 */
#include "escape/escape.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

/* <sys/mount.h> and <linux/mount.h> do not go together. */
int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
int umount2(const char *target, int flags);

enum { DETACH = 2, NOFOLLOW = 8 };

struct mount_args {
	const char *source, *target, *type;
	unsigned long flags;
};

static void try_mount(struct outcome *o, const char *what, struct mount_args m)
{
	long rc = TRY(o, what, mount(m.source, m.target, m.type, m.flags, NULL), EPERM);
	if (rc == 0 && !(m.flags & (MS_REMOUNT | MS_SHARED | MS_SLAVE | MS_PRIVATE)))
		umount2(m.target, DETACH);
}

/* Every kind of file system whose mount has been a way out, each on an empty directory of ours. */
static void mount_new(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const types[] = {"tmpfs", "proc", "sysfs", "devpts", "mqueue", "overlay", "devtmpfs",
		"debugfs", "tracefs", "securityfs", "bpf", "fuse", "9p", "cgroup2", "binfmt_misc", "ramfs"};
	char what[64], dir[128];
	snprintf(dir, sizeof(dir), "%s/m", scratch_dir());
	mkdir(dir, 0700);
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		snprintf(what, sizeof(what), "mount(%s)", types[i]);
		try_mount(o, what, (struct mount_args){"none", dir, types[i], 0});
	}
	try_mount(o, "mount(bind)", (struct mount_args){"/", dir, NULL, MS_BIND | MS_REC});
	try_mount(o, "mount(bind /proc/1/root)", (struct mount_args){"/proc/1/root", dir, NULL, MS_BIND});
	rmdir(dir);
}

/* The masks and the read-only parts, taken away again. */
static void mount_change(const struct check *c, struct outcome *o)
{
	(void)c;
	try_mount(o, "remount / rw", (struct mount_args){NULL, "/", NULL, MS_REMOUNT | MS_BIND});
	try_mount(o, "remount /proc rw", (struct mount_args){NULL, "/proc", NULL, MS_REMOUNT | MS_BIND});
	try_mount(o, "remount /dev rw", (struct mount_args){NULL, "/dev", NULL, MS_REMOUNT | MS_BIND});
	try_mount(o, "move /proc", (struct mount_args){"/proc", "/var/tmp", NULL, MS_MOVE});
	try_mount(o, "make / shared", (struct mount_args){NULL, "/", NULL, MS_SHARED | MS_REC});
	try_mount(o, "make / a slave", (struct mount_args){NULL, "/", NULL, MS_SLAVE | MS_REC});
}

static void unmount(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const paths[] = {
		"/proc/sys", "/proc/sysrq-trigger", "/proc/kcore", "/proc", "/dev", "/dev/pts", "/"};
	char what[64];
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct stat st;
		if (lstat(paths[i], &st) < 0 && errno == ENOENT)
			continue; /* a kernel without it has no mask on it either */
		snprintf(what, sizeof(what), "umount(%s)", paths[i]);
		TRY(o, what, umount2(paths[i], NOFOLLOW), EPERM);
		TRY(o, what, umount2(paths[i], NOFOLLOW | DETACH), EPERM);
	}
}

static void mount_api(const struct check *c, struct outcome *o)
{
	(void)c;
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
	TRY(o, "fsopen(tmpfs)", syscall(SYS_fsopen, "tmpfs", 0), EPERM, ENOSYS);
	TRY(o, "fsopen(proc)", syscall(SYS_fsopen, "proc", 0), EPERM, ENOSYS);
	TRY(o, "fspick(/)", syscall(SYS_fspick, AT_FDCWD, "/", 0), EPERM, ENOSYS);
	/* No capability is needed to merely open a tree: only the filter stops this one. */
	TRY(o, "open_tree(/)", syscall(SYS_open_tree, AT_FDCWD, "/", 0), EPERM, ENOSYS);
	TRY(o, "open_tree(/, clone)", syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE), EPERM, ENOSYS);
	TRY(o, "move_mount", syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/mnt", 0), EPERM, ENOSYS);
	TRY(o, "mount_setattr(/proc)", syscall(SYS_mount_setattr, AT_FDCWD, "/proc", 0, &attr, sizeof(attr)), EPERM,
		ENOSYS);
	TRY(o, "fsconfig", syscall(SYS_fsconfig, -1, 6, NULL, NULL, 0), EPERM, ENOSYS);
	TRY(o, "fsmount", syscall(SYS_fsmount, -1, 0, 0), EPERM, ENOSYS);
}

/* CVE-2022-0492: a process that can open release_agent for writing names a program that the host runs as root. */
static void release_agent(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const controllers[] = {
		"memory", "rdma", "pids", "cpu", "freezer", "devices", "none,name=atoll-escape"};
	static const char *const dirs[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"};
	char dir[128], what[96], path[160];
	snprintf(dir, sizeof(dir), "%s/cg", scratch_dir());
	mkdir(dir, 0700);
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		snprintf(what, sizeof(what), "mount(cgroup, %s)", controllers[i]);
		if (TRY(o, what, mount("none", dir, "cgroup", 0, controllers[i]), EPERM) < 0)
			continue;
		snprintf(path, sizeof(path), "%s/release_agent", dir);
		auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			escaped(o, "release_agent of %s opened for writing", controllers[i]);
		umount2(dir, DETACH);
		break; /* it works: the hierarchies that do not exist yet need not be made to know it */
	}
	rmdir(dir);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, sizeof(path), "%s/release_agent", dirs[i]);
		auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			escaped(o, "%s opened for writing", path);
	}
}

/* The old ones are refused to all; char 0:0, an overlay's whiteout, opens no device and is anyone's to make. */
static void make_device(const struct check *c, struct outcome *o)
{
	(void)c;
	static const struct {
		const char *name;
		mode_t kind;
		unsigned major, minor;
	} nodes[] = {{"/dev/mem", S_IFCHR, 1, 1}, {"/dev/kmem", S_IFCHR, 1, 2}, {"/dev/null", S_IFCHR, 1, 3},
		{"/dev/kmsg", S_IFCHR, 1, 11}, {"sda", S_IFBLK, 8, 0}, {"vda", S_IFBLK, 254, 0},
		{"nvme0n1", S_IFBLK, 259, 0}, {"loop0", S_IFBLK, 7, 0}, {"fuse", S_IFCHR, 10, 229},
		{"kvm", S_IFCHR, 10, 232}, {"tun", S_IFCHR, 10, 200}};
	static const char *const where[] = {NULL, "/dev/shm", "/tmp"};
	char path[200], what[128];
	for (size_t w = 0; w < ARRAY_LEN(where); w++)
		for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
			const char *dir = where[w] ? where[w] : scratch_dir();
			snprintf(path, sizeof(path), "%s/atoll-node", dir);
			snprintf(what, sizeof(what), "mknod(%s) in %s", nodes[i].name,
				where[w] ? where[w] : "the layer");
			TRY(o, what, mknod(path, nodes[i].kind | 0600, makedev(nodes[i].major, nodes[i].minor)), EPERM);
			unlink(path);
		}
}

/* All that /dev may hold: nothing that reaches hardware, the host's memory, its terminals or its kernel log. */
static bool known_device(unsigned major, unsigned minor)
{
	static const unsigned char mem[] = {3, 5, 7, 8, 9}; /* null zero full random urandom */
	for (size_t i = 0; major == 1 && i < sizeof(mem); i++)
		if (minor == mem[i])
			return true;
	return (major == 5 && (minor == 0 || minor == 2)) || (major >= 136 && major <= 143) || /* tty, ptmx; pts */
	       (major == 10 && minor == 229); /* fuse: alone it mounts nothing */
}

static void judge_node(struct outcome *o, const char *path, int *known)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return;
	if (S_ISBLK(st.st_mode))
		escaped(o, "%s is a block device", path);
	else if (S_ISCHR(st.st_mode) && !known_device(major(st.st_rdev), minor(st.st_rdev)))
		escaped(o, "%s is device %u:%u", path, major(st.st_rdev), minor(st.st_rdev));
	else if (S_ISCHR(st.st_mode))
		++*known;
}

static void devices(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const dirs[] = {
		"/dev", "/dev/pts", "/dev/shm", "/dev/net", "/dev/input", "/dev/dri", "/dev/mapper"};
	char path[400];
	int known = 0;
	expect(o, "null zero full random urandom tty ptmx pts fuse only");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		DIR *d = opendir(dirs[i]);
		for (struct dirent *e; d && (e = readdir(d));) {
			snprintf(path, sizeof(path), "%s/%s", dirs[i], e->d_name);
			judge_node(o, path, &known);
		}
		if (d)
			closedir(d);
	}
	if (known < 5)
		errored(o, "only %d devices in /dev", known);
	else
		refused(o, "%d devices, all harmless", known);
}

/* If the devices were the same inodes in every box, all boxes would see a change by one box. */
static void devices_shared(const struct check *c, struct outcome *o)
{
	(void)c;
	struct stat st;
	struct timespec same[2];
	if (stat("/dev/null", &st) < 0) {
		errored(o, "/dev/null: %s", errno_name(errno));
		return;
	}
	same[0] = st.st_atim;
	same[1] = st.st_mtim;
	TRY(o, "chmod(/dev/null)", chmod("/dev/null", st.st_mode & 07777), EROFS, EPERM);
	TRY(o, "utimensat(/dev/null)", utimensat(AT_FDCWD, "/dev/null", same, 0), EROFS, EPERM, EACCES);
	TRY(o, "mknod(/dev/x)", mknod("/dev/atoll-x", S_IFIFO | 0600, 0), EROFS, EACCES);
	TRY(o, "rename(/dev/null)", rename("/dev/null", "/dev/atoll-null"), EROFS, EACCES, EBUSY);
	if (rename("/dev/atoll-null", "/dev/null") == 0)
		escaped(o, "/dev/null could be renamed");
	TRY(o, "rename(/dev)", rename("/dev", "/dev.atoll"), EBUSY, EROFS);
	rename("/dev.atoll", "/dev");
	unlink("/dev/atoll-x");
}

static void mount_flags(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const paths[] = {"/", "/tmp", "/dev/shm", "/workspace", "/var/tmp", "/proc"};
	struct statvfs fs;
	expect(o, "nosuid and nodev");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (statvfs(paths[i], &fs) < 0)
			errored(o, "statvfs %s: %s", paths[i], errno_name(errno));
		else if (!(fs.f_flag & ST_NOSUID) || !(fs.f_flag & ST_NODEV))
			escaped(o, "%s is mounted%s%s", paths[i], fs.f_flag & ST_NOSUID ? "" : " with suid",
				fs.f_flag & ST_NODEV ? "" : " with dev");
		else
			refused(o, "%s: nosuid nodev", paths[i]);
	}
}

/* Shocker: a handle with a guessed inode opens any file of the file system below, past every mount. */
static void shocker(const struct check *c, struct outcome *o)
{
	(void)c;
	struct {
		unsigned bytes;
		int type;
		unsigned char data[128];
	} handle = {.bytes = 8, .type = 1, .data = {2}};
	static const char *const anchors[] = {"/etc/hostname", "/proc/1/exe", "/", "/dev/null", "/dev/shm"};
	for (size_t i = 0; i < ARRAY_LEN(anchors); i++) {
		auto_fd int at = open(anchors[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (at < 0)
			continue;
		/* Inode 2, generation 0: the root directory of an ext4. A kernel that looks at it at all says ESTALE.
		 */
		TRY(o, "open_by_handle_at", syscall(SYS_open_by_handle_at, at, &handle, O_RDONLY), EPERM);
	}
}

/* A layer may be named as the overlay saw it: "/" or "/upper", or where the kernel wanted paths, by numbers of the
 * warden's descriptors, which say nothing. Any other path of two names is one of the host's. */
static void judge_options(struct outcome *o, const char *file, const char *text)
{
	static const char *const keys[] = {"upperdir=", "lowerdir=", "lowerdir+=", "workdir=", "datadir+="};
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		for (const char *at = text; (at = strstr(at, keys[i]));) {
			at += strlen(keys[i]);
			size_t n = strcspn(at, ", \n");
			if (strspn(at, "0123456789:") == n)
				continue;
			if (memchr(at, ':', n) || (n > 1 && memchr(at + 1, '/', n - 1)))
				escaped(o, "%s tells %s%.*s", file, keys[i], (int)(n < 80 ? n : 80), at);
		}
}

/* The table must not tell where the host keeps layers, sockets or programs. */
static void host_paths(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const files[] = {
		"/proc/self/mountinfo", "/proc/self/mounts", "/proc/1/mountinfo", "/proc/self/mountstats"};
	static const char *const bad[] = {
		"/var/lib/", "/run/", "/home/", "/build/", "/tmp/", "/srv/", "/opt/", "/root/", "/usr/", "atoll"};
	static char text[65536];
	expect(o, "no directory of the host");
	for (size_t f = 0; f < ARRAY_LEN(files); f++) {
		ssize_t n = slurp(files[f], text, sizeof(text));
		if (n == -EACCES || n == -EPERM)
			continue;
		if (n <= 0) {
			errored(o, "%s cannot be read", files[f]);
			continue;
		}
		judge_options(o, files[f], text);
		for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
			const char *hit = strstr(text, bad[i]);
			if (hit)
				escaped(o, "%s tells '%.60s'", files[f], hit);
		}
	}
	refused(o, "no directory of the host is named");
}

#define FILTER "seccomp, capabilities"
static const struct check checks[] = {
	{"mount-new", "mount proc, sysfs, overlay (CVE-2023-0386), a bind of / and others", FILTER, mount_new, NULL,
		CHECK_DEMO},
	{"mount-change", "remount the read-only parts, move /proc, turn on propagation", FILTER, mount_change, NULL,
		CHECK_DEMO},
	{"umount", "take the masks off /proc and /dev", FILTER, unmount, NULL, CHECK_DEMO},
	{"mount-api", "CVE-2022-0185: the new mount calls (fsopen, fsconfig, open_tree, move_mount, mount_setattr)",
		FILTER, mount_api, NULL, CHECK_DEMO},
	{"cgroup-release-agent", "CVE-2022-0492: mount a cgroup hierarchy and name a release agent", FILTER,
		release_agent, NULL, CHECK_DEMO},
	{"mknod", "make block and character devices of the host", "user namespace, capabilities", make_device, NULL,
		CHECK_DEMO},
	{"devices", "devices of the host in /dev", "own /dev", devices, NULL, CHECK_DEMO},
	{"devices-shared", "CVE-2025-31133: change or replace /dev/null", "own read-only /dev", devices_shared, NULL,
		0},
	{"mount-flags", "set-user-id programs and devices on what the box can write", "nosuid, nodev mounts",
		mount_flags, NULL, CHECK_DEMO},
	{"shocker", "open_by_handle_at with a guessed inode (shocker.c)", FILTER, shocker, NULL, CHECK_DEMO},
	{"mountinfo-host-paths", "directories of the host in mountinfo, mounts and overlay options", "detached mounts",
		host_paths, NULL, 0},
};
const struct check_group group_mounts = {"mounts", checks, ARRAY_LEN(checks)};
