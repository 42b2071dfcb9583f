/*
 * join.c - forks a process into a box. The part of the zygote that is not Python: a shared object without any library,
 * loaded by ctypes, so that it fits every image.
 *
 * Theory of operation. zygote_serve reads requests from the warden and answers each with a fork. It returns in the
 * children only. A child then is as a process that the box's agent started, with descriptors 0 to 3 as
 * docs/design/008-interpreter.md has them. Not one instruction of Python runs in the zygote meanwhile, so that its
 * memory stays shared.
 *
 *	zygote   setns(pid namespace of the box)
 *	zygote   clone(VM | VFORK): the go-between, in the box's pid namespace, in the zygote's memory
 *	between  clone: the child, a copy of the zygote. The go-between ends, so the child's parent is the box's init
 *	child    back onto the zygote's stack (its own copy)
 *	child    cgroups, namespaces, root of the box, capabilities, seccomp; socket and pipes, sent to the agent
 *	child    a stack canary of its own, and into Python by a call that does not return
 *
 * The go-between is why the agent can wait for the child and knows the truth about its end. It costs no copy of memory.
 * The kernel kills it at any instruction when the box's init ends, so it changes no memory but its own stack and
 * between_error, and calls nothing of the C library: fork() there takes a lock that a killed go-between would leave
 * locked for ever. own_thread does the work of fork() in the child. Handlers of pthread_atfork do not
 * run: they guard locks against other threads, and a zygote has none.
 *
 * Until its last step the child is not dumpable: no process in the box can look into it while it holds descriptors and
 * memory that are not the box's. It reports a failed step to the agent, and ends.
 */
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/fcntl.h>
#include <linux/net.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/socket.h>
#include <linux/time_types.h>

#include "proto/netlink.h"
#include "proto/noshare.h"
#include "proto/zygote.h"
#include "worker/join_image.h"
#include "worker/join_sys.h"

enum { BETWEEN_STACK = 64 * 1024, FD_HIGH = 200 };

typedef void *(*call_function)(void *callable, void *arguments);

/* Addresses of the data that a fork must renew. Filled in by zygote.py; zero: not known, left as it is. */
struct process {
	int *tid;   /* the C library's copy of this thread's number */
	void *rseq; /* its restartable sequences, registered again in children: vfork loses them */
	long rseq_size;
	__u64 *random;	 /* the two words that the kernel gave it at its start: AT_RANDOM */
	const char *exe; /* path of the interpreter, without links */
	struct prctl_mm_map map;
};

struct request {
	struct zygote_ask ask;
	int fd[ZYGOTE_FDS_MAX];
	int fds;
};

static struct zygote_setup setup;
static struct request request;
static struct process process;
static struct {
	void *head;
	size_t len;
} robust;	      /* the list of this thread's robust mutexes */
static void *back[5]; /* __builtin_setjmp */
static volatile long between_error;
static char between_stack[BETWEEN_STACK] __attribute__((aligned(64)));

/* ---- records ---- */

union fd_room {
	struct cmsg head;
	char room[sizeof(struct cmsg) + sizeof(int) * ZYGOTE_FDS_MAX + 16];
};

static void close_all(struct request *r)
{
	for (int i = 0; i < r->fds; i++)
		sys1(SYS_close, r->fd[i]);
	r->fds = 0;
}

