/*
 * seccomp.h - which system calls a box may make, and which the warden may.
 *
 * Three allowlists from one table (seccomp_table.c). A box: what programs need, with a look at the arguments of a few
 * calls; what is known to be dangerous answers EPERM; everything else, also what future kernels bring, ENOSYS, so that
 * libraries fall back. The warden: the same and what making a box takes, because half-made boxes inherit its filter. A
 * zygote: a box's, setns and seccomp, because its children inherit its filter before they load the box's. A box loads
 * no filter of its own: what has to be loaded for it is loaded before its own filter, or with it.
 *
 * The program is compiled once into a binary tree over ranges of numbers (a few steps for any call, and small: loading
 * costs time in every create). Calls of other ABIs (32-bit, x32) answer ENOSYS.
 */
#pragma once

#include <linux/filter.h>

#include "proto/errc.h"

enum seccomp_profile { SECCOMP_BOX, SECCOMP_WARDEN, SECCOMP_ZYGOTE, SECCOMP_PROFILES };

/* What a number leads to. The last ones look at arguments. */
enum seccomp_action {
	SECCOMP_NOSYS,
	SECCOMP_ALLOW,
	SECCOMP_DENY,	 /* EPERM */
	SECCOMP_NOTHING, /* does nothing and succeeds */
	SECCOMP_CLONE,
	SECCOMP_UNSHARE,
	SECCOMP_SOCKET,
	SECCOMP_SOCKETPAIR,
	SECCOMP_IOCTL,
	SECCOMP_PERSONALITY,
	SECCOMP_BUDGETS, /* from here on: budgets of the whole host */
	SECCOMP_MMAP = SECCOMP_BUDGETS,
	SECCOMP_SHMGET,
	SECCOMP_MEMFD,
	SECCOMP_SETSOCKOPT,
	SECCOMP_PRCTL,
	SECCOMP_MADVISE,
	SECCOMP_ACTIONS
};

enum { SECCOMP_NUMBERS = 512, SECCOMP_PROGRAM_MAX = 1024 };

/* For each number below SECCOMP_NUMBERS; higher ones are SECCOMP_NOSYS. */
void seccomp_table(enum seccomp_profile profile, unsigned char ret[SECCOMP_NUMBERS]);

/* Returns how many instructions were written. */
size_t seccomp_compile(enum seccomp_profile profile, struct sock_filter ret[SECCOMP_PROGRAM_MAX]);

/* Compiles all programs: once, before they are loaded by this process or its children. */
void seccomp_prepare(void);
/* Loads one into this process. Needs no_new_privs. */
int seccomp_load(enum seccomp_profile profile, struct err *e);
/* The compiled program itself, to hand on. */
size_t seccomp_program(enum seccomp_profile profile, const struct sock_filter **ret);
