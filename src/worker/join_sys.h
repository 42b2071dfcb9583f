/*
 * join_sys.h - system calls without a C library, for join.c alone. Results are the kernel's: negative errno on failure.
 */
#pragma once

#include <asm/errno.h>
#include <asm/socket.h>
#include <asm/unistd.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define SYS_close	__NR_close
#define SYS_write	__NR_write
#define SYS_recvmsg	__NR_recvmsg
#define SYS_sendmsg	__NR_sendmsg
#define SYS_sendto	__NR_sendto
#define SYS_recvfrom	__NR_recvfrom
#define SYS_setns	__NR_setns
#define SYS_setresgid	__NR_setresgid
#define SYS_setresuid	__NR_setresuid
#define SYS_setgroups	__NR_setgroups
#define SYS_setsid	__NR_setsid
#define SYS_prctl	__NR_prctl
#define SYS_capset	__NR_capset
#define SYS_seccomp	__NR_seccomp
#define SYS_openat	__NR_openat
#define SYS_socketpair	__NR_socketpair
#define SYS_pipe2	__NR_pipe2
#define SYS_fcntl	__NR_fcntl
#define SYS_prlimit64	__NR_prlimit64
#define SYS_dup3	__NR_dup3
#define SYS_close_range 436
#define SYS_exit_group	__NR_exit_group
#define SYS_clone	__NR_clone
#define SYS_getrandom	__NR_getrandom
#define SYS_brk		__NR_brk
#define SYS_mmap	__NR_mmap
#define SYS_mprotect	__NR_mprotect
#define SYS_mremap	__NR_mremap

#define SYS_set_tid_address __NR_set_tid_address
#define SYS_set_robust_list __NR_set_robust_list
#define SYS_get_robust_list __NR_get_robust_list
#define SYS_rseq	    __NR_rseq
#define SYS_wait4	    __NR_wait4

#define AF_UNIX		 1
#define CMSG_FDS	 1 /* SCM_RIGHTS */
#define SOCK_STREAM	 1
#define MSG_NOSIGNAL	 0x4000
#define MSG_DONTWAIT	 0x40
#define MSG_CMSG_CLOEXEC 0x40000000
#define __WALL		 0x40000000
#define SIGCHLD		 17
#define VFORK_FLAGS	 0x4111 /* CLONE_VM | CLONE_VFORK | SIGCHLD */

struct iovec {
	void *iov_base;
	size_t iov_len;
};
struct msghdr {
	void *msg_name;
	int msg_namelen;
	struct iovec *msg_iov;
	size_t msg_iovlen;
	void *msg_control;
	size_t msg_controllen;
	unsigned msg_flags;
};
struct cmsg {
	size_t len;
	int level, type;
};

#if defined __x86_64__
#define RSEQ_SIGNATURE 0x53053053
static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	long r;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}

/* clone(CLONE_VM | CLONE_VFORK) on `stack`; the new process calls `fn`, which does not return. */
static inline long sys_vfork_on(void *stack, void (*fn)(void))
{
	long r;
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	__asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tcall *%[fn]\n1:"
			 : "=a"(r)
			 : "a"(__NR_clone), "D"(VFORK_FLAGS), "S"(stack), "d"(0), "r"(r10), "r"(r8), [fn] "r"(fn)
			 : "rcx", "r11", "memory");
	return r;
}

/* Where compilers look for it. The lowest byte stays 0: it ends a string that runs over. */
static inline void set_stack_canary(__u64 value)
{
	__asm__ volatile("mov %0, %%fs:0x28" : : "r"(value & ~0xffull) : "memory");
}
#elif defined __aarch64__
/* It lies in a page of the dynamic linker that is read-only by now: children keep the zygote's. */
static inline void set_stack_canary(__u64 value)
{
	(void)value;
}

#define RSEQ_SIGNATURE 0xd428bc00
static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}

static inline long sys_vfork_on(void *stack, void (*fn)(void))
{
	register long x8 __asm__("x8") = __NR_clone;
	register long x0 __asm__("x0") = VFORK_FLAGS;
	register long x1 __asm__("x1") = (long)stack;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;
	__asm__ volatile("svc 0\n\tcbnz x0, 1f\n\tblr %[fn]\n1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [fn] "r"(fn)
			 : "memory", "x30");
	return x0;
}
#endif

static inline long sys1(long n, long a)
{
	return sys6(n, a, 0, 0, 0, 0, 0);
}
static inline long sys2(long n, long a, long b)
{
	return sys6(n, a, b, 0, 0, 0, 0);
}
static inline long sys3(long n, long a, long b, long c)
{
	return sys6(n, a, b, c, 0, 0, 0);
}
static inline long sys4(long n, long a, long b, long c, long d)
{
	return sys6(n, a, b, c, d, 0, 0);
}
static inline long sys5(long n, long a, long b, long c, long d, long e)
{
	return sys6(n, a, b, c, d, e, 0);
}
