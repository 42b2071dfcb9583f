/*
 * Compiles the table into a program. Neighbouring numbers with one action are a range. A balanced tree of comparisons
 * finds the range; its leaf returns, or jumps to one of the argument checks behind the tree.
 *
 * Arguments have 64 bits, and the kernel uses 32 bits of those that are checked here. The program compares the same low
 * half, so high bits hide nothing.
 */
#include "cage/seccomp.h"

#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifdef __x86_64__
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

#define NEW_NAMESPACES                                                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#ifndef SHM_HUGETLB
#define SHM_HUGETLB 04000
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif
#ifndef IPV6_FLOWLABEL_MGR
#define IPV6_FLOWLABEL_MGR 32
#endif

enum { RANGES_MAX = SECCOMP_NUMBERS + 1, NETLINK_ROUTE_PROTOCOL = 0, SOCKET_TYPES = 0xf /* without flags */ };

struct range {
	unsigned first;
	enum seccomp_action action;
};

struct program {
	struct sock_filter *out;
	size_t n;
	struct range ranges[RANGES_MAX];
	size_t ranges_n;
	size_t to_fix[RANGES_MAX]; /* jumps to a check: k holds the action until its place is known */
	size_t to_fix_n;
};

static void emit(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	INVARIANT(p->n < SECCOMP_PROGRAM_MAX);
	p->out[p->n++] = (struct sock_filter){.code = code, .jt = jt, .jf = jf, .k = k};
}

static void emit_return(struct program *p, uint32_t what)
{
	emit(p, BPF_RET | BPF_K, what, 0, 0);
}

static void emit_load(struct program *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* The low half of an argument; both machines are little-endian. */
static void emit_load_arg(struct program *p, unsigned arg)
{
	emit_load(p, offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t));
}

static uint32_t fixed_return(enum seccomp_action a)
{
	return a == SECCOMP_ALLOW     ? SECCOMP_RET_ALLOW
	       : a == SECCOMP_DENY    ? SECCOMP_RET_ERRNO | EPERM
	       : a == SECCOMP_NOTHING ? SECCOMP_RET_ERRNO
				      : SECCOMP_RET_ERRNO | ENOSYS;
}

static void emit_leaf(struct program *p, enum seccomp_action a)
{
	if (a < SECCOMP_CLONE) {
		emit_return(p, fixed_return(a));
		return;
	}
	p->to_fix[p->to_fix_n++] = p->n;
	emit(p, BPF_JMP | BPF_JA, a, 0, 0);
}

/* A tree over n ranges has n leaves and n - 1 comparisons: the jump over its left half is short enough for 8 bits
 * while there are less than 256 ranges. */
static void emit_tree(struct program *p, size_t from, size_t to)
{
	if (to - from == 1) {
		emit_leaf(p, p->ranges[from].action);
		return;
	}
	size_t middle = from + (to - from) / 2, at = p->n;
	emit(p, BPF_JMP | BPF_JGE | BPF_K, p->ranges[middle].first, 0, 0);
	emit_tree(p, from, middle);
	INVARIANT(p->n - at - 1 <= UINT8_MAX);
	p->out[at].jt = (uint8_t)(p->n - at - 1);
	emit_tree(p, middle, to);
}

/* The argument with any of the bits: this errno. */
static void emit_no_bits(struct program *p, unsigned arg, uint32_t bits, uint32_t os)
{
	emit_load_arg(p, arg);
	emit(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	emit_return(p, SECCOMP_RET_ERRNO | os);
	emit_return(p, SECCOMP_RET_ALLOW);
}

/* The loaded value is one of these: `hit`; else `miss`. */
static void emit_one_of(struct program *p, const uint32_t *values, size_t n, uint32_t hit, uint32_t miss)
{
	for (size_t i = 0; i < n; i++)
		emit(p, BPF_JMP | BPF_JEQ | BPF_K, values[i], (uint8_t)(n - i), 0);
	emit_return(p, miss);
	emit_return(p, hit);
}

/* Netlink for addresses and routes only; TCP and UDP only: other protocols and types (SOCK_DCCP) load modules, and
 * their buffers are counted by no cgroup. */
static void emit_socket(struct program *p)
{
	emit_load_arg(p, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 4);
	emit_load_arg(p, 2);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, NETLINK_ROUTE_PROTOCOL, 0, 1);
	emit_return(p, SECCOMP_RET_ALLOW);
	emit_return(p, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 4, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 3, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0);
	emit_return(p, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	emit_return(p, SECCOMP_RET_ALLOW);
	const uint32_t protocols[] = {0, IPPROTO_TCP, IPPROTO_UDP};
	emit_load_arg(p, 1);
	emit(p, BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPES, 0, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 3, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 2, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, SOCK_RAW, 1, 0);
	emit_return(p, SECCOMP_RET_ERRNO | ESOCKTNOSUPPORT);
	emit_load_arg(p, 2);
	emit_one_of(p, protocols, ARRAY_LEN(protocols), SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
}

/* The loaded level is this one: its options of the list answer `os`, all others are allowed. Falls through to the next
 * level. */
static void emit_no_options(struct program *p, uint32_t level, const uint32_t *options, size_t n, uint32_t os)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, level, 0, (uint8_t)(n + 3));
	emit_load_arg(p, 2);
	emit_one_of(p, options, n, SECCOMP_RET_ERRNO | os, SECCOMP_RET_ALLOW);
}

