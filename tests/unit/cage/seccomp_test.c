/*
 * The compiled filters against their table, for every number, by an interpreter of the instructions they use; then the
 * real thing, loaded into a process.
 */
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage/seccomp.h"
#include "proto/netlink.h"
#include "test.h"

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

static struct sock_filter program[SECCOMP_PROGRAM_MAX];
static size_t length;
static int steps;

static uint32_t evaluate(const struct seccomp_data *d)
{
	uint32_t a = 0;
	steps = 0;
	for (size_t pc = 0; pc < length; pc++, steps++) {
		const struct sock_filter *f = &program[pc];
		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)d + f->k, sizeof a);
			break;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += a & f->k ? f->jt : f->jf;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			break;
		case BPF_RET | BPF_K:
			return f->k;
		default:
			test_fail(__FILE__, __LINE__, "instruction 0x%x at %zu", f->code, pc);
		}
	}
	test_fail(__FILE__, __LINE__, "ran past the end");
}

static uint32_t ask(int nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	return evaluate(&(struct seccomp_data){.nr = nr, .arch = ARCH, .args = {a0, a1, a2}});
}

enum { NOSYS = (int)SECCOMP_RET_ERRNO | ENOSYS, PERM = (int)SECCOMP_RET_ERRNO | EPERM };

TEST(every_number_leads_where_the_table_says)
{
	static const uint32_t want[] = {[SECCOMP_NOSYS] = NOSYS,
		[SECCOMP_ALLOW] = SECCOMP_RET_ALLOW,
		[SECCOMP_DENY] = PERM,
		[SECCOMP_NOTHING] = SECCOMP_RET_ERRNO};
	for (int profile = 0; profile < SECCOMP_PROFILES; profile++) {
		unsigned char table[SECCOMP_NUMBERS];
		seccomp_table(profile, table);
		length = seccomp_compile(profile, program);
		CHECK(length < 400);
		for (int nr = 0; nr < SECCOMP_NUMBERS; nr++) {
			uint32_t got = ask(nr, 0, 0, 0);
			if (table[nr] < SECCOMP_CLONE)
				CHECK_INT(got, want[table[nr]]);
			CHECK(steps < 24);
		}
		CHECK_INT(ask(SECCOMP_NUMBERS, 0, 0, 0), NOSYS);
		CHECK_INT(ask(INT32_MAX, 0, 0, 0), NOSYS);
		CHECK_INT(ask(-1, 0, 0, 0), NOSYS);
	}
}

TEST(other_abis_answer_no_such_call)
{
	length = seccomp_compile(SECCOMP_BOX, program);
	CHECK_INT(evaluate(&(struct seccomp_data){.nr = SYS_getpid, .arch = AUDIT_ARCH_I386}), NOSYS);
	CHECK_INT(evaluate(&(struct seccomp_data){.nr = SYS_getpid, .arch = AUDIT_ARCH_ARM}), NOSYS);
	CHECK_INT(ask(0x40000000 | SYS_getpid, 0, 0, 0), NOSYS);
}

TEST(arguments_decide_where_they_matter)
{
	const uint64_t high = 1ull << 32;
	length = seccomp_compile(SECCOMP_BOX, program);
	CHECK_INT(ask(SYS_clone, CLONE_VM | CLONE_FS | SIGCHLD, 0, 0), SECCOMP_RET_ALLOW);
	static const uint64_t namespaces[] = {
		CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET};
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
		CHECK_INT(ask(SYS_clone, namespaces[i] | SIGCHLD, 0, 0), PERM);
		CHECK_INT(ask(SYS_clone, namespaces[i] | high, 0, 0), PERM);
		CHECK_INT(ask(SYS_unshare, namespaces[i], 0, 0), PERM);
	}
	CHECK_INT(ask(SYS_unshare, 0x80 /* time */, 0, 0), PERM);
	CHECK_INT(ask(SYS_unshare, CLONE_FILES, 0, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_clone3, 0, 0, 0), NOSYS);

	for (uint64_t family = 0; family < 64; family++) {
		bool ok = family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
		CHECK_INT(ask(SYS_socket, family, SOCK_STREAM, 0),
			ok ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EAFNOSUPPORT);
		CHECK_INT(ask(SYS_socketpair, family, SOCK_STREAM, 0),
			family == AF_UNIX ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	}
	for (uint64_t protocol = 1; protocol < 32; protocol++)
		CHECK_INT(ask(SYS_socket, AF_NETLINK, SOCK_RAW, protocol), SECCOMP_RET_ERRNO | EAFNOSUPPORT);

	CHECK_INT(ask(SYS_ioctl, 0, TCGETS, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_ioctl, 0, TIOCSTI, 0), PERM);
	CHECK_INT(ask(SYS_ioctl, 0, TIOCSTI | high, 0), PERM);
	CHECK_INT(ask(SYS_ioctl, 0, TIOCLINUX, 0), PERM);
	CHECK_INT(ask(SYS_ioctl, 0, FICLONE, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_ioctl, 0, FICLONERANGE, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_ioctl, 0, BTRFS_IOC_SUBVOL_CREATE, 0), SECCOMP_RET_ERRNO | ENOTTY);
	CHECK_INT(ask(SYS_ioctl, 0, BTRFS_IOC_SYNC | high, 0), SECCOMP_RET_ERRNO | ENOTTY);
	static const uint64_t devices[] = {SIOCGIFBR, SIOCSIFBR, SIOCBRADDBR, SIOCBRDELBR, SIOCBRADDIF, SIOCBRDELIF,
		SIOCADDDLCI, SIOCDELDLCI, SIOCGIFVLAN, SIOCSIFVLAN};
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		CHECK_INT(ask(SYS_ioctl, 0, devices[i], 0), SECCOMP_RET_ERRNO | ENOTTY);
		CHECK_INT(ask(SYS_ioctl, 0, devices[i] | high, 0), SECCOMP_RET_ERRNO | ENOTTY);
	}
	CHECK_INT(ask(SYS_ioctl, 0, SIOCGIFFLAGS, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_ioctl, 0, SIOCGIFCONF, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_personality, 0xffffffff, 0, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_personality, ADDR_NO_RANDOMIZE, 0, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_personality, READ_IMPLIES_EXEC, 0, 0), PERM);
}

