#include "gate/confine.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Sockets and the loop; memory; time; and reading the few files of the resolver and the trust store. */
static const int calls[] = {SCMP_SYS(accept4), SCMP_SYS(bind), SCMP_SYS(brk), SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep), SCMP_SYS(close), SCMP_SYS(connect), SCMP_SYS(dup), SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_wait), SCMP_SYS(exit), SCMP_SYS(exit_group),
	SCMP_SYS(fcntl), SCMP_SYS(fstat), SCMP_SYS(futex), SCMP_SYS(getegid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
	SCMP_SYS(getpeername), SCMP_SYS(getpid), SCMP_SYS(getrandom), SCMP_SYS(getrlimit), SCMP_SYS(getsockname),
	SCMP_SYS(getsockopt), SCMP_SYS(gettid), SCMP_SYS(gettimeofday), SCMP_SYS(getuid), SCMP_SYS(lseek),
	SCMP_SYS(madvise), SCMP_SYS(mmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(munmap), SCMP_SYS(newfstatat),
	SCMP_SYS(openat), SCMP_SYS(pipe2), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(prlimit64), SCMP_SYS(read),
	SCMP_SYS(readv), SCMP_SYS(recvfrom), SCMP_SYS(recvmmsg), SCMP_SYS(recvmsg), SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sendmmsg), SCMP_SYS(sendmsg),
	SCMP_SYS(sendto), SCMP_SYS(setsockopt), SCMP_SYS(shutdown), SCMP_SYS(socketpair), SCMP_SYS(splice),
	SCMP_SYS(stat), SCMP_SYS(statx), SCMP_SYS(sysinfo), SCMP_SYS(time), SCMP_SYS(tgkill), SCMP_SYS(uname),
	SCMP_SYS(write), SCMP_SYS(writev)};

/* Which families a socket may have; raw ones are given by the warden. */
static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

static int fill(scmp_filter_ctx f)
{
	int r = 0;
	for (size_t i = 0; i < ARRAY_LEN(calls) && r == 0; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
	for (size_t i = 0; i < ARRAY_LEN(families) && r == 0; i++)
		r = seccomp_rule_add(
			f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	return r;
}

int confine(struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "give up privileges");
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = f ? fill(f) : -ENOMEM;
	if (r == 0)
		r = seccomp_load(f);
	if (f)
		seccomp_release(f);
	return r < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, -r, "load the seccomp filter") : 0;
}
