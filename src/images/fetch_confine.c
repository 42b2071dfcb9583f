/*
 * What is left to the process that speaks with registries: the host's network, the descriptors that it was given, and
 * reading what names and certificates need. It is the daemon's user, so without this it could read that user's files,
 * signal its processes and speak with the daemon's and the warden's sockets.
 */
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "confine/confine.h"
#include "images/fetch.h"

#define READS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define REST                                                                                                           \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                  \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |          \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |            \
		LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* Certificates; the resolver; its modules and the libraries that they need. None of them is secret. */
static const char *const readable[] = {"/etc/ssl", "/usr/lib/ssl", "/usr/share/ca-certificates",
	"/usr/local/share/ca-certificates", "/etc/pki", "/etc/containers/certs.d", "/etc/docker/certs.d",
	"/etc/resolv.conf", "/run/systemd/resolve", "/run/NetworkManager/resolv.conf", "/etc/hosts", "/etc/host.conf",
	"/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/localtime", "/etc/ld.so.cache", "/lib", "/lib64",
	"/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/dev/null", "/dev/urandom"};

/* Reading, writing and connecting; memory, threads (libcurl looks names up in one) and time. Not: bind is for netlink,
 * and without listen nothing can be accepted. */
static const int calls[] = {SCMP_SYS(access), SCMP_SYS(bind), SCMP_SYS(brk), SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep), SCMP_SYS(close), SCMP_SYS(connect), SCMP_SYS(dup), SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_wait), SCMP_SYS(eventfd2), SCMP_SYS(exit),
	SCMP_SYS(exit_group), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(fcntl), SCMP_SYS(fstat),
	SCMP_SYS(fstatfs), SCMP_SYS(ftruncate), SCMP_SYS(futex), SCMP_SYS(getdents64), SCMP_SYS(getegid),
	SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getpeername), SCMP_SYS(getpid), SCMP_SYS(getppid),
	SCMP_SYS(getrandom), SCMP_SYS(getrlimit), SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(gettid),
	SCMP_SYS(gettimeofday), SCMP_SYS(getuid), SCMP_SYS(ioctl), SCMP_SYS(lseek), SCMP_SYS(madvise), SCMP_SYS(mmap),
	SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(munmap), SCMP_SYS(nanosleep), SCMP_SYS(newfstatat),
	SCMP_SYS(openat), SCMP_SYS(pipe2), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(pread64), SCMP_SYS(prlimit64),
	SCMP_SYS(pwrite64), SCMP_SYS(read), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(readv),
	SCMP_SYS(recvfrom), SCMP_SYS(recvmmsg), SCMP_SYS(recvmsg), SCMP_SYS(restart_syscall), SCMP_SYS(rseq),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_yield), SCMP_SYS(sendmmsg), SCMP_SYS(sendmsg), SCMP_SYS(sendto), SCMP_SYS(set_robust_list),
	SCMP_SYS(setsockopt), SCMP_SYS(shutdown), SCMP_SYS(sigaltstack), SCMP_SYS(socketpair), SCMP_SYS(stat),
	SCMP_SYS(statx), SCMP_SYS(sysinfo), SCMP_SYS(time), SCMP_SYS(uname), SCMP_SYS(write), SCMP_SYS(writev)};

/* No AF_UNIX: the warden's images.sock and the daemon's sockets take this user for theirs. */
static const int families[] = {AF_INET, AF_INET6, AF_NETLINK};

static void allow_reads(int rules, const char *path)
{
	struct stat st;
	auto_fd int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	const struct landlock_path_beneath_attr one = {
		.parent_fd = fd, .allowed_access = S_ISDIR(st.st_mode) ? READS : LANDLOCK_ACCESS_FS_READ_FILE};
	syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &one, 0);
}

static int restrict_files(struct err *e)
{
	const struct landlock_ruleset_attr what = {.handled_access_fs = READS | REST};
	const char *certs = getenv("ATOLL_REGISTRY_CERTS");
	auto_fd int rules = (int)syscall(SYS_landlock_create_ruleset, &what, sizeof what, 0);
	if (rules < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
		return 0; /* a kernel without Landlock */
	for (size_t i = 0; rules >= 0 && i < ARRAY_LEN(readable); i++)
		allow_reads(rules, readable[i]);
	if (certs && *certs)
		allow_reads(rules, certs);
	return rules < 0 || syscall(SYS_landlock_restrict_self, rules, 0) < 0
		       ? err_os(e, ERRC_HOST_UNSUPPORTED, errno, "restrict the fetching to its files")
		       : 0;
}

int fetch_confine(struct err *e)
{
	const struct confine_list list = {.calls = calls,
		.calls_n = ARRAY_LEN(calls),
		.families = families,
		.families_n = ARRAY_LEN(families),
		.threads = true};
	return confine_self(e) < 0 || restrict_files(e) < 0 ? -1 : confine_calls(&list, e);
}
