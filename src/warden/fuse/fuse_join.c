/*
 * The joiner: a child of the warden that makes and removes FUSE mounts in one box. It has joined the box's user, mount
 * and network namespaces, is in its cgroups, and has the box's root as user: what it can reach is the box's. It is not
 * in the box's pid namespace, so no program of the box can see, signal or trace it.
 *
 * Paths are resolved with the caller's user id, so a caller mounts only where it could go. Then a mount is put on, or
 * taken from, what was looked at and nothing else:
 *  - a mount goes onto the descriptor that was checked;
 *  - an unmount needs a name (a descriptor would keep the mount busy). The directory is held by descriptor, and a name
 * in it that is a mount point can be neither renamed nor removed; programs of the box cannot mount, and no other joiner
 *    of the box runs. So the name still means the mount that was checked.
 */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/sig.h"
#include "cage/caps.h"
#include "cage/sys.h"
#include "proto/fuse.h"
#include "proto/limits.h"
#include "warden/fuse/fuse.h"
#include "warden/fuse/fuse_mounts.h"
#include "warden/limits.h"

enum { FD_NODE, FD_PROC, FD_BOX, FD_GO, FD_KEPT };

/* Of the box's root: to mount, to go where the caller goes, and to become the caller for that. */
#define CAPS_JOINER                                                                                                    \
	(1ull << 1 /* DAC_OVERRIDE */ | 1ull << 2 /* DAC_READ_SEARCH */ | 1ull << 6 /* SETGID */ |                     \
		1ull << 7 /* SETUID */ | 1ull << 21 /* SYS_ADMIN */)

static const char *refusal;

static int say(struct fuse_reply *r, int os, const char *said)
{
	r->error = os;
	snprintf(r->said, sizeof r->said, "%s", said);
	return -1;
}

/* ---- looking ---- */

static void act_as(uint32_t uid, uint32_t gid)
{
	/* Of these three only the last two can tell, by their next call; the checks below ask the kernel for access. */
	setfsgid(gid);
	setfsuid(uid);
}

/* What the mount behind a descriptor is, without a question to its file system. */
static int look(int fd, struct fuse_mounts *ret)
{
	char path[48];
	auto_buf struct buf info = {0}, mounts = {0};
	uint64_t id;
	snprintf(path, sizeof path, "self/fdinfo/%d", fd);
	int r = fd_read_file(FD_PROC, path, 4096, &info);
	if (r < 0 || !fuse_mount_id(buf_str(&info), &id))
		return r < 0 ? r : -EIO;
	r = fd_read_file(FD_PROC, "self/mountinfo", FUSE_MOUNTINFO_MAX, &mounts);
	if (r < 0)
		return r;
	fuse_mounts_read(buf_str(&mounts), id, ret);
	return 0;
}

/* libfuse's rule: a user who is not root lets others in only where root says so. */
static bool others_allowed(void)
{
	auto_fd int fd = open("/etc/fuse.conf", O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char text[FUSE_CONF_MAX];
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0)
		return false;
	ssize_t n = fd_read_full(fd, text, sizeof text);
	struct str rest = str_n(text, n > 0 ? (size_t)n : 0);
	while (rest.n)
		if (str_eq(str_trim(str_split(rest, '\n', &rest)), STR("user_allow_other")))
			return true;
	return false;
}

/* ---- mount ---- */

static int check_place(int at, const struct fuse_ask *a, struct stat *st, struct fuse_reply *r)
{
	char link[32], name[8] = "";
	struct fuse_mounts m = {0};
	snprintf(link, sizeof link, "self/fd/%d", at);
	if (fstat(at, st) < 0)
		return say(r, errno, "");
	if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
		return say(r, ENOTDIR, "the mount point is neither a directory nor a file");
	if (a->uid != 0 && (st->st_uid != a->uid || !(st->st_mode & S_IWUSR)))
		return say(r, EPERM, "the mount point is not the user's own, or cannot be written");
	int os = look(at, &m);
	if (os < 0 || !m.found)
		return say(r, os < 0 ? -os : EINVAL, "");
	if (m.closed || (readlinkat(FD_PROC, link, name, sizeof name) == 1 && name[0] == '/'))
		return say(r, EPERM, "nothing can be mounted there");
	if (m.fuse >= BOX_FUSE_MOUNTS)
		return say(r, ENOSPC, "this sandbox has as many FUSE mounts as are allowed");
	return 0;
}

