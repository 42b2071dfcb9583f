/*
 * selftest.h - the checks of `atoll selftest`: real commands in throw-away boxes, through the whole chain.
 *
 *	selftest.c         the verb, boxes, one script in a box, the report
 *	selftest_basics.c  a table: a script for /bin/sh, its input, its expected result
 *	selftest_host.c    what differs between kernels: network, disk limits beside snapshots, images with layers
 *	selftest_escape.h  the escape suite, which has its own boxes and its own report
 *
 * A box of the basics has small limits (SELFTEST_*), so that they can be read back and reached quickly.
 */
#pragma once

#include "base/limits.h"
#include "cli/client.h"

enum selftest_verdict { SELFTEST_PASS, SELFTEST_FAIL, SELFTEST_SKIP };
enum { SELFTEST_MEMORY = 128 * MIB, SELFTEST_CPU_MILLI = 500, SELFTEST_PIDS = 64, SELFTEST_TIMEOUT_MS = 90000 };

struct selftest_run {
	struct client cl;
	struct json_writer w;
	int count[3];
	unsigned boxes;
};

/* One box, and the reason of a failed check. */
struct selftest {
	struct selftest_run *run;
	char box[32];
	char why[640];
};

struct selftest_check {
	const char *name;
	const char *script;
	const char *input;
	const char *want;				    /* stdout without the newline at its end; NULL: any */
	const char *want_outcome;			    /* NULL: exited */
	enum selftest_verdict (*check)(struct selftest *t); /* instead of a script */
	int want_code;
	bool fresh; /* needs its own box, which it may break */
};

/* Makes a box; -1 with *e. selftest_close destroys it, if it still exists. */
int selftest_open(struct selftest_run *run, struct selftest *t, struct err *e);
void selftest_close(struct selftest *t);

/* Runs a program in the box. False: it could not run, and t->why says why. `in` may be -1. */
struct stream_result;
bool selftest_exec(struct selftest *t, char **argv, int in, struct stream_result *r, struct buf *out, struct buf *err);

/* selftest_host.c: checks of the table, each in a box that it may change. */
enum selftest_verdict selftest_network(struct selftest *t);
enum selftest_verdict selftest_disk_limit(struct selftest *t);
enum selftest_verdict selftest_layers(struct selftest *t);

void selftest_report(struct selftest_run *run, const char *name, enum selftest_verdict v, const char *why);

/* -1: the suite could not run at all. */
int selftest_basics(struct selftest_run *run, struct err *e);
