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
	bool new_enough = major > 6 || (major == 6 && minor >= 1);
	doctor_set(r, new_enough ? DOCTOR_OK : DOCTOR_MISSING,
		new_enough ? NULL : "Atoll is tested from Linux 6.1 on: run that or newer.", "Linux %s %s", u.release,
		u.machine);
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
		doctor_set(r, DOCTOR_MISSING, "Run Linux 6.1 or newer, without a filter that hides these calls.",
			"not there:%s", missing);
	else
		doctor_set(r, DOCTOR_OK, NULL, "clone3, pidfd, close_range, openat2, new mount calls");
}

static void check_overlay(struct cli *c, struct doctor_row *r)
{
	(void)c;
	char why[DOCTOR_WHY];
	enum doctor_state state = doctor_ask_warden("overlay", why);
	doctor_set(r, state,
		state == DOCTOR_MISSING
			? "modprobe overlay; Linux 6.1 or newer with CONFIG_OVERLAY_FS, and the right to mount."
			: NULL,
		"%s", state == DOCTOR_OK ? "the warden mounts the root of a box" : why);
}

static void check_layers(struct cli *c, struct doctor_row *r)
{
	(void)c;
	char why[DOCTOR_WHY];
	enum doctor_state state = doctor_ask_warden("layers", why);
	doctor_set(r, state == DOCTOR_MISSING ? DOCTOR_NOTE : state, NULL, "%s%s",
		state == DOCTOR_MISSING ? "no images that are built, imported or pulled here: " : "",
		state == DOCTOR_OK ? "the warden mounts an image of two layers" : why);
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
	{"isolation", "images with layers", check_layers},
	{"isolation", "seccomp", check_seccomp},
	{"isolation", "landlock", check_landlock},
};
const size_t doctor_kernel_checks_count = ARRAY_LEN(doctor_kernel_checks);
