/*
 * doctor.h - the checks behind `atoll doctor`: one row per thing that the host has or lacks.
 *
 * A check only looks, or tries in a child process that is thrown away; it changes nothing on the host. It works without
 * a daemon, and says so where it would need root to know more.
 */
#pragma once

#include "cli/cli.h"

enum doctor_state {
	DOCTOR_OK,
	DOCTOR_NOTE,	/* works without it, but something is slower or not offered */
	DOCTOR_UNKNOWN, /* cannot be told by this user */
	DOCTOR_MISSING, /* boxes cannot be made, or not safely */
};

struct doctor_row {
	enum doctor_state state;
	char detail[200]; /* what was found */
	char advice[240]; /* what to do; "" when there is nothing */
};

struct doctor_check {
	const char *group;
	const char *name;
	void (*run)(struct cli *c, struct doctor_row *ret);
};

extern const struct doctor_check doctor_kernel_checks[];
extern const size_t doctor_kernel_checks_count;
extern const struct doctor_check doctor_host_checks[];
extern const size_t doctor_host_checks_count;

extern const struct doctor_check doctor_network_checks[];
extern const size_t doctor_network_checks_count;

/* Fill a row. An advice of NULL is none. */
void doctor_set(struct doctor_row *r, enum doctor_state state, const char *advice, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* Runs `probe` in a child and returns its result (0 or a positive errno), so that what it unshares or mounts is gone
 * afterwards. */
int doctor_try(int (*probe)(void *arg), void *arg);

/* A whole small file as text without the newline at its end; false when it cannot be read. */
bool doctor_read(const char *path, char *ret, size_t n);