/* 1, 0 at the end, or a negative errno. A record of another form than the header says counts as the end. */
static long receive(int control, struct request *r)
{
	union fd_room room;
	struct iovec iov = {&r->ask, sizeof r->ask};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
	r->fds = 0;
	long n = sys3(SYS_recvmsg, control, (long)&m, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return n;
	if (m.msg_controllen >= sizeof(struct cmsg) && room.head.level == SOL_SOCKET && room.head.type == CMSG_FDS) {
		r->fds = (int)((room.head.len - sizeof(struct cmsg)) / sizeof(int));
		for (int i = 0; i < r->fds; i++)
			r->fd[i] = ((int *)(&room.head + 1))[i];
	}
	bool good = n == sizeof r->ask && r->ask.magic == ZYGOTE_MAGIC && r->ask.cgroups <= ZYGOTE_CGROUPS_MAX &&
		    r->fds == ZYGOTE_FD_CGROUPS + (int)r->ask.cgroups;
	return good ? 1 : 0;
}

static void note(int control, __u32 serial, long error)
{
	struct zygote_note n = {ZYGOTE_MAGIC, serial, (__s32)-error};
	sys6(SYS_sendto, control, (long)&n, sizeof n, MSG_NOSIGNAL, 0, 0);
}

static long reply(const struct request *r, long error, const int *fds, int n)
{
	union fd_room room;
	struct zygote_reply rec = {ZYGOTE_MAGIC, r->ask.serial, (__s32)-error};
	struct iovec iov = {&rec, sizeof rec};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	if (n) {
		room.head.len = sizeof(struct cmsg) + sizeof(int) * (unsigned)n;
		room.head.level = SOL_SOCKET;
		room.head.type = CMSG_FDS;
		for (int i = 0; i < n; i++)
			((int *)(&room.head + 1))[i] = fds[i];
		m.msg_control = &room;
		m.msg_controllen = (room.head.len + 7) & ~7ul;
	}
	return sys3(SYS_sendmsg, r->fd[ZYGOTE_FD_REPLY], (long)&m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- the child ---- */

/* The work of the C library's fork in a child. */
static void own_thread(void)
{
	if (process.tid)
		*process.tid = (int)sys1(SYS_set_tid_address, (long)process.tid);
	if (robust.head)
		sys2(SYS_set_robust_list, (long)robust.head, (long)robust.len);
	if (process.rseq)
		sys4(SYS_rseq, (long)process.rseq, process.rseq_size, 0, RSEQ_SIGNATURE);
}

/* Secrets that exec would have given it. From here on no function may return that was entered before. */
static long own_secrets(void)
{
	__u64 fresh[3];
	long n = sys3(SYS_getrandom, (long)fresh, sizeof fresh, 0);
	if (n != sizeof fresh)
		return n < 0 ? n : -EIO;
	for (int i = 0; process.random && i < 2; i++)
		process.random[i] = fresh[i];
	set_stack_canary(fresh[2]);
	return 0;
}

/* The first step: memory that the child touches from now on is charged to the box. The warden opened the files, and the
 * kernel asks for the rights of the opener. */
static long enter_cgroups(const struct request *r)
{
	for (__u32 i = 0; i < r->ask.cgroups; i++) {
		long e = sys3(SYS_write, r->fd[ZYGOTE_FD_CGROUPS + i], (long)"0", 1);
		if (e < 0)
			return e;
	}
	return 0;
}

/* The user namespace first: it gives all capabilities over the others, and none over anything else any more. */
static long enter_namespaces(const struct request *r)
{
	static const struct {
		int fd;
		long type;
	} order[] = {{ZYGOTE_FD_USERNS, CLONE_NEWUSER}, {ZYGOTE_FD_IPCNS, CLONE_NEWIPC},
		{ZYGOTE_FD_UTSNS, CLONE_NEWUTS}, {ZYGOTE_FD_NETNS, CLONE_NEWNET}, {ZYGOTE_FD_CGROUPNS, CLONE_NEWCGROUP},
		{ZYGOTE_FD_MNTNS, CLONE_NEWNS}, {ZYGOTE_FD_TIMENS, 0}};
	for (unsigned i = 0; i < sizeof order / sizeof *order; i++) {
		long e = sys2(SYS_setns, r->fd[order[i].fd], order[i].type);
		if (e < 0)
			return e;
	}
	return 0;
}

static long become_root(void)
{
	long e = sys3(SYS_setresgid, 0, 0, 0);
	if (e == 0)
		e = sys2(SYS_setgroups, 0, 0);
	if (e == 0)
		e = sys3(SYS_setresuid, 0, 0, 0);
	if (e == 0)
		e = sys1(SYS_setsid, 0);
	return e < 0 ? e : 0;
}

static long limit_files(const struct request *r)
{
	const __u64 size[2] = {r->ask.file_max, r->ask.file_max};
	return sys4(SYS_prlimit64, 0, RLIMIT_FSIZE, (long)size, 0);
}

static long drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	for (int cap = 0; cap < 64; cap++) {
		if (setup.caps >> cap & 1)
			continue;
		long e = sys5(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
		if (e == -EINVAL) /* past the kernel's last one */
			break;
		if (e < 0)
			return e;
	}
	long e = sys5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int i = 0; i < 2; i++)
		data[i].permitted = data[i].effective = (__u32)(setup.caps >> (32 * i));
	return e < 0 ? e : sys2(SYS_capset, (long)&head, (long)data);
}

/* Loads the box's filter, and the filter whose calls the agent answers; the agent gets its listener. */
static long load_filters(const struct request *r, long *ret_listener)
{
	struct sock_fprog box = {.len = (unsigned short)setup.filter_n, .filter = setup.filter};
	struct sock_fprog netlink = {
		.len = sizeof netlink_filter / sizeof *netlink_filter, .filter = (struct sock_filter *)netlink_filter};
	struct sock_fprog noshare = {
		.len = sizeof noshare_filter / sizeof *noshare_filter, .filter = (struct sock_filter *)noshare_filter};
	long e = sys5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (e == 0 && r->ask.noshare)
		e = sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&noshare);
	if (e == 0)
		e = sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&box);
	if (e < 0)
		return e;
	*ret_listener = sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, (long)&netlink);
	return *ret_listener >= 0 ? 0 : sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&netlink);
}

