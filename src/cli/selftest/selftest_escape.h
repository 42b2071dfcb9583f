/*
 * selftest_escape.h - `atoll selftest --escape`: runs the escape suite (src/escape) in throw-away boxes.
 *
 * The program atoll-escape is in the same directory as this one. It is sent into a box through the standard input of a
 * command, and lists its checks and their needs. This side makes the boxes, plays the attacked host
 * (selftest_escape_host.c), keeps a neighbour box that must go on answering, and judges.
 *
 * A check passes when the program says "refused", nothing of the host was reached, and the neighbour never failed.
 */
#pragma once

#include "cli/client.h"

/* `names` selects checks; NULL-terminated, empty: all. Returns the exit code of the program. */
int selftest_escape_run(struct cli *c, char **names);

/* ---- the host that is attacked: one listener on loopback, one abstract socket, one process, one directory ---- */

struct escape_host {
	int tcp, abstract;
	int port;
	char abstract_name[40];
	pid_t victim;
	char canary[40];   /* an empty directory, the target of links in a hostile layer */
	char hostname[65]; /* its value at the start */
	char address[48];  /* an address of the host besides loopback, or "" */
};

int escape_host_open(struct escape_host *h, struct err *e);
void escape_host_close(struct escape_host *h);
/* The damage since the last call, as a sentence; NULL when there is none. */
const char *escape_host_harm(struct escape_host *h);

/* ---- boxes ---- */

enum { ESCAPE_NEIGHBOUR = 1, ESCAPE_OWN_BOX = 2, ESCAPE_RESTART = 4, ESCAPE_SMALL_DISK = 8 };
/* The disk limit of a box for ESCAPE_SMALL_DISK: full within seconds. */
enum { ESCAPE_DISK_MIB = 16 };
enum { ESCAPE_CHECKS_MAX = 512 };

struct escape_check {
	char name[40];
	unsigned needs;
};

struct escape_verdict {
	char result[16]; /* refused, escaped, error, skipped */
	char how[700];
	char expected[220];
};

struct escape_box {
	struct client *cl;
	int program; /* the descriptor of atoll-escape */
	char id[32];
	bool small_disk; /* has a limit of ESCAPE_DISK_MIB */
};

/* Makes the box and puts the program into it. A small disk is wished; a host without limits has none to give. */
int escape_box_make(struct escape_box *b, bool small_disk, struct err *e);
void escape_box_drop(struct escape_box *b);
/* Puts the program into an existing box; starts the box if it has stopped. */
int escape_box_load(struct escape_box *b, struct err *e);
/* Runs `atoll-escape words…`; *ret_out gets its standard output. Fails when the program did not end by itself. */
int escape_box_run(struct escape_box *b, char **words, struct buf *ret_out, struct err *e);
/* One check, with its KEY=VALUE arguments. */
int escape_box_check(struct escape_box *b, const char *name, char **args, struct escape_verdict *ret, struct err *e);
/* Reads the list of checks out of the box; returns how many, or -1. */
int escape_box_list(struct escape_box *b, struct escape_check *ret, struct err *e);
/* Asks the agent to end the box and waits for its end. */
int escape_box_stop(struct escape_box *b, struct err *e);
/* Starts the victim of the neighbour checks. Returns its process id on the host; 0 when the host does not show it. */
int escape_box_victim(struct escape_box *b, pid_t *ret_pid, struct err *e);