TEST(the_broker_is_asked_for_netlink_sockets_sizes_of_buffers_listening_and_unmounts_alone)
{
	const uint64_t high = 1ull << 32;
	memcpy(program, netlink_filter, sizeof netlink_filter);
	length = ARRAY_LEN(netlink_filter);
	for (uint64_t family = 0; family < 64; family++)
		CHECK_INT(ask(SYS_socket, family, SOCK_RAW, 0),
			family == AF_NETLINK ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_socket, AF_NETLINK | high, SOCK_RAW, 0), SECCOMP_RET_USER_NOTIF);
	for (uint64_t option = 0; option < 128; option++) {
		bool size = option == SO_RCVBUF || option == SO_SNDBUF;
		CHECK_INT(
			ask(SYS_setsockopt, 3, SOL_SOCKET, option), size ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW);
		CHECK_INT(ask(SYS_setsockopt, 3, SOL_SOCKET | high, option | high),
			size ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW);
		CHECK_INT(ask(SYS_setsockopt, 3, 6 /* TCP */, option), SECCOMP_RET_ALLOW);
	}
	CHECK_INT(ask(SYS_listen, 3, 128, 0), SECCOMP_RET_USER_NOTIF);
	CHECK_INT(ask(SYS_umount2, 3, 0, 0), SECCOMP_RET_USER_NOTIF);
	for (int nr = 0; nr < SECCOMP_NUMBERS; nr++)
		if (nr != SYS_socket && nr != SYS_setsockopt && nr != SYS_listen && nr != SYS_umount2)
			CHECK_INT(ask(nr, AF_NETLINK, SOL_SOCKET, SO_RCVBUF), SECCOMP_RET_ALLOW);
}

TEST(the_brokers_filter_is_the_last_one)
{
	const uint64_t high = 1ull << 32;
	const uint32_t invalid = SECCOMP_RET_ERRNO | EINVAL;
	memcpy(program, netlink_filter, sizeof netlink_filter);
	length = ARRAY_LEN(netlink_filter);
	CHECK_INT(ask(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0), invalid);
	CHECK_INT(ask(SYS_seccomp, SECCOMP_SET_MODE_FILTER | high, 8, 0), invalid);
	CHECK_INT(ask(SYS_prctl, PR_SET_NAME, SECCOMP_MODE_FILTER, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0), invalid);
	CHECK_INT(ask(SYS_prctl, PR_SET_SECCOMP | high, SECCOMP_MODE_FILTER | high, 0), invalid);
}

static uint32_t ask_mmap(uint64_t flags)
{
	return evaluate(&(struct seccomp_data){.nr = SYS_mmap, .arch = ARCH, .args = {0, 4096, PROT_READ, flags}});
}

TEST(budgets_of_the_whole_host_are_out_of_reach)
{
	const uint64_t high = 1ull << 32;
	const uint32_t nomem = SECCOMP_RET_ERRNO | ENOMEM, invalid = SECCOMP_RET_ERRNO | EINVAL;
	length = seccomp_compile(SECCOMP_BOX, program);
	for (int nr = SYS_io_setup; nr <= SYS_io_setup + 4; nr++)
		CHECK_INT(ask(nr, 0, 0, 0), NOSYS);
	CHECK_INT(ask_mmap(MAP_PRIVATE | MAP_ANONYMOUS), SECCOMP_RET_ALLOW);
	CHECK_INT(ask_mmap(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB), nomem);
	CHECK_INT(ask_mmap(MAP_PRIVATE | MAP_HUGETLB | high), nomem);
	CHECK_INT(ask(SYS_shmget, 0, 4096, IPC_CREAT | 0600), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_shmget, 0, 4096, IPC_CREAT | SHM_HUGETLB), nomem);
	CHECK_INT(ask(SYS_memfd_create, 0, MFD_CLOEXEC, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_memfd_create, 0, MFD_CLOEXEC | MFD_HUGETLB, 0), nomem);
	CHECK_INT(ask(SYS_madvise, 0, 0, MADV_DONTNEED), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_madvise, 0, 0, MADV_MERGEABLE), invalid);
	CHECK_INT(ask(SYS_prctl, PR_SET_NAME, 2, 0), SECCOMP_RET_ALLOW);
	CHECK_INT(ask(SYS_prctl, 67 /* PR_SET_MEMORY_MERGE */, 1, 0), invalid);
	/* The agent loads the broker's filter after this one; that filter refuses all others. */
	CHECK_INT(ask(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0), SECCOMP_RET_ALLOW);
}

