#include "warden/isolate.h"

#include <linux/securebits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage/caps.h"
#include "cage/fs.h"
#include "cage/init.h"
#include "cage/seccomp.h"
#include "cage/steer.h"

static int isolate_fail(struct err *e, const char *what)
{
	return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "%s", what);
}

static int make_private(struct err *e)
{
	auto_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct mount_attr a = {.propagation = 1 << 18 /* MS_PRIVATE */};
	return root < 0 || sys_mount_setattr(root, AT_RECURSIVE, &a) < 0 ? isolate_fail(e, "make the mounts private")
									 : 0;
}

/* Clones `from` (a path of the host) onto `name` in the new root. */
static int show(int root, const char *name, const char *from, struct err *e)
{
	auto_fd int copy = fs_clone(AT_FDCWD, from, AT_RECURSIVE, e);
	if (copy < 0)
		return -1;
	if (mkdirat(root, name, 0700) < 0)
		return isolate_fail(e, "make a mount point");
	auto_fd int at = openat(root, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return at < 0 || sys_move_mount(copy, at) < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, errno, "show '%s'", from) : 0;
}

/* Puts a detached mount onto `name` in the new root. */
static int put(int root, const char *name, int mount, struct err *e)
{
	if (mkdirat(root, name, 0700) < 0)
		return isolate_fail(e, "make a mount point");
	auto_fd int at = openat(root, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return at < 0 || sys_move_mount(mount, at) < 0 ? isolate_fail(e, "show the pool") : 0;
}

static int show_pool(int root, const struct isolate_paths *p, struct err *e)
{
	if (p->pool_mount >= 0)
		return put(root, "pool", p->pool_mount, e);
	return p->pool ? show(root, "pool", p->pool, e) : 0;
}

static int build_root(int root, const struct isolate_paths *p, struct err *e)
{
	if (show(root, "run", p->run, e) < 0 || show(root, "data", p->data, e) < 0 ||
		show(root, "images", p->images, e) < 0 || show(root, "ids", p->ids, e) < 0 || show_pool(root, p, e) < 0)
		return -1;
	static const char *const empty[] = {"box", "box/proc", "box/dev", "stand", "stand/lower", "stand/tools",
		"stand/layer", "stand/overlay", "trust"};
	for (size_t i = 0; i < ARRAY_LEN(empty); i++)
		if (mkdirat(root, empty[i], 0755) < 0)
			return isolate_fail(e, "make the warden's root");
	return 0;
}

/* The new root is mounted over the old one's /proc, the only directory that is sure to be there, and taken as root. */
int isolate_mounts(const struct isolate_paths *p, struct err *e)
{
	if (unshare(CLONE_NEWNS | CLONE_NEWNET) < 0)
		return isolate_fail(e, "leave the host's mount and network namespaces");
	if (make_private(e) < 0)
		return -1;
	const struct fs_option options[] = {{"mode", "0755"}, {"size", "1m"}};
	auto_fd int root = fs_make("tmpfs", options, ARRAY_LEN(options), 0, "mount the warden's root", e);
	if (root < 0)
		return -1;
	auto_fd int at = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd int proc = fs_clone(AT_FDCWD, "/proc", AT_RECURSIVE, e);
	if (proc < 0)
		return -1;
	if (sys_move_mount(root, at) < 0)
		return isolate_fail(e, "mount the warden's root");
	if (mkdirat(root, "proc", 0755) < 0)
		return isolate_fail(e, "make a mount point");
	auto_fd int new_proc = openat(root, "proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (new_proc < 0 || sys_move_mount(proc, new_proc) < 0)
		return isolate_fail(e, "show /proc");
	if (build_root(root, p, e) < 0 || fs_set(root, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, -1, e) < 0)
		return -1;
	if (fchdir(root) < 0 || sys_pivot_root(".", ".") < 0 || sys_umount(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return isolate_fail(e, "enter the warden's root");
	return 0;
}

/* Whether connections can be steered with these capabilities. A child finds out: what it gives up stays lost. */
static bool steers_with(uint64_t caps)
{
	struct err e;
	pid_t pid = fork();
	if (pid == 0)
		_exit(caps_limit(caps, &e) < 0 || steer_check(&e) < 0);
	int status = -1;
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Older kernels, 6.1 among them, make a map of sockets for CAP_NET_ADMIN only. It is kept where steering needs it. */
static uint64_t needed_caps(void)
{
	const uint64_t more = CAPS_WARDEN | CAPS_SOCKMAP;
	return !steers_with(CAPS_WARDEN) && steers_with(more) ? more : CAPS_WARDEN;
}

int isolate_privileges(struct err *e)
{
	struct rlimit n;
	if (getrlimit(RLIMIT_NOFILE, &n) == 0) {
		n.rlim_cur = n.rlim_max;
		setrlimit(RLIMIT_NOFILE, &n);
	}
	/* Changing the file-system user to a box's root (layers.h) must not cost capabilities. */
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return isolate_fail(e, "set securebits");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return isolate_fail(e, "set no_new_privs");
	/* Leave the keyring of the process that started us: its keys are not for boxes. */
	syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
	seccomp_prepare();
	const uint64_t caps = needed_caps();
	if (caps_bound(caps, e) < 0 || caps_limit(caps, e) < 0)
		return -1;
	return seccomp_load(SECCOMP_WARDEN, e);
}
