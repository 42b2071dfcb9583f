/*
 * doctor.h - the checks of `atoll doctor`: one row for each thing that the host has or lacks.
 *
 * A check reads, or tries something in a child process; it changes nothing on the host. It works without a daemon. A
 * check that needs root to be certain reports DOCTOR_UNKNOWN to other users.
 */
#pragma once

#include "cli/cli.h"

enum doctor_state {
	DOCTOR_OK,
	DOCTOR_NOTE,	/* Atoll works without it, but slower or with fewer features */
	DOCTOR_UNKNOWN, /* this user cannot find out */
	DOCTOR_MISSING, /* boxes cannot be made, or are not safe */
};

struct doctor_row {
	enum doctor_state state;
	char detail[200]; /* the finding */
	char advice[240]; /* advice; "" when there is none */
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
extern const struct doctor_check doctor_storage_checks[];
extern const size_t doctor_storage_checks_count;
extern const struct doctor_check doctor_network_checks[];
extern const size_t doctor_network_checks_count;

/* Fill a row. NULL: no advice. */
void doctor_set(struct doctor_row *r, enum doctor_state state, const char *advice, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* Runs `probe` in a child and returns its result (0 or a positive errno). Its namespaces and mounts end with the child.
 */
int doctor_try(int (*probe)(void *arg), void *arg);

/* What the warden finds when it tries `name` with its own code and capabilities (src/warden/probe.h): OK, MISSING with
 * its error, or UNKNOWN to other users than root. */
enum { DOCTOR_WHY = 160 };
enum doctor_state doctor_ask_warden(const char *name, char ret_why[DOCTOR_WHY]);

/* A whole small file as text without the newline at its end; false when it cannot be read. */
bool doctor_read(const char *path, char *ret, size_t n);
