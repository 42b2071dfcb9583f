/*
 * Budgets of the whole host that no cgroup and no namespace divides: the system call filter keeps boxes away from them.
 * The errno is that of a kernel which does not have the thing at all, so that programs fall back.
 */
#include "escape/escape.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/memfd.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "proto/limits.h"

enum { HUGE_PAGE = 2 * MIB, SHM_HUGE_FLAG = 04000, MERGE_ALL = 67 /* PR_SET_MEMORY_MERGE */ };
enum { TCP_MD5_OPTION = 14, TCP_AO_OPTION = 38, FLOW_LABEL_OPTION = 32 };

static struct sock_filter accept_all[] = {BPF_STMT(BPF_RET | BPF_K, 0xffffffff)};
static struct sock_filter allow_all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static const struct sock_fprog accept_program = {ARRAY_LEN(accept_all), accept_all};
static const struct sock_fprog allow_program = {ARRAY_LEN(allow_all), allow_all};

static void aio(const struct check *c, struct outcome *o)
{
	(void)c;
	unsigned long context = 0;
	long rc = TRY(o, "io_setup", syscall(SYS_io_setup, 1, &context), ENOSYS);
	if (rc == 0)
		syscall(SYS_io_destroy, context);
	TRY(o, "io_submit", syscall(SYS_io_submit, 0ul, 0l, NULL), ENOSYS);
	TRY(o, "io_getevents", syscall(SYS_io_getevents, 0ul, 0l, 0l, NULL, NULL), ENOSYS);
}

static void socket_filters(const struct check *c, struct outcome *o)
{
	(void)c;
	static const struct {
		const char *what;
		int option;
	} options[] = {{"SO_ATTACH_FILTER", SO_ATTACH_FILTER}, {"SO_ATTACH_REUSEPORT_CBPF", SO_ATTACH_REUSEPORT_CBPF},
		{"SO_ATTACH_BPF", SO_ATTACH_BPF}, {"SO_ATTACH_REUSEPORT_EBPF", SO_ATTACH_REUSEPORT_EBPF}};
	int one = 1, no_program = -1;
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0)
		errored(o, "no socket: %s", errno_name(errno));
	for (size_t i = 0; fd >= 0 && i < ARRAY_LEN(options); i++) {
		bool classic = i < 2;
		TRY(o, options[i].what,
			setsockopt(fd, SOL_SOCKET, options[i].option,
				classic ? (const void *)&accept_program : &no_program,
				classic ? sizeof(accept_program) : sizeof(no_program)),
			EPERM);
	}
}

static int filter_by_seccomp(void *arg)
{
	(void)arg;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &allow_program) < 0 ? errno : 0;
}

static int filter_by_prctl(void *arg)
{
	(void)arg;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allow_program, 0, 0) < 0 ? errno : 0;
}

static void seccomp_filters(const struct check *c, struct outcome *o)
{
	(void)c;
	int code = in_child(filter_by_seccomp, NULL);
	TRY(o, "seccomp(SECCOMP_SET_MODE_FILTER)", (errno = code, code ? -1 : 0), EINVAL);
	code = in_child(filter_by_prctl, NULL);
	TRY(o, "prctl(PR_SET_SECCOMP)", (errno = code, code ? -1 : 0), EINVAL);
}

static void huge_pages(const struct check *c, struct outcome *o)
{
	(void)c;
	const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
	void *p = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE, anonymous, -1, 0);
	TRY(o, "mmap(MAP_HUGETLB)", p == MAP_FAILED ? -1 : 0, ENOMEM);
	long fd = TRY(o, "memfd_create(MFD_HUGETLB)", syscall(SYS_memfd_create, "atoll", MFD_HUGETLB), ENOMEM);
	if (fd >= 0)
		close((int)fd);
	long id = TRY(o, "shmget(SHM_HUGETLB)", shmget(IPC_PRIVATE, HUGE_PAGE, SHM_HUGE_FLAG | 0600), ENOMEM);
	if (id >= 0)
		shmctl((int)id, IPC_RMID, NULL);
}

/* In the order of how likely a kernel has them: the first that works ends it, before modules are loaded. */
static void inet_protocols(const struct check *c, struct outcome *o)
{
	(void)c;
	static const struct {
		const char *what;
		int type, protocol;
	} tries[] = {{"MPTCP", SOCK_STREAM, 262}, {"ICMP", SOCK_DGRAM, 1}, {"UDP-Lite", SOCK_DGRAM, 136},
		{"SCTP", SOCK_STREAM, 132}, {"SCTP, packets", SOCK_SEQPACKET, 132}, {"DCCP", 6, 33},
		{"L2TP", SOCK_DGRAM, 115}, {"SMC", SOCK_STREAM, 256}};
	static const int families[] = {AF_INET, AF_INET6};
	for (size_t i = 0; i < ARRAY_LEN(tries) * ARRAY_LEN(families) && o->verdict != VERDICT_ESCAPED; i++) {
		size_t k = i / ARRAY_LEN(families);
		int family = families[i % ARRAY_LEN(families)];
		long fd = TRY(o, tries[k].what, socket(family, tries[k].type | SOCK_CLOEXEC, tries[k].protocol),
			EPROTONOSUPPORT, ESOCKTNOSUPPORT);
		if (fd >= 0)
			close((int)fd);
	}
}

/* Calls for which a kernel loads modules, whoever asks. The first changes how the host takes all packets of UDP, and a
 * kernel without our filter allows it: then no module is asked for. */
