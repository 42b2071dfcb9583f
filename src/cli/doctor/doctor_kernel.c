/*
 * doctor_kernel.c - checks the kernel: namespaces, system calls, mounts, seccomp, landlock.
 */
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "cli/doctor/doctor.h"

static void check_kernel(struct cli *c, struct doctor_row *r)
{
	(void)c;
	struct utsname u;
	uname(&u);
	int major = 0, minor = 0;
	sscanf(u.release, "%d.%d", &major, &minor);
	bool new_enough = major > 5 || (major == 5 && minor >= 19);
	doctor_set(r, new_enough ? DOCTOR_OK : DOCTOR_MISSING,
		new_enough ? NULL : "Boxes need overlays with idmapped layers: run Linux 5.19 or newer.", "Linux %s %s",
		u.release, u.machine);
}

/* Without root every other namespace needs a user namespace first. */
static int probe_namespace(void *arg)
{
	int flags = *(int *)arg;
	if (geteuid() != 0)
		flags |= CLONE_NEWUSER;
	return unshare(flags) < 0 ? errno : 0;
}

static void check_namespace(struct doctor_row *r, int flag, const char *what)
{
	int err = doctor_try(probe_namespace, &flag);
	char text[16];
	if (err == 0)
		doctor_set(r, DOCTOR_OK, NULL, "%s", what);
	else if (err == EINVAL)
		doctor_set(r, DOCTOR_MISSING, "The kernel was built without this namespace: use another kernel.", "%s",
			strerror(err));
	else if (doctor_read("/proc/sys/user/max_user_namespaces", text, sizeof text) && strcmp(text, "0") == 0)
		doctor_set(r, DOCTOR_MISSING, "sysctl -w user.max_user_namespaces=65536",
			"switched off: user.max_user_namespaces is 0");
	else if (geteuid() != 0)
		doctor_set(r, DOCTOR_UNKNOWN, NULL, "this user may not make one (%s); root may", strerror(err));
	else
		doctor_set(r, DOCTOR_MISSING,
			"Run Atoll on the host or in a container that may make namespaces (privileged).", "%s",
			strerror(err));
}

#define NAMESPACE_CHECK(name, flag, what)                                                                              \
	static void check_ns_##name(struct cli *c, struct doctor_row *r)                                               \
	{                                                                                                              \
		(void)c;                                                                                               \
		check_namespace(r, flag, what);                                                                        \
	}
NAMESPACE_CHECK(user, CLONE_NEWUSER, "root inside a box is nobody outside")
NAMESPACE_CHECK(pid, CLONE_NEWPID, "a box sees its own processes only")
NAMESPACE_CHECK(mnt, CLONE_NEWNS, "a box has its own file tree")
NAMESPACE_CHECK(net, CLONE_NEWNET, "a box has its own network")
NAMESPACE_CHECK(ipc, CLONE_NEWIPC, "own shared memory and message queues")
NAMESPACE_CHECK(uts, CLONE_NEWUTS, "own host name")
NAMESPACE_CHECK(cgroup, CLONE_NEWCGROUP, "host cgroup paths are hidden")

static void check_syscalls(struct cli *c, struct doctor_row *r)
{
	(void)c;
	static const struct {
		const char *name;
		long number;
	} calls[] = {
		{"clone3", SYS_clone3},
		{"pidfd_open", SYS_pidfd_open},
		{"close_range", SYS_close_range},
		{"openat2", SYS_openat2},
		{"fsopen", SYS_fsopen},
		{"open_tree", SYS_open_tree},
		{"mount_setattr", SYS_mount_setattr},
	};
	char missing[128] = "";
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		/* Arguments that no kernel accepts: only ENOSYS means that the call is missing. */
		if (syscall(calls[i].number, -1L, -1L, -1L, -1L, -1L) < 0 && errno == ENOSYS) {
			size_t n = strlen(missing);
			snprintf(missing + n, sizeof missing - n, " %s", calls[i].name);
		}
	}
	if (*missing)
		doctor_set(r, DOCTOR_MISSING, "Run Linux 5.19 or newer, without a filter that hides these calls.",
			"not there:%s", missing);
	else
		doctor_set(r, DOCTOR_OK, NULL, "clone3, pidfd, close_range, openat2, new mount calls");
}