static unsigned long mount_flags(uint32_t flags)
{
	unsigned long f = MS_NOSUID | MS_NODEV;
	f |= flags & FUSE_READ_ONLY ? MS_RDONLY : 0;
	f |= flags & FUSE_NO_EXEC ? MS_NOEXEC : 0;
	f |= flags & FUSE_NO_ATIME ? MS_NOATIME : 0;
	f |= flags & FUSE_NO_DIRATIME ? MS_NODIRATIME : 0;
	f |= flags & FUSE_SYNC ? MS_SYNCHRONOUS : 0;
	return f;
}

static int mount_on(int at, int fuse, const struct fuse_ask *a, mode_t mode, struct fuse_reply *r)
{
	char target[32], type[FUSE_SUBTYPE + 8], options[256];
	int n = snprintf(options, sizeof options, "fd=%d,rootmode=%o,user_id=%u,group_id=%u%s%s", fuse, mode & S_IFMT,
		a->uid, a->gid, a->flags & FUSE_ALLOW_OTHER ? ",allow_other" : "",
		a->flags & FUSE_DEFAULT_PERMISSIONS ? ",default_permissions" : "");
	if (a->max_read)
		snprintf(options + n, sizeof options - (size_t)n, ",max_read=%u", a->max_read);
	snprintf(type, sizeof type, *a->subtype ? "fuse.%s" : "fuse", a->subtype);
	snprintf(target, sizeof target, "self/fd/%d", at);
	const char *source = *a->source ? a->source : *a->subtype ? a->subtype : "fuse";
	return syscall(SYS_mount, source, target, type, mount_flags(a->flags), options) < 0 ? say(r, errno, "") : 0;
}

/* Returns the descriptor of /dev/fuse, or -1. */
static int do_mount(const struct fuse_ask *a, struct fuse_reply *r)
{
	if (refusal)
		return say(r, EPERM, refusal);
	char node[32];
	struct stat st = {0};
	if ((a->flags & FUSE_ALLOW_OTHER) && a->uid != 0 && !others_allowed())
		return say(r, EPERM, "allow_other needs 'user_allow_other' in /etc/fuse.conf");
	act_as(a->uid, a->gid);
	auto_fd int at = open(a->path, O_PATH | O_CLOEXEC);
	int os = errno;
	act_as(0, 0);
	if (at < 0)
		return say(r, os, "");
	if (check_place(at, a, &st, r) < 0)
		return -1;
	snprintf(node, sizeof node, "self/fd/%d", FD_NODE);
	auto_fd int fuse = openat(FD_PROC, node, O_RDWR | O_CLOEXEC);
	if (fuse < 0)
		return say(r, errno, "/dev/fuse cannot be opened");
	if (fchdir(FD_PROC) < 0)
		return say(r, errno, "");
	int made = mount_on(at, fuse, a, st.st_mode, r);
	return chdir("/") < 0 || made < 0 ? -1 : take_fd(&fuse);
}

/* ---- unmount ---- */

static int open_parent(const struct fuse_ask *a, char name[FUSE_PATH])
{
	char parent[FUSE_PATH];
	snprintf(parent, sizeof parent, "%s", a->path);
	size_t n = strlen(parent);
	while (n > 1 && parent[n - 1] == '/')
		parent[--n] = 0;
	char *slash = strrchr(parent, '/');
	if (!slash || !slash[1] || strcmp(slash + 1, ".") == 0 || strcmp(slash + 1, "..") == 0)
		return errno = EINVAL, -1;
	snprintf(name, FUSE_PATH, "%s", slash + 1);
	slash[slash == parent] = 0;
	act_as(a->uid, a->gid);
	int fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int os = errno;
	act_as(0, 0);
	errno = os;
	return fd;
}

