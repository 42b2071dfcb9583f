/*
 * confine.h - a program gives up, for good, all system calls but those of its list: no new privileges, no core dumps,
 * nobody looks into its memory. What is not allowed fails with EPERM.
 */
#pragma once

#include "proto/errc.h"

struct confine_list {
	const int *calls; /* SCMP_SYS(…) */
	size_t calls_n;
	const int *families; /* of sockets */
	size_t families_n;
	bool threads; /* clone, for threads and not for processes */
};

/* No new privileges and no core dumps; before rules of Landlock, which need it. */
int confine_self(struct err *e);
int confine_calls(const struct confine_list *list, struct err *e);
