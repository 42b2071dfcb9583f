#include "agent/proc/netlink.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "agent/fuse/broker.h"
#include "agent/proc/listeners.h"
#include "base/fd.h"
#include "base/log.h"
#include "proto/limits.h"
#include "proto/netlink.h"

/* INFO_*: a line of fdinfo has at most 118 characters. */
enum { BROKER_STACK = 64 * 1024, INFO_LINE = 128, INFO_HEAD = 256, PIDFD_ANY_THREAD = O_EXCL, MOUNTINFO_MAX = 1 << 20 };

static int asked = -1;	   /* epoll: the listeners */
static int kept = -1;	   /* epoll, never waited for: every socket that was handed out and is still open */
static char kept_info[40]; /* its file in /proc */
/* The broker's alone. */
static int open_at_most; /* sockets that may be open; counted anew when this reaches the limit */
static bool patient = true;

/* ---- how many are open ---- */

static int count(void)
{
	static char text[BOX_NETLINK_SOCKETS * INFO_LINE + INFO_HEAD];
	auto_fd int info = open(kept_info, O_RDONLY | O_CLOEXEC);
	ssize_t size = info < 0 ? -1 : read(info, text, sizeof text - 1);
	int n = 0;
	if (size < 0)
		return BOX_NETLINK_SOCKETS;
	text[size] = 0;
	for (const char *at = text; (at = strstr(at, "tfd:")); at++)
		n++;
	return n;
}

/* No event tells that a socket was closed, so the broker waits and counts again. Callers that come meanwhile wait
 * behind this caller; when no socket gets free, they are refused without another wait. */
static bool has_room(void)
{
	const struct timespec pause = {.tv_nsec = NETLINK_PAUSE * 1000000l};
	if (open_at_most < BOX_NETLINK_SOCKETS)
		return true;
	for (int waited = 0; (open_at_most = count()) >= BOX_NETLINK_SOCKETS; waited += NETLINK_PAUSE) {
		if (!patient || waited >= NETLINK_PATIENCE)
			return patient = false;
		nanosleep(&pause, NULL);
	}
	return patient = true;
}

/* ---- answers ---- */

/* The answer fails when the caller is gone, which does no harm. */
static void answer(int listener, const struct seccomp_notif *ask, int result, int error)
{
	struct seccomp_notif_resp r = {.id = ask->id, .val = result, .error = -error};
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

/* The call goes on as if it had never been stopped. Only for calls whose arguments are all numbers. */
static void let_go_on(int listener, const struct seccomp_notif *ask)
{
	struct seccomp_notif_resp r = {.id = ask->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

static void limit(int fd, int option, int size)
{
	setsockopt(fd, SOL_SOCKET, option, &size, sizeof size);
}

static int open_socket(int type, int protocol)
{
	if (!has_room())
		return errno = ENOBUFS, -1;
	int fd = socket(AF_NETLINK, type | SOCK_CLOEXEC, protocol);
	struct epoll_event none = {0};
	if (fd < 0)
		return -1;
	if (epoll_ctl(kept, EPOLL_CTL_ADD, fd, &none) < 0) {
		close(fd);
		return errno = ENOBUFS, -1;
	}
	open_at_most++;
	limit(fd, SO_RCVBUF, NETLINK_BUFFER);
	limit(fd, SO_SNDBUF, NETLINK_BUFFER);
	return fd;
}

/* Two steps. SECCOMP_ADDFD_FLAG_SEND would make one of them, but when the freezer interrupts the broker in there, the
 * kernel answers the caller with 0: a wrong descriptor. This way a signal to the caller between the steps leaves it
 * with one descriptor too many, and it asks again. (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV would prevent that, and
 * would keep a box that makes sockets all the time from being frozen.) */
static void give_socket(int listener, const struct seccomp_notif *ask)
{
	int type = (int)ask->data.args[1], fd = open_socket(type, (int)ask->data.args[2]);
	if (fd < 0)
		return answer(listener, ask, 0, errno);
	struct seccomp_notif_addfd add = {
		.id = ask->id, .srcfd = (uint32_t)fd, .newfd_flags = type & SOCK_CLOEXEC ? O_CLOEXEC : 0};
	int theirs = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add), os = errno;
	close(fd);
	if (theirs >= 0)
		answer(listener, ask, theirs, 0);
	else /* the caller's own limit of open files, or it is gone */
		answer(listener, ask, 0, os);
}

/* Kernels before 6.9 have no descriptors for other threads than the first. */
static int open_task(uint32_t tid)
{
	char path[32], status[512];
	int fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_ANY_THREAD);
	if (fd >= 0 || errno != EINVAL)
		return fd;
	snprintf(path, sizeof path, "/proc/%u/status", tid);
	auto_fd int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, status, sizeof status - 1);
	if (n <= 0)
		return -1;
	status[n] = 0;
	const char *tgid = strstr(status, "\nTgid:\t");
	return tgid ? (int)syscall(SYS_pidfd_open, strtoul(tgid + 7, NULL, 10), 0) : -1;
}