/* Makes the socket and the pipes, sends the agent its ends, keeps the others as 0 to 3 and nothing else. */
static long open_up(const struct request *r, long listener)
{
	int pair[2], out[2], err[2];
	long null = sys4(SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR, 0);
	long e = null < 0 ? null : sys4(SYS_socketpair, AF_UNIX, SOCK_STREAM | O_CLOEXEC, 0, (long)pair);
	if (e >= 0)
		e = sys2(SYS_pipe2, (long)out, O_CLOEXEC);
	if (e >= 0)
		e = sys2(SYS_pipe2, (long)err, O_CLOEXEC);
	if (e >= 0)
		e = reply(r, 0, (int[ZYGOTE_REPLY_FDS]){pair[0], out[0], err[0], (int)listener},
			listener < 0 ? ZYGOTE_REPLY_FDS - 1 : ZYGOTE_REPLY_FDS);
	if (e < 0)
		return e;
	const int from[] = {(int)null, out[1], err[1], pair[1]};
	int high[4];
	for (int i = 0; i < 4; i++)
		if ((high[i] = (int)sys3(SYS_fcntl, from[i], F_DUPFD, FD_HIGH)) < 0)
			return high[i];
	for (int i = 0; i < 4; i++)
		if ((e = sys3(SYS_dup3, high[i], i, i == 3 ? O_CLOEXEC : 0)) < 0)
			return e;
	return sys3(SYS_close_range, 4, ~0u, 0);
}

static void child(void)
{
	long listener = -1;
	own_thread();
	long e = enter_cgroups(&request);
	if (e == 0)
		e = enter_namespaces(&request);
	if (e == 0)
		e = become_root();
	if (e == 0)
		e = image_take_file(process.exe, &process.map);
	if (e == 0)
		e = limit_files(&request);
	if (e == 0)
		e = drop_capabilities();
	if (e == 0)
		e = load_filters(&request, &listener);
	if (e == 0)
		e = open_up(&request, listener);
	if (e == 0)
		e = own_secrets();
	if (e < 0) {
		reply(&request, e, 0, 0);
		sys1(SYS_exit_group, 1);
	}
	/* exec makes every other process dumpable. */
	sys5(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* ---- the zygote ---- */

/* On its own stack, in the zygote's memory; the zygote sleeps. Raw calls only: see above. */
__attribute__((noreturn)) void zygote_between(void)
{
	long pid = sys5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		__builtin_longjmp(back, 1);
	between_error = pid < 0 ? pid : 0;
	for (;;)
		sys1(SYS_exit_group, 0);
}

/* Waits for the go-between. If it was killed it could not report: its box has ended, and a child too. */
static long between_end(long pid)
{
	int status = 0;
	long e;
	do
		e = sys4(SYS_wait4, pid, (long)&status, __WALL, 0);
	while (e == -EINTR);
	return e < 0 ? e : status ? -ESRCH : between_error;
}

static long fork_into(int own_pidns)
{
	long e = sys2(SYS_setns, request.fd[ZYGOTE_FD_PIDNS], CLONE_NEWPID);
	if (e < 0)
		return e;
	between_error = -ESRCH;
	long pid = sys_vfork_on(between_stack + sizeof between_stack, zygote_between);
	e = pid > 0 ? between_end(pid) : pid;
	sys2(SYS_setns, own_pidns, CLONE_NEWPID);
	return e;
}

__attribute__((noinline)) static void serve(int control, int own_pidns)
{
	for (;;) {
		long n = receive(control, &request);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return;
		long e = fork_into(own_pidns);
		if (e < 0)
			reply(&request, e, 0, 0);
		note(control, request.ask.serial, e);
		close_all(&request);
	}
}

/* Returns in the zygote, when the warden is gone. A child that is ready for user code calls `call(callable, 0)`, which
 * is PyObject_CallObject; it does not come back either, since the frames above were entered with the old canary. */
__attribute__((visibility("default"))) void zygote_serve(
	int control, int own_pidns, const struct process *p, call_function call, void *callable)
{
	process = *p;
	sys5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	sys3(SYS_get_robust_list, 0, (long)&robust.head, (long)&robust.len);
	long n = sys6(SYS_recvfrom, control, (long)&setup, sizeof setup, 0, 0, 0);
	if (n != sizeof setup || setup.magic != ZYGOTE_MAGIC || setup.filter_n > ZYGOTE_FILTER_MAX)
		return;
	note(control, 0, 0);
	if (__builtin_setjmp(back) == 0) {
		serve(control, own_pidns);
		__asm__ volatile("" ::: "memory"); /* no tail call: children come back into this frame */
		return;
	}
	child();
	call(callable, 0);
	for (;;)
		sys1(SYS_exit_group, 1);
}
