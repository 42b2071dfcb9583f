#include "cage/init.h"

#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd_pass.h"
#include "base/sig.h"
#include "cage/caps.h"
#include "cage/fs.h"
#include "cage/init_warm.h"
#include "cage/proc.h"
#include "cage/seccomp.h"
#include "proto/limits.h"
#include "proto/noshare.h"

struct child {
	bool rooted;			 /* it is in its root already: of WARM */
	int proc, pts;			 /* mounts */
	int mounts[1 + BOX_VOLUMES_MAX]; /* the overlay, the volumes */
	struct init_go go;
};

static int init_fail(struct err *e, const char *what)
{
	return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "%s", what);
}

/* Moves each descriptor to its number in two steps: first to a high number, so that none overwrites another. */
static int keep_fds(const struct init_fds *fds, struct err *e)
{
	int from[] = {fds->listen, fds->oom, -1, fds->reply, fds->ask, -1, -1, fds->leaves[0], fds->leaves[1],
		fds->control, fds->dev, fds->shm, fds->agent};
	for (int i = 0; i < FD_KEPT; i++)
		if (from[i] >= 0 && (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64)) < 0)
			return init_fail(e, "keep descriptors");
	for (int i = 0; i < FD_KEPT; i++)
		if (from[i] >= 0 && dup3(from[i], i, i >= FD_CONTROL ? O_CLOEXEC : 0) < 0)
			return init_fail(e, "keep descriptors");
	close(FD_NULL);
	int null = openat(FD_DEV, "null", O_RDWR);
	if (null < 0 || (null != FD_NULL && (dup2(null, FD_NULL) < 0 || close(null) < 0)))
		return init_fail(e, "open /dev/null");
	/* Until there is one. */
	if (dup2(FD_NULL, FD_PROC) < 0 || dup3(FD_NULL, FD_WARM, O_CLOEXEC) < 0)
		return init_fail(e, "keep descriptors");
	for (int i = 0; i < CGROUP_LEAVES; i++)
		if (fds->leaves[i] < 0 && dup3(FD_NULL, FD_LEAF + i, O_CLOEXEC) < 0)
			return init_fail(e, "keep descriptors");
	if (sys_close_range(FD_KEPT, ~0u) < 0)
		return init_fail(e, "close descriptors");
	return 0;
}

static void wait_for_maps(void)
{
	char byte;
	if (recv(FD_CONTROL, &byte, 1, 0) != 1)
		_exit(0);
}

static int become_root(struct err *e)
{
	if (setresgid(0, 0, 0) < 0 || setgroups(0, NULL) < 0 || setresuid(0, 0, 0) < 0)
		return init_fail(e, "become root of the box");
	/* Ctrl-C in the warden's terminal is not for boxes. */
	if (setsid() < 0)
		return init_fail(e, "start a session");
	umask(022);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	sig_default_all();
	return 0;
}

/* Only now, inside its cgroups: these become the root of the cgroup namespace. */
static int make_namespaces(struct err *e)
{
	const int all = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
	return unshare(all) < 0 ? init_fail(e, "make the box's namespaces") : 0;
}

/* The clocks stay the host's. But a namespace is also a file (/proc/self/ns/time), and boxes that shared it could watch
 * and lock it. unshare() affects children only, and vfork then fails before Linux 6.3; setns() affects us. */
static int make_time_namespace(struct err *e)
{
	if (unshare(CLONE_NEWTIME) < 0)
		return errno == EINVAL ? 0 : init_fail(e, "make the box's time namespace"); /* this kernel has none */
	auto_fd int fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	return fd < 0 || setns(fd, CLONE_NEWTIME) < 0 ? init_fail(e, "enter the box's time namespace") : 0;
}

static int make_pts(struct err *e)
{
	char max[16];
	snprintf(max, sizeof max, "%d", BOX_PTYS_MAX);
	const struct fs_option options[] = {
		{"newinstance"}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"gid", "5"}, {"max", max}};
	return fs_make(
		"devpts", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "mount /dev/pts", e);
}