static int file_of(const struct seccomp_notif *ask)
{
	auto_fd int task = open_task(ask->pid);
	return task < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, task, (int)ask->data.args[0], 0);
}

/* The size is the caller's, except for netlink. On the caller's file itself and never by letting the call go on: by
 * then another thread could have put a netlink socket there. */
static int set_size(const struct seccomp_notif *ask)
{
	int size, domain = 0, option = (int)ask->data.args[2];
	socklen_t n = sizeof domain;
	auto_fd int fd = file_of(ask);
	if (fd < 0 && errno == EBADF)
		return EBADF;
	/* Of another user, or not dumpable: its files are closed to us, and a size is no promise. */
	if (fd < 0)
		return 0;
	if ((int)ask->data.args[4] < (int)sizeof size)
		return EINVAL;
	struct iovec to = {&size, sizeof size}, from = {(void *)(uintptr_t)ask->data.args[3], sizeof size};
	if (process_vm_readv((pid_t)ask->pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof size)
		return EFAULT;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0)
		return errno;
	if (domain == AF_NETLINK && (size < 0 || size > NETLINK_BUFFER))
		size = NETLINK_BUFFER;
	return setsockopt(fd, SOL_SOCKET, option, &size, sizeof size) < 0 ? errno : 0;
}

/* The line "NAME:\treal\teffective\tsaved\t…" of a status; false unless these three are one id. */
static bool one_id(const char *status, const char *name, unsigned *ret)
{
	unsigned effective, saved;
	const char *line = strstr(status, name);
	return line && sscanf(line + strlen(name), "%u %u %u", ret, &effective, &saved) == 3 && effective == *ret &&
	       saved == *ret;
}

static bool ids_of(uint32_t tid, unsigned *ret_uid, unsigned *ret_gid)
{
	char path[32], status[1024];
	snprintf(path, sizeof path, "/proc/%u/status", tid);
	auto_fd int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, status, sizeof status - 1);
	if (n <= 0)
		return false;
	status[n] = 0;
	return one_id(status, "\nUid:\t", ret_uid) && one_id(status, "\nGid:\t", ret_gid);
}

/* The files of another user are open to a thread with that user's ids. The saved ids lead back. */
static int file_of_any_user(const struct seccomp_notif *ask)
{
	unsigned uid = 0, gid = 0;
	if (!ids_of(ask->pid, &uid, &gid))
		return -1;
	syscall(SYS_setresgid, gid, gid, 0);
	syscall(SYS_setresuid, uid, uid, 0);
	int fd = file_of(ask), os = errno;
	syscall(SYS_setresuid, 0, 0, 0);
	syscall(SYS_setresgid, 0, 0, 0);
	errno = os;
	return fd;
}

/* Where the kernel does not bound the queue of connections, the broker does: it listens in place of the caller. */
static void listen_briefly(int listener, const struct seccomp_notif *ask)
{
	auto_fd int fd = file_of_any_user(ask);
	if (fd >= 0)
		answer(listener, ask, 0, listen(fd, BOX_SOMAXCONN) < 0 ? errno : 0);
	else if (errno == EBADF)
		answer(listener, ask, 0, EBADF);
	else if (listeners_lengthen())
		let_go_on(listener, ask);
	else
		answer(listener, ask, 0, ENOBUFS);
}

static void start_to_listen(int listener, const struct seccomp_notif *ask)
{
	unsigned backlog = (unsigned)ask->data.args[1];
	if (!listeners_take())
		answer(listener, ask, 0, ENOBUFS);
	else if (backlog <= BOX_SOMAXCONN || listeners_have_short_queues())
		let_go_on(listener, ask);
	else
		listen_briefly(listener, ask);
}

/* Without a FUSE mount there is nothing that could be unmounted. */
static bool fuse_mounted(void)
{
	auto_buf struct buf mounts = {0};
	return fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &mounts) < 0 ||
	       strstr(buf_cstr(&mounts), " - fuse");
}

