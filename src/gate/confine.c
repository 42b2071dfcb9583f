#include "gate/confine.h"

#include <seccomp.h>
#include <sys/socket.h>

#include "base/base.h"
#include "confine/confine.h"

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

int confine(struct err *e)
{
	const struct confine_list list = {
		.calls = calls, .calls_n = ARRAY_LEN(calls), .families = families, .families_n = ARRAY_LEN(families)};
	return confine_self(e) < 0 ? -1 : confine_calls(&list, e);
}