/* Socket filters are compiled into memory that all of the host shares and no cgroup counts (net.core.bpf_jit_limit);
 * keys of TCP connections (MD5, AO) are counted by no cgroup either; flow labels are 4,096 for the whole host. Upper
 * layers of TCP (TLS, MPTCP) are modules, and an encapsulation (ESP in UDP) changes how the host takes all packets. */
static void emit_setsockopt(struct program *p)
{
	const uint32_t filters[] = {
		SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF};
	const uint32_t keys[] = {14 /* MD5SIG */, 32 /* MD5SIG_EXT */, 38 /* AO_ADD_KEY */, 31 /* ULP */},
		       labels[] = {IPV6_FLOWLABEL_MGR}, encap[] = {100 /* UDP_ENCAP */};
	emit_load_arg(p, 1);
	emit_no_options(p, SOL_SOCKET, filters, ARRAY_LEN(filters), EPERM);
	emit_no_options(p, IPPROTO_TCP, keys, ARRAY_LEN(keys), ENOPROTOOPT);
	emit_no_options(p, IPPROTO_UDP, encap, ARRAY_LEN(encap), ENOPROTOOPT);
	emit_no_options(p, IPPROTO_IPV6, labels, ARRAY_LEN(labels), EPERM);
	emit_return(p, SECCOMP_RET_ALLOW);
}

/* KSM compares pages of all boxes. */
static void emit_prctl(struct program *p)
{
	const uint32_t merge[] = {PR_SET_MEMORY_MERGE};
	emit_load_arg(p, 0);
	emit_one_of(p, merge, 1, SECCOMP_RET_ERRNO | EINVAL, SECCOMP_RET_ALLOW);
}

/* Calls that take from budgets of the whole host. They answer as a kernel without them does, so that programs fall
 * back. */
static void emit_budget_check(struct program *p, enum seccomp_action a)
{
	const uint32_t mergeable[] = {MADV_MERGEABLE};
	/* Locks that name no process: the warden could not tell whose they are (warden/locks.h). */
	const uint32_t nobodys[] = {36 /* F_OFD_GETLK */, 37 /* F_OFD_SETLK */, 38 /* F_OFD_SETLKW */};
	if (a == SECCOMP_MMAP) {
		emit_no_bits(p, 3, MAP_HUGETLB, ENOMEM);
	} else if (a == SECCOMP_SHMGET) {
		emit_no_bits(p, 2, SHM_HUGETLB, ENOMEM);
	} else if (a == SECCOMP_MEMFD) {
		emit_no_bits(p, 1, MFD_HUGETLB, ENOMEM);
	} else if (a == SECCOMP_SETSOCKOPT) {
		emit_setsockopt(p);
	} else if (a == SECCOMP_PRCTL) {
		emit_prctl(p);
	} else if (a == SECCOMP_FCNTL) {
		emit_load_arg(p, 1);
		emit_one_of(p, nobodys, ARRAY_LEN(nobodys), SECCOMP_RET_ERRNO | EINVAL, SECCOMP_RET_ALLOW);
	} else {
		emit_load_arg(p, 2);
		emit_one_of(p, mergeable, 1, SECCOMP_RET_ERRNO | EINVAL, SECCOMP_RET_ALLOW);
	}
}

/* Typing into another's terminal and loading line disciplines are refused. Volumes are a btrfs without an overlay above
 * it: its ioctls make subvolumes and snapshots, which evade limits, and write back what all boxes have written. They
 * answer as another file system does. Copies that share blocks are allowed: they cost nothing. Questions about bridges,
 * VLANs and frame relay load their modules. */