/* Leaves the warden's mounts behind. The new root is an empty read-only directory; the box's root comes on top of it
 * later. The kernel lets a procfs be made only where an uncovered one can be seen: before this. */
static int enter_anchor(struct err *e)
{
	auto_fd int anchor = fs_clone(AT_FDCWD, INIT_ANCHOR, 0, e);
	if (anchor < 0)
		return -1;
	auto_fd int at = open(INIT_ANCHOR, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0 || sys_move_mount(anchor, at) < 0 || fchdir(anchor) < 0)
		return init_fail(e, "mount the anchor");
	if (sys_pivot_root(".", ".") < 0 || sys_umount(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return init_fail(e, "leave the warden's mounts");
	return 0;
}

static int put_mount(int mount, const char *path, struct err *e)
{
	auto_fd int at = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0 || sys_move_mount(mount, at) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "mount %s", path);
	return 0;
}

/* The box's /proc becomes read-only. The agent sets OOM scores, so it keeps a writable mount of it without a path. */
static int keep_proc(int proc, struct err *e)
{
	auto_fd int copy = fs_clone(proc, "", 0, e);
	if (copy < 0)
		return -1;
	return dup2(copy, FD_PROC) < 0 ? init_fail(e, "keep a writable /proc") : 0;
}

static int prepare_mounts(struct child *c, struct err *e)
{
	c->proc = proc_make(e);
	if (c->proc < 0 || (c->pts = make_pts(e)) < 0 || enter_anchor(e) < 0)
		return -1;
	if (put_mount(c->proc, "/proc", e) < 0 || put_mount(FD_DEV, "/dev", e) < 0)
		return -1;
	auto_fd int empty = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (keep_proc(c->proc, e) < 0 || proc_protect(c->proc, FD_DEV, empty, e) < 0 ||
		put_mount(c->pts, "/dev/pts", e) < 0 || put_mount(FD_SHM, "/dev/shm", e) < 0)
		return -1;
	return 0;
}

static int raise_loopback(struct err *e)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0 ? init_fail(e, "bring up the loopback interface") : 0;
}

int init_limit_self(struct err *e)
{
	struct rlimit nofile, none = {0, 0};
	if (getrlimit(RLIMIT_NOFILE, &nofile) < 0)
		return init_fail(e, "read the limit of open files");
	rlim_t n = nofile.rlim_max < BOX_NOFILE ? nofile.rlim_max : BOX_NOFILE;
	nofile = (struct rlimit){n, n};
	if (setrlimit(RLIMIT_NOFILE, &nofile) < 0 || setrlimit(RLIMIT_CORE, &none) < 0)
		return init_fail(e, "set limits");
	return 0;
}

static int limit_box(struct err *e)
{
	if (init_limit_self(e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return init_fail(e, "set no_new_privs");
	return caps_bound(CAPS_BOX, e);
}

static int prepare(struct child *c, struct err *e)
{
	return become_root(e) < 0 || make_namespaces(e) < 0 || make_time_namespace(e) < 0 || prepare_mounts(c, e) < 0 ||
			       raise_loopback(e) < 0 || limit_box(e) < 0
		       ? -1
		       : 0;
}

/* A place in the box's own files: they may be an old, hostile layer, so no link is followed. */
static int place(int root, const char *name, struct err *e)
{
	const uint64_t resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH;
	int fd = sys_openat2(root, name, O_PATH | O_DIRECTORY, resolve);
	if (fd < 0 && errno == ENOENT && mkdirat(root, name, 0755) == 0)
		fd = sys_openat2(root, name, O_PATH | O_DIRECTORY, resolve);
	return fd < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, errno, "the sandbox's /%s", name) : fd;
}

/* The overlay goes over the empty root, /proc and /dev (with all that is on them) move into it. There is no pivot and
 * no unmount: the anchor below can be reached by no path, as with a system's initial ramdisk. */
static int enter_root(struct child *c, struct err *e)
{
	auto_fd int proc = place(c->mounts[0], "proc", e);
	auto_fd int dev = proc < 0 ? -1 : place(c->mounts[0], "dev", e);
	auto_fd int anchor = dev < 0 ? -1 : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dev < 0)
		return -1;
	if (anchor < 0 || sys_move_mount(c->mounts[0], anchor) < 0)
		return init_fail(e, "mount the root");
	if (sys_move_mount(c->proc, proc) < 0)
		return init_fail(e, "move /proc");
	if (sys_move_mount(FD_DEV, dev) < 0)
		return init_fail(e, "move /dev");
	if (fchdir(c->mounts[0]) < 0 || chroot(".") < 0)
		return init_fail(e, "enter the root");
	return 0;
}