TEST(sockets_are_tcp_and_udp_without_filters)
{
	length = seccomp_compile(SECCOMP_BOX, program);
	for (uint64_t protocol = 0; protocol < 300; protocol++) {
		bool ok = protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
		uint32_t want = ok ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPROTONOSUPPORT;
		CHECK_INT(ask(SYS_socket, AF_INET, SOCK_STREAM, protocol), want);
		CHECK_INT(ask(SYS_socket, AF_INET6, SOCK_DGRAM, protocol), want);
		CHECK_INT(ask(SYS_socket, AF_UNIX, SOCK_STREAM, protocol), SECCOMP_RET_ALLOW);
	}
	for (uint64_t type = 0; type < 16; type++) {
		uint32_t want = type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_RAW
					? SECCOMP_RET_ALLOW
					: SECCOMP_RET_ERRNO | ESOCKTNOSUPPORT;
		CHECK_INT(ask(SYS_socket, AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), want);
		CHECK_INT(ask(SYS_socket, AF_INET6, type | (1ull << 32), 0), want);
		CHECK_INT(ask(SYS_socket, AF_UNIX, type, 0), SECCOMP_RET_ALLOW);
	}
	for (uint64_t option = 0; option < 110; option++) {
		bool filter = option == SO_ATTACH_FILTER || option == SO_ATTACH_BPF ||
			      option == SO_ATTACH_REUSEPORT_CBPF || option == SO_ATTACH_REUSEPORT_EBPF;
		bool key = option == 14 || option == 32 || option == 38 || option == 31 /* ULP */;
		CHECK_INT(ask(SYS_setsockopt, 5, SOL_SOCKET, option), filter ? (uint32_t)PERM : SECCOMP_RET_ALLOW);
		CHECK_INT(ask(SYS_setsockopt, 5, IPPROTO_TCP, option),
			key ? SECCOMP_RET_ERRNO | ENOPROTOOPT : SECCOMP_RET_ALLOW);
		CHECK_INT(ask(SYS_setsockopt, 5, IPPROTO_IPV6, option),
			option == 32 ? (uint32_t)PERM : SECCOMP_RET_ALLOW);
		CHECK_INT(ask(SYS_setsockopt, 5, IPPROTO_IP, option), SECCOMP_RET_ALLOW);
		CHECK_INT(ask(SYS_setsockopt, 5, IPPROTO_UDP, option),
			option == 100 /* ENCAP */ ? SECCOMP_RET_ERRNO | ENOPROTOOPT : SECCOMP_RET_ALLOW);
	}
}

TEST(the_warden_may_make_boxes_but_not_load_modules)
{
	length = seccomp_compile(SECCOMP_WARDEN, program);
	static const int needed[] = {SYS_clone3, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_move_mount, SYS_open_tree,
		SYS_mount_setattr, SYS_pivot_root, SYS_umount2, SYS_unshare, SYS_sethostname,
		SYS_mount /* FUSE in a box, where fsmount is one mount namespace too many: fuse_join.c */,
		SYS_bpf /* it steers the connections of boxes: steer.h */};
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		CHECK_INT(ask(needed[i], CLONE_NEWCGROUP, 0, 0), SECCOMP_RET_ALLOW);
	static const int never[] = {SYS_init_module, SYS_kexec_load, SYS_reboot, SYS_keyctl};
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		CHECK_INT(ask(never[i], 0, 0, 0), PERM);
}

/* In a child under the box's filter: returns errno of the call, or 0. */
static int under_filter(long nr, long a0, long a1, long a2)
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		seccomp_prepare();
		if (seccomp_load(SECCOMP_BOX, NULL) < 0)
			_exit(255);
		_exit(syscall(nr, a0, a1, a2) < 0 ? errno : 0);
	}
	int status;
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(the_kernel_takes_the_filter_and_follows_it)
{
	CHECK_INT(under_filter(SYS_getpid, 0, 0, 0), 0);
	CHECK_INT(under_filter(SYS_unshare, CLONE_NEWUSER, 0, 0), EPERM);
	CHECK_INT(under_filter(SYS_clone3, 0, 0, 0), ENOSYS);
	CHECK_INT(under_filter(SYS_bpf, 0, 0, 0), EPERM);
	CHECK_INT(under_filter(SYS_socket, AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT);
	CHECK_INT(under_filter(SYS_socket, AF_UNIX, SOCK_STREAM, 0), 0);
	CHECK_INT(under_filter(SYS_sync, 0, 0, 0), 0);
	CHECK_INT(under_filter(511, 0, 0, 0), ENOSYS);
}

TEST_MAIN()