static void emit_ioctl(struct program *p)
{
	const uint32_t terminal[] = {TIOCSTI, TIOCLINUX, TIOCSETD}, clones[] = {FICLONE, FICLONERANGE};
	const uint32_t devices[] = {SIOCGIFBR, SIOCSIFBR, SIOCBRADDBR, SIOCBRDELBR, SIOCBRADDIF, SIOCBRDELIF,
		SIOCADDDLCI, SIOCDELDLCI, SIOCGIFVLAN, SIOCSIFVLAN};
	emit_load_arg(p, 1);
	emit(p, BPF_ALU | BPF_AND | BPF_K, 0xff00, 0, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, BTRFS_IOCTL_MAGIC << 8, 0, (uint8_t)(1 + ARRAY_LEN(clones) + 2));
	emit_load_arg(p, 1);
	emit_one_of(p, clones, ARRAY_LEN(clones), SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | ENOTTY);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, SIOCGIFBR & 0xff00, 0, (uint8_t)(1 + ARRAY_LEN(devices) + 2));
	emit_load_arg(p, 1);
	emit_one_of(p, devices, ARRAY_LEN(devices), SECCOMP_RET_ERRNO | ENOTTY, SECCOMP_RET_ALLOW);
	emit_load_arg(p, 1);
	emit_one_of(p, terminal, ARRAY_LEN(terminal), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
}

static void emit_check(struct program *p, enum seccomp_action a)
{
	/* Query, default, 32-bit uname, 2.6 uname, and no address randomisation: debuggers ask for it. */
	const uint32_t personalities[] = {0xffffffff, 0, 0x8, 0x20000, 0x20008, 0x40000};
	const uint32_t unix_family[] = {AF_UNIX};
	if (a == SECCOMP_CLONE) {
		emit_no_bits(p, 0, (uint32_t)NEW_NAMESPACES, EPERM);
	} else if (a == SECCOMP_UNSHARE) {
		emit_no_bits(p, 0, (uint32_t)NEW_NAMESPACES | CLONE_NEWTIME, EPERM);
	} else if (a == SECCOMP_SOCKET) {
		emit_socket(p);
	} else if (a == SECCOMP_SOCKETPAIR) {
		emit_load_arg(p, 0);
		emit_one_of(p, unix_family, 1, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	} else if (a == SECCOMP_IOCTL) {
		emit_ioctl(p);
	} else if (a >= SECCOMP_BUDGETS) {
		emit_budget_check(p, a);
	} else {
		emit_load_arg(p, 0);
		emit_one_of(p, personalities, ARRAY_LEN(personalities), SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM);
	}
}

static void emit_checks(struct program *p)
{
	size_t at[SECCOMP_ACTIONS] = {0};
	for (size_t i = 0; i < p->to_fix_n; i++) {
		struct sock_filter *jump = &p->out[p->to_fix[i]];
		enum seccomp_action a = jump->k;
		if (!at[a]) {
			at[a] = p->n;
			emit_check(p, a);
		}
		jump->k = (uint32_t)(at[a] - p->to_fix[i] - 1);
	}
}

static void find_ranges(struct program *p, enum seccomp_profile profile)
{
	unsigned char table[SECCOMP_NUMBERS];
	seccomp_table(profile, table);
	for (unsigned i = 0; i < SECCOMP_NUMBERS; i++)
		if (i == 0 || table[i] != table[i - 1])
			p->ranges[p->ranges_n++] = (struct range){i, table[i]};
	if (table[SECCOMP_NUMBERS - 1] != SECCOMP_NOSYS)
		p->ranges[p->ranges_n++] = (struct range){SECCOMP_NUMBERS, SECCOMP_NOSYS};
}

size_t seccomp_compile(enum seccomp_profile profile, struct sock_filter ret[SECCOMP_PROGRAM_MAX])
{
	struct program p = {.out = ret};
	find_ranges(&p, profile);
	emit_load(&p, offsetof(struct seccomp_data, arch));
	emit(&p, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	emit_return(&p, SECCOMP_RET_ERRNO | ENOSYS);
	emit_load(&p, offsetof(struct seccomp_data, nr));
	emit_tree(&p, 0, p.ranges_n);
	emit_checks(&p);
	return p.n;
}

static struct sock_filter programs[SECCOMP_PROFILES][SECCOMP_PROGRAM_MAX];
static unsigned short lengths[SECCOMP_PROFILES];

void seccomp_prepare(void)
{
	for (int i = 0; i < SECCOMP_PROFILES; i++)
		lengths[i] = (unsigned short)seccomp_compile(i, programs[i]);
}

int seccomp_load(enum seccomp_profile profile, struct err *e)
{
	INVARIANT(lengths[profile]);
	struct sock_fprog f = {.len = lengths[profile], .filter = programs[profile]};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &f) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "load the seccomp filter");
	return 0;
}

size_t seccomp_program(enum seccomp_profile profile, const struct sock_filter **ret)
{
	*ret = programs[profile];
	return lengths[profile];
}