/* Puts a volume on its place in the box's own files, which may be hostile: every step is one name in a directory that
 * is held, follows no link and enters no other mount. */
static int put_volume(int root, int volume, const char *path, struct err *e)
{
	auto_fd int at = fcntl(root, F_DUPFD_CLOEXEC, FD_KEPT);
	struct str rest = str_skip(str_of(path), 1);
	while (rest.n && at >= 0) {
		char name[VOLUME_PATH_MAX + 1];
		struct str part = str_split(rest, '/', &rest);
		snprintf(name, sizeof name, "%.*s", STR_ARG(part));
		int next = place(at, name, e);
		if (next < 0)
			return err_wrap(e, "the place %s of a volume", path);
		fd_close(&at);
		at = next;
	}
	return at < 0 || sys_move_mount(volume, at) < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, errno, "mount %s", path)
							: 0;
}

static int put_volumes(const struct child *c, struct err *e)
{
	for (uint32_t i = 0; i < c->go.volumes_n; i++)
		if (put_volume(c->mounts[0], c->mounts[1 + i], c->go.volumes[i], e) < 0)
			return -1;
	return 0;
}

/* A box may have replaced /workspace by anything; it must still start. */
static int enter_workspace(bool bare, struct err *e)
{
	if (!bare && chdir("/workspace") == 0)
		return 0;
	if (!bare && errno == ENOENT && mkdir("/workspace", 0755) == 0 && chdir("/workspace") == 0)
		return 0;
	return chdir("/") < 0 ? init_fail(e, "enter the root directory") : 0;
}

void init_hostname(const char *id, char ret[BOX_ID_MAX + 1])
{
	size_t n = 0;
	for (; id[n] && n < BOX_ID_MAX; n++) {
		char c = id[n];
		bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		ret[n] = ok ? c : '-';
	}
	while (n && ret[n - 1] == '-')
		n--;
	ret[n] = 0;
	size_t hyphens = strspn(ret, "-");
	memmove(ret, ret + hyphens, n - hyphens + 1);
	if (!*ret)
		snprintf(ret, BOX_ID_MAX + 1, "sandbox");
}

/* How long files may be, holes included: the kernel takes its time for what a hole hides, in backups above all. Files
 * that become an image are in no backup. A worker that was started ahead gets the limit from the agent (spare.c). */
static int limit_files(const struct child *c, struct err *e)
{
	if (c->go.bare)
		return 0;
	const struct rlimit size = {c->go.file_max, c->go.file_max};
	return setrlimit(RLIMIT_FSIZE, &size) < 0 ? init_fail(e, "limit the length of files") : 0;
}

static int keep_volumes_apart(struct err *e)
{
	const struct sock_fprog program = {
		.len = ARRAY_LEN(noshare_filter), .filter = (struct sock_filter *)noshare_filter};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? init_fail(e, "keep the volumes apart")
									      : 0;
}

static int become_box(struct child *c, struct err *e)
{
	char name[BOX_ID_MAX + 1];
	init_hostname(c->go.id, name);
	if (sethostname(name, strlen(name)) < 0)
		return init_fail(e, "set the host name");
	if ((!c->rooted && enter_root(c, e) < 0) || put_volumes(c, e) < 0 || enter_workspace(c->go.bare, e) < 0 ||
		limit_files(c, e) < 0 || caps_limit(CAPS_BOX, e) < 0 ||
		(c->go.volumes_n >= NOSHARE_VOLUMES && keep_volumes_apart(e) < 0))
		return -1;
	return seccomp_load(SECCOMP_BOX, e);
}