static int check_mounted(int parent, const char *name, const struct fuse_ask *a, struct fuse_reply *r)
{
	struct fuse_mounts above = {0}, m = {0};
	auto_fd int at = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0)
		return say(r, errno, "");
	auto_buf struct buf one = {0}, two = {0};
	char path[48];
	uint64_t here, there;
	snprintf(path, sizeof path, "self/fdinfo/%d", at);
	bool known = fd_read_file(FD_PROC, path, 4096, &one) == 0 && fuse_mount_id(buf_str(&one), &there);
	snprintf(path, sizeof path, "self/fdinfo/%d", parent);
	known = known && fd_read_file(FD_PROC, path, 4096, &two) == 0 && fuse_mount_id(buf_str(&two), &here);
	if (!known || look(at, &m) < 0 || look(parent, &above) < 0)
		return say(r, EIO, "");
	if (here == there || !m.found || !m.is_fuse)
		return say(r, EINVAL, "no FUSE file system is mounted there");
	if (a->uid != 0 && (!m.has_user || m.user != a->uid))
		return say(r, EPERM, "the mount belongs to another user");
	return 0;
}

static void do_unmount(const struct fuse_ask *a, struct fuse_reply *r)
{
	char name[FUSE_PATH];
	auto_fd int parent = open_parent(a, name);
	if (parent < 0) {
		say(r, errno, "");
		return;
	}
	if (check_mounted(parent, name, a, r) < 0)
		return;
	const int flags = 8 /* UMOUNT_NOFOLLOW */ | (a->flags & FUSE_LAZY ? MNT_DETACH : 0);
	if (fchdir(parent) < 0 || sys_umount(name, flags) < 0)
		say(r, errno, "");
	if (chdir("/") < 0)
		_exit(1);
}

/* ---- life ---- */

static void keep_fds(const struct fuse_join *j)
{
	int from[] = {[FD_NODE] = j->node, [FD_PROC] = j->proc, [FD_BOX] = j->box, [FD_GO] = j->go};
	for (int i = 0; i < FD_KEPT; i++)
		if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64)) < 0)
			_exit(1);
	for (int i = 0; i < FD_KEPT; i++)
		if (dup3(from[i], i, O_CLOEXEC) < 0)
			_exit(1);
	if (sys_close_range(FD_KEPT, ~0u) < 0)
		_exit(1);
}

static void join_box(pid_t warden)
{
	sigset_t none;
	char byte;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	sig_default_all();
	setsid();
	umask(022);
	if (recv(FD_GO, &byte, 1, 0) != 1)
		_exit(0);
	if (setns(FD_BOX, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) < 0)
		_exit(1);
	if (setresgid(0, 0, 0) < 0 || setgroups(0, NULL) < 0 || setresuid(0, 0, 0) < 0)
		_exit(1);
	struct err e;
	if (caps_limit(CAPS_JOINER, &e) < 0)
		_exit(1);
	/* After the last change of user, which makes the kernel forget it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != warden)
		_exit(1);
}

static int connect_agent(int pid)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct ucred who = {.pid = -1};
	socklen_t size = sizeof who;
	memcpy(sa.sun_path, FUSE_SOCKET, sizeof FUSE_SOCKET - 1);
	socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof FUSE_SOCKET - 1);
	auto_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, n) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 || who.pid != pid)
		return -1;
	return take_fd(&fd);
}

static bool serve_one(int agent)
{
	static struct fuse_ask ask;
	struct fuse_reply reply = {.magic = FUSE_MAGIC};
	struct fd_record in = {.data = &ask, .size = sizeof ask};
	if (fd_recv(agent, &in, 0) != (ssize_t)sizeof ask || !fuse_ask_ok(&ask))
		return false;
	int fuse = -1;
	if (ask.op == FUSE_MOUNT)
		fuse = do_mount(&ask, &reply);
	else
		do_unmount(&ask, &reply);
	if (ask.op == FUSE_MOUNT && fuse < 0 && !reply.error)
		reply.error = EIO;
	ssize_t n = fd_send(agent, &reply, sizeof reply, &fuse, fuse >= 0 ? 1 : 0, 0);
	fd_close(&fuse);
	return n == (ssize_t)sizeof reply;
}

_Noreturn void fuse_join(const struct fuse_join *j)
{
	prctl(PR_SET_NAME, "atoll-joiner");
	const pid_t pid = j->pid, warden = j->warden;
	refusal = j->refusal;
	keep_fds(j);
	join_box(warden);
	int agent = connect_agent(pid);
	while (agent >= 0 && serve_one(agent))
		;
	_exit(0);
}
