/*
 * netlink.h - which calls of a box its broker answers (agent/proc/netlink.h): socket(AF_NETLINK, …), and setsockopt of
 * SO_RCVBUF and SO_SNDBUF, listen, and umount2 of a FUSE mount. It is the last filter of a box: it refuses to load any
 * other, because filters are compiled into memory that the whole host shares and no cgroup counts
 * (net.core.bpf_jit_limit).
 *
 * Loaded beside the box's own filter, whose refusals (other ABIs, other protocols) win over a notification. Also
 * included by code without a C library (src/worker/join.c), hence the numbers.
 */
#pragma once

#include <asm/unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

enum {
	NETLINK_FAMILY = 16,
	NETLINK_LEVEL = 1, /* SOL_SOCKET */
	NETLINK_SNDBUF = 7,
	NETLINK_RCVBUF = 8,
	NETLINK_PR_SET_SECCOMP = 22,
	NETLINK_REFUSED = 22, /* EINVAL, the answer of a kernel without filters */
};

#define NETLINK_LOAD(field)	   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (__u32) __builtin_offsetof(struct seccomp_data, field))
#define NETLINK_EQUAL(value, t, f) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, t, f)

/* clang-format off */
static const struct sock_filter netlink_filter[] = {
	/*  0 */ NETLINK_LOAD(nr),
	/*  1 */ NETLINK_EQUAL(__NR_umount2, 18, 0),
	/*  2 */ NETLINK_EQUAL(__NR_listen, 17, 0),
	/*  3 */ NETLINK_EQUAL(__NR_socket, 0, 2),
	/*  4 */ NETLINK_LOAD(args[0]),
	/*  5 */ NETLINK_EQUAL(NETLINK_FAMILY, 14, 16),
	/*  6 */ NETLINK_EQUAL(__NR_setsockopt, 0, 5),
	/*  7 */ NETLINK_LOAD(args[1]),
	/*  8 */ NETLINK_EQUAL(NETLINK_LEVEL, 0, 13),
	/*  9 */ NETLINK_LOAD(args[2]),
	/* 10 */ NETLINK_EQUAL(NETLINK_RCVBUF, 9, 0),
	/* 11 */ NETLINK_EQUAL(NETLINK_SNDBUF, 8, 10),
	/* 12 */ NETLINK_EQUAL(__NR_seccomp, 0, 2),
	/* 13 */ NETLINK_LOAD(args[0]),
	/* 14 */ NETLINK_EQUAL(SECCOMP_SET_MODE_FILTER, 6, 7),
	/* 15 */ NETLINK_EQUAL(__NR_prctl, 0, 6),
	/* 16 */ NETLINK_LOAD(args[0]),
	/* 17 */ NETLINK_EQUAL(NETLINK_PR_SET_SECCOMP, 0, 4),
	/* 18 */ NETLINK_LOAD(args[1]),
	/* 19 */ NETLINK_EQUAL(SECCOMP_MODE_FILTER, 1, 2),
	/* 20 */ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	/* 21 */ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | NETLINK_REFUSED),
	/* 22 */ BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
/* clang-format on */