static int execute_agent(const struct init_go *go, struct err *e)
{
	char id[sizeof "ATOLL_SANDBOX_ID=" + BOX_ID_MAX], cpus[48], memory[48];
	snprintf(id, sizeof id, "ATOLL_SANDBOX_ID=%s", go->id);
	snprintf(cpus, sizeof cpus, "ATOLL_CPUS=%u.%03u", go->limits.cpu_milli / 1000, go->limits.cpu_milli % 1000);
	snprintf(memory, sizeof memory, "ATOLL_MEMORY=%llu", (unsigned long long)go->limits.mem_bytes);
	char *argv[] = {"atoll-agent", "init", NULL};
	char *envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"LANG=C.UTF-8", id, cpus, memory, NULL};
	sys_execveat(FD_AGENT, argv, envp);
	return init_fail(e, "execute the agent");
}

static void wait_for_order(struct child *c)
{
	struct fd_record go = {.data = &c->go, .size = sizeof c->go, .fds = c->mounts, .fds_max = ARRAY_LEN(c->mounts)};
	if (fd_recv(FD_CONTROL, &go, 0) != (ssize_t)sizeof c->go || go.fds_n != 1 + (size_t)c->go.volumes_n)
		_exit(0);
}

_Noreturn static void give_up(const struct err *e)
{
	struct init_note note = {.kind = INIT_FAILED, .err = *e};
	send(FD_CONTROL, &note, sizeof note, MSG_NOSIGNAL);
	_exit(1);
}

_Noreturn void init_run(const struct init_fds *fds)
{
	struct child c = {.proc = -1, .pts = -1};
	struct err e = {0};
	prctl(PR_SET_NAME, "atoll-slot");
	if (keep_fds(fds, &e) < 0)
		give_up(&e);
	wait_for_maps();
	if (prepare(&c, &e) < 0)
		give_up(&e);
	const struct init_note ready = {.kind = INIT_READY};
	if (send(FD_CONTROL, &ready, sizeof ready, MSG_NOSIGNAL) < 0)
		_exit(0);
	wait_for_order(&c);
	if (c.go.order == INIT_WARM) {
		if (enter_root(&c, &e) < 0)
			give_up(&e);
		c.rooted = true;
		init_warm(c.go.typescript);
		fd_close(&c.mounts[0]);
		wait_for_order(&c);
	}
	if (become_box(&c, &e) == 0)
		execute_agent(&c.go, &e);
	give_up(&e);
}

int init_send_maps(int control, struct err *e)
{
	return send(control, "m", 1, MSG_NOSIGNAL) == 1 ? 0 : init_fail(e, "start the half-made box");
}

int init_send_go(int control, const struct init_go *go, const int mounts[1 + BOX_VOLUMES_MAX], struct err *e)
{
	ssize_t n = fd_send(control, go, sizeof *go, mounts, 1 + (size_t)go->volumes_n, 0);
	return n < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, (int)-n, "finish the half-made box") : 0;
}

int init_send_warm(int control, int overlay, bool typescript, struct err *e)
{
	const struct init_go warm = {.order = INIT_WARM, .typescript = typescript};
	ssize_t n = fd_send(control, &warm, sizeof warm, &overlay, 1, MSG_DONTWAIT);
	return n < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, (int)-n, "start a worker ahead") : 0;
}

int init_receive(int control, struct init_note *ret)
{
	struct init_note note;
	ssize_t n = recv(control, &note, sizeof note, MSG_DONTWAIT);
	if (n == 0)
		return 0;
	if (n < 0)
		return errno == ECONNRESET ? 0 : -1;
	if (n != (ssize_t)sizeof note || (note.kind != INIT_READY && note.kind != INIT_FAILED)) {
		errno = EPROTO;
		return -1;
	}
	err_seal(&note.err);
	*ret = note;
	return 1;
}