/* The line "Uid:\treal\teffective\t…" of its status. */
static bool caller_is_root(uint32_t tid)
{
	char path[32], status[1024];
	unsigned real = 1, effective = 1;
	snprintf(path, sizeof path, "/proc/%u/status", tid);
	auto_fd int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, status, sizeof status - 1);
	if (n <= 0)
		return false;
	status[n] = 0;
	const char *uid = strstr(status, "\nUid:\t");
	return uid && sscanf(uid + 6, "%u %u", &real, &effective) == 2 && effective == 0;
}

/* The first argument, with the caller's directory before it when it is relative. */
static bool read_path(const struct seccomp_notif *ask, char *ret, size_t size)
{
	char link[32], text[4096];
	struct iovec to = {text, sizeof text - 1}, from = {(void *)(uintptr_t)ask->data.args[0], sizeof text - 1};
	/* Up to the end of the page that it begins in, when the next one is not there. */
	ssize_t n = process_vm_readv((pid_t)ask->pid, &to, 1, &from, 1, 0);
	if (n <= 0) {
		from.iov_len = 4096 - (ask->data.args[0] & 4095);
		n = process_vm_readv((pid_t)ask->pid, &to, 1, &from, 1, 0);
	}
	if (n <= 0 || !memchr(text, 0, (size_t)n))
		return false;
	if (text[0] == '/')
		return (size_t)snprintf(ret, size, "%s", text) < size;
	snprintf(link, sizeof link, "/proc/%u/cwd", ask->pid);
	ssize_t cwd = readlink(link, ret, size - 1);
	return cwd > 0 && ret[0] == '/' &&
	       (size_t)snprintf(ret + cwd, size - (size_t)cwd, "/%s", text) < size - (size_t)cwd;
}

/* umount2: a FUSE program that ends as root calls it, and so does umount(8). */
static void unmount(int listener, const struct seccomp_notif *ask)
{
	struct fuse_notice n = {
		.listener = listener, .id = ask->id, .lazy = (ask->data.args[1] & 2 /* MNT_DETACH */) != 0};
	if (!fuse_mounted() || !caller_is_root(ask->pid) || !read_path(ask, n.path, sizeof n.path) ||
		!fuse_broker_pass(&n))
		answer(listener, ask, 0, EPERM);
}

static void serve_one(int listener)
{
	struct seccomp_notif ask = {0};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &ask) < 0) {
		INVARIANT(errno == ENOENT || errno == EINTR); /* the caller is gone */
		return;
	}
	if (ask.data.nr == SYS_socket)
		give_socket(listener, &ask);
	else if (ask.data.nr == SYS_listen)
		start_to_listen(listener, &ask);
	else if (ask.data.nr == SYS_umount2)
		unmount(listener, &ask);
	else
		answer(listener, &ask, 0, set_size(&ask));
}

static void *broker(void *arg)
{
	(void)arg;
	for (;;) {
		struct epoll_event ev;
		if (epoll_wait(asked, &ev, 1, -1) < 1) {
			INVARIANT(errno == EINTR);
			continue;
		}
		if (ev.events & EPOLLIN) {
			serve_one(ev.data.fd);
			continue;
		}
		/* No task is left behind it. Taken out by hand: a child that has not reached its exec may have a copy.
		 */
		epoll_ctl(asked, EPOLL_CTL_DEL, ev.data.fd, NULL);
		close(ev.data.fd);
	}
}

/* ---- start ---- */

void netlink_adopt(int listener)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener};
	if (listener >= 0 && (asked < 0 || epoll_ctl(asked, EPOLL_CTL_ADD, listener, &ev) < 0))
		close(listener);
}

int netlink_load_filter(int *ret_listener, struct err *e)
{
	struct sock_fprog f = {.len = ARRAY_LEN(netlink_filter), .filter = (struct sock_filter *)netlink_filter};
	*ret_listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &f);
	if (*ret_listener >= 0)
		return 0;
	log_event(LOG_WARN, "no seccomp listener: netlink sockets answer ENOSYS", "reason=%s", LOG_Q(strerror(errno)));
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "load the filter of netlink sockets");
	return 0;
}

static int start_broker(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, BROKER_STACK);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	int os = pthread_create(&thread, &attr, broker, NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return os;
}

int netlink_init(struct err *e)
{
	asked = epoll_create1(EPOLL_CLOEXEC);
	kept = epoll_create1(EPOLL_CLOEXEC);
	snprintf(kept_info, sizeof kept_info, "/proc/self/fdinfo/%d", kept);
	int os = asked < 0 || kept < 0 ? errno : start_broker();
	if (os)
		return err_os(e, ERRC_INTERNAL_ERROR, os, "start the broker of netlink sockets");
	int listener;
	if (netlink_load_filter(&listener, e) < 0)
		return -1;
	netlink_adopt(listener);
	return 0;
}