/* Starts a child in its own user namespace, the source of an id map. Returns the namespace's fd. */
static int userns_with_map(void)
{
	int gate[2];
	if (pipe(gate) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		char ready = unshare(CLONE_NEWUSER) == 0;
		if (write(gate[1], &ready, 1) == 1)
			pause();
		_exit(0);
	}
	char ready = 0, path[64];
	int fd = read(gate[0], &ready, 1) == 1 && ready ? 0 : -EPERM;
	static const char *const maps[] = {"uid_map", "gid_map"};
	/* Root of the host must be in the map too, or the overlay becomes read-only. */
	static const char map[] = "0 100000 65536\n65536 0 1\n";
	for (size_t i = 0; fd == 0 && i < ARRAY_LEN(maps); i++) {
		snprintf(path, sizeof path, "/proc/%d/%s", pid, maps[i]);
		auto_fd int m = open(path, O_WRONLY | O_CLOEXEC);
		fd = m >= 0 && write(m, map, sizeof map - 1) > 0 ? 0 : -errno;
	}
	snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
	if (fd == 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	int saved = fd == -1 ? -errno : fd;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return saved;
}

/* An idmapped copy of the directory `from`, attached at `at`. */
static int idmap_layer(const char *from, const char *at, int userns)
{
	auto_fd int tree = (int)syscall(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
	if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
		return errno;
	return syscall(SYS_move_mount, tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? errno : 0;
}

/* The trial's directories are on the disk: a tmpfs can be idmapped only from Linux 6.3 on, an ext4 always. */
static const char *const trial_dirs[] = {
	"", "/lower", "/layer", "/layer/upper", "/layer/work", "/layer/work/work", "/layer/work/index"};

static char *make_trial(void)
{
	const char *data = getenv("ATOLL_DATA");
	auto_free char *base = xasprintf("%s/doctor-XXXXXX", data ? data : "/var/lib/atoll");
	if (!mkdtemp(base)) {
		free(base);
		base = xstrdup("/var/tmp/atoll-doctor-XXXXXX");
		if (!mkdtemp(base))
			return NULL;
	}
	for (size_t i = 1; i < 5; i++) {
		auto_free char *dir = xasprintf("%s%s", base, trial_dirs[i]);
		mkdir(dir, 0755);
	}
	return take_ptr(&base);
}

static void remove_trial(const char *base)
{
	auto_free char *file = xasprintf("%s/layer/upper/file", base);
	unlink(file);
	for (size_t i = ARRAY_LEN(trial_dirs); i-- > 0;) {
		auto_free char *dir = xasprintf("%s%s", base, trial_dirs[i]);
		rmdir(dir);
	}
}

/* Mounts an overlay on idmapped layers, as boxes have it, in a private mount namespace, and writes through it. */
static int probe_overlay(void *arg)
{
	auto_free char *lower = xasprintf("%s/lower", (const char *)arg),
		       *layer = xasprintf("%s/layer", (const char *)arg);
	int userns = userns_with_map();
	if (userns < 0)
		return -userns;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return errno;
	int err = idmap_layer(lower, lower, userns);
	if (err == 0)
		err = idmap_layer(layer, layer, userns);
	if (err)
		return err;
	if (chdir(arg) < 0 ||
		mount("none", "/proc", "overlay", 0, "lowerdir=lower,upperdir=layer/upper,workdir=layer/work") < 0)
		return errno;
	return open("/proc/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) < 0 ? errno : 0;
}

static void check_overlay(struct cli *c, struct doctor_row *r)
{
	(void)c;
	if (geteuid() != 0) {
		char list[8192];
		bool there = doctor_read("/proc/filesystems", list, sizeof list) && strstr(list, "\toverlay");
		doctor_set(r, there ? DOCTOR_OK : DOCTOR_UNKNOWN, NULL,
			there ? "overlay is loaded (only root can test idmapped layers)"
			      : "overlay is not loaded; only root can test it");
		return;
	}
	auto_free char *trial = make_trial();
	int err = trial ? doctor_try(probe_overlay, trial) : errno;
	if (trial)
		remove_trial(trial);
	if (err == 0)
		doctor_set(r, DOCTOR_OK, NULL, "a trial mount works");
	else
		doctor_set(r, DOCTOR_MISSING,
			"modprobe overlay; Linux 5.19 or newer with CONFIG_OVERLAY_FS, and the right to mount.",
			"a trial mount failed: %s", strerror(err));
}

static void check_seccomp(struct cli *c, struct doctor_row *r)
{
	(void)c;
	uint32_t action = SECCOMP_RET_ERRNO;
	bool there = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
	uint32_t notify = SECCOMP_RET_USER_NOTIF;
	bool notif = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &notify) == 0;
	if (there)
		doctor_set(r, DOCTOR_OK, NULL, "filters%s", notif ? " and user notification" : "");
	else
		doctor_set(r, DOCTOR_MISSING, "Use a kernel with CONFIG_SECCOMP_FILTER.", "%s", strerror(errno));
}

static void check_landlock(struct cli *c, struct doctor_row *r)
{
	(void)c;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi > 0)
		doctor_set(r, DOCTOR_OK, NULL, "ABI %ld", abi);
	else
		doctor_set(r, DOCTOR_NOTE, "Boot with lsm=landlock,… for one more wall around the daemon.",
			"not available: %s", strerror(errno));
}

const struct doctor_check doctor_kernel_checks[] = {
	{"isolation", "kernel", check_kernel},
	{"isolation", "system calls", check_syscalls},
	{"isolation", "user namespaces", check_ns_user},
	{"isolation", "pid namespaces", check_ns_pid},
	{"isolation", "mount namespaces", check_ns_mnt},
	{"isolation", "network namespaces", check_ns_net},
	{"isolation", "ipc namespaces", check_ns_ipc},
	{"isolation", "uts namespaces", check_ns_uts},
	{"isolation", "cgroup namespaces", check_ns_cgroup},
	{"isolation", "overlay, idmapped", check_overlay},
	{"isolation", "seccomp", check_seccomp},
	{"isolation", "landlock", check_landlock},
};
const size_t doctor_kernel_checks_count = ARRAY_LEN(doctor_kernel_checks);