static void module_requests(const struct check *c, struct outcome *o)
{
	(void)c;
	struct ifreq ifr = {.ifr_name = "lo"};
	int l2tp = 3;
	auto_fd int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	auto_fd int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	TRY(o, "UDP_ENCAP", setsockopt(udp, IPPROTO_UDP, 100, &l2tp, sizeof(l2tp)), ENOPROTOOPT);
	if (o->verdict == VERDICT_ESCAPED)
		return;
	TRY(o, "TCP_ULP", setsockopt(tcp, IPPROTO_TCP, 31, "tls", 3), ENOPROTOOPT);
	TRY(o, "SIOCGIFBR", ioctl(udp, SIOCGIFBR, &ifr), ENOTTY);
	TRY(o, "SIOCGIFVLAN", ioctl(udp, SIOCGIFVLAN, &ifr), ENOTTY);
	TRY(o, "SIOCADDDLCI", ioctl(udp, SIOCADDDLCI, &ifr), ENOTTY);
	TRY(o, "socket(AF_INET, SOCK_DCCP)", socket(AF_INET, 6 | SOCK_CLOEXEC, 0), ESOCKTNOSUPPORT);
	TRY(o, "socket(AF_INET6, SOCK_RDM)", socket(AF_INET6, SOCK_RDM | SOCK_CLOEXEC, 0), ESOCKTNOSUPPORT);
}

static void socket_keys(const struct check *c, struct outcome *o)
{
	(void)c;
	struct {
		struct sockaddr_storage to;
		unsigned char flags, prefix;
		unsigned short length;
		int interface;
		unsigned char key[80];
	} key = {.length = 8};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	memcpy(&key.to, &to, sizeof(to));
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	TRY(o, "TCP_MD5SIG", setsockopt(fd, IPPROTO_TCP, TCP_MD5_OPTION, &key, sizeof(key)), ENOPROTOOPT);
	TRY(o, "TCP_AO_ADD_KEY", setsockopt(fd, IPPROTO_TCP, TCP_AO_OPTION, &key, sizeof(key)), ENOPROTOOPT);
}

static void flow_labels(const struct check *c, struct outcome *o)
{
	(void)c;
	struct {
		struct in6_addr to;
		unsigned label;
		unsigned char action, share;
		unsigned short flags, expires, linger;
		unsigned rest;
	} r = {.to = IN6ADDR_LOOPBACK_INIT, .label = htonl(7), .share = 255, .flags = 1 /* create */};
	auto_fd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		skipped(o, "no IPv6: %s", errno_name(errno));
	else
		TRY(o, "IPV6_FLOWLABEL_MGR", setsockopt(fd, IPPROTO_IPV6, FLOW_LABEL_OPTION, &r, sizeof(r)), EPERM);
}

static void page_merging(const struct check *c, struct outcome *o)
{
	(void)c;
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TRY(o, "madvise(MADV_MERGEABLE)", madvise(p, 4096, MADV_MERGEABLE), EINVAL);
	TRY(o, "prctl(PR_SET_MEMORY_MERGE)", prctl(MERGE_ALL, 1, 0, 0, 0), EINVAL);
}

/* A control message longer than the memory for a socket's options: the kernel refuses it before it looks at its
 * content. */
static void socket_options_memory(const struct check *c, struct outcome *o)
{
	(void)c;
	static char control[BOX_OPTMEM + 1];
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct iovec iov = {control, 1};
	struct msghdr m = {.msg_name = &to,
		.msg_namelen = sizeof(to),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* Not by the library, which has a limit of its own. */
	TRY(o, "sendmsg with options past the limit", syscall(SYS_sendmsg, fd, &m, 0), ENOBUFS);
}

/* A lock of an open file names no process, so that nobody can tell whose it is. */
static void nameless_locks(const struct check *c, struct outcome *o)
{
	(void)c;
	struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
	auto_fd int fd = memfd_create("locks", MFD_CLOEXEC);
	TRY(o, "F_OFD_SETLK", fcntl(fd, F_OFD_SETLK, &lock), EINVAL);
	TRY(o, "F_OFD_SETLKW", fcntl(fd, F_OFD_SETLKW, &lock), EINVAL);
}

#define FILTER "seccomp"
static const struct check checks[] = {
	{"aio", "all of fs.aio-max-nr by io_setup", FILTER, aio, NULL, CHECK_DEMO},
	{"socket-filters", "all of net.core.bpf_jit_limit by filters of sockets", FILTER, socket_filters, NULL,
		CHECK_DEMO},
	{"seccomp-filters", "all of net.core.bpf_jit_limit by filters of processes", FILTER, seccomp_filters, NULL,
		CHECK_DEMO},
	{"huge-pages", "the host's reserved huge pages", FILTER, huge_pages, NULL, CHECK_DEMO},
	{"inet-protocols", "protocols whose modules get loaded and whose buffers nobody counts", FILTER, inet_protocols,
		NULL, CHECK_DEMO},
	{"module-requests", "have the kernel load modules for types of sockets, devices and layers", FILTER,
		module_requests, NULL, CHECK_DEMO},
	{"socket-keys", "kernel memory that no cgroup counts, by keys of TCP connections", FILTER, socket_keys, NULL,
		CHECK_DEMO},
	{"flow-labels", "all of the host's IPv6 flow labels", FILTER, flow_labels, NULL, CHECK_DEMO},
	{"page-merging", "have the kernel compare pages with those of other boxes", FILTER, page_merging, NULL,
		CHECK_DEMO},
	{"nameless-locks", "file locks, charged to nobody, that no process can be blamed for", FILTER, nameless_locks,
		NULL, CHECK_DEMO},
	{"socket-options-memory", "kernel memory that no cgroup counts, by options of sockets",
		"limit of the network namespace", socket_options_memory, NULL, CHECK_DEMO},
};
const struct check_group group_global = {"global", checks, ARRAY_LEN(checks)};
