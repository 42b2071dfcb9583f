/*
 * seccomp.h - the system calls that a box, a zygote and the warden may make.
 *
 * One table (seccomp_table.c) gives three allowlists. A box may make the calls that programs need; a few have their
 * arguments checked. Calls that are known to be dangerous answer EPERM. All others, also those of future kernels,
 * answer ENOSYS, so that libraries fall back. The warden's list adds the calls that make a box, because half-made boxes
 * inherit its filter. A zygote's list adds setns and seccomp to a box's, because its children inherit its filter before
 * they load the box's. A box cannot load a filter: all filters for it are loaded before its own, or with it.
 *
 * The program is compiled once into a binary tree over ranges of numbers (a few steps for any call, and small: loading
 * costs time in every create). Calls of other ABIs (32-bit, x32) answer ENOSYS.
 */
#pragma once

#include <linux/filter.h>

#include "proto/errc.h"

enum seccomp_profile { SECCOMP_BOX, SECCOMP_WARDEN, SECCOMP_ZYGOTE, SECCOMP_PROFILES };

/* The answer to a call. The last actions look at arguments. */
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
	SECCOMP_FCNTL,
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
