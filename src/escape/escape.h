/*
 * escape.h - atoll-escape: one program that runs inside a box as root and tries to get out.
 *
 *	atoll-escape list [--json]		every check: name, attack, needs
 *	atoll-escape run NAME [KEY=VALUE…]	tries one, prints one line of JSON
 *	atoll-escape neighbour			a victim for the checks that attack another box
 *	atoll-escape pong			whether a box that was left alone can still do everything
 *
 * Theory of operation. A check is a function that tries an attack and says how it ended. It runs in a child of its own
 * (a check may crash, hang, lose its capabilities or its stdio), with the result in shared memory. "refused" needs the
 * right reason: the errno, or the observation, that the layer which must stop the attack gives. The same attack failing
 * in another way (no such file, bad argument) is an "error", and an error is a failure: a check that cannot tell why it
 * was stopped proves nothing. One attempt that succeeds makes the whole check "escaped".
 *
 * Whether the checks can fail is tested too (tests/security/test_checks_can_fail.py): those marked CHECK_DEMO run as
 * unconfined root in a throw-away mount namespace and must not be refused there. They are therefore written so that
 * success harms nothing: files of the kernel are opened for writing and never written, arguments are such that a kernel
 * that allows the call answers EINVAL or ENOENT, values are set to what they were.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

enum verdict { VERDICT_NONE, VERDICT_SKIPPED, VERDICT_REFUSED, VERDICT_ERROR, VERDICT_ESCAPED };

struct outcome {
	enum verdict verdict;
	char how[600];	    /* the reason of the worst verdict so far */
	char expected[200]; /* the right result */
};

enum check_flag {
	CHECK_HOST = 1,	       /* needs HOST_* arguments: something on the host to attack */
	CHECK_NEIGHBOUR = 2,   /* another box must answer while this one misbehaves, and after it */
	CHECK_OWN_BOX = 4,     /* may ruin the box: run it in a box of its own */
	CHECK_RESTART = 8,     /* run with phase=prepare, end the box's init, start it again, run with phase=verify */
	CHECK_SMALL_DISK = 32, /* in a box with the disk limit of the argument disk_mib */
	CHECK_DEMO = 16,       /* harmless for unconfined root, and not refused there */
};

struct check {
	const char *name;
	const char *idea;  /* the attack in one line, with its CVE where it has one */
	const char *layer; /* the layer that has to refuse it */
	void (*run)(const struct check *c, struct outcome *o);
	const void *data;
	unsigned flags;
};

struct check_group {
	const char *name;
	const struct check *checks;
	size_t count;
};

extern const struct check_group group_fds, group_identity, group_procfs, group_mounts, group_namespaces, group_syscalls,
	group_network, group_neighbour, group_processes, group_tty, group_resources, group_disk, group_budgets,
	group_global, group_sockets, group_netlink, group_layer;

/* ---- saying how it ended: the worst verdict wins, equal ones are joined ---- */

void say(struct outcome *o, enum verdict v, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define refused(o, ...) say(o, VERDICT_REFUSED, __VA_ARGS__)
#define escaped(o, ...) say(o, VERDICT_ESCAPED, __VA_ARGS__)
#define errored(o, ...) say(o, VERDICT_ERROR, __VA_ARGS__)
#define skipped(o, ...) say(o, VERDICT_SKIPPED, __VA_ARGS__)
void expect(struct outcome *o, const char *text);

/* rc < 0 with an errno of the list (ended by 0) is refused, another errno is an error, rc >= 0 is an escape. */
void attempt(struct outcome *o, const char *what, long rc, int os, const int *right);
#define TRY(o, what, call, ...)                                                                                        \
	({                                                                                                             \
		long rc_ = (long)(call);                                                                               \
		int os_ = errno;                                                                                       \
		attempt(o, what, rc_, os_, (const int[]){__VA_ARGS__, 0});                                             \
		rc_;                                                                                                   \
	})

/* "EPERM"; unknown numbers as "errno 999". Not reentrant for unknown numbers. */
const char *errno_name(int os);

/* ---- arguments KEY=VALUE ---- */

const char *arg_get(const char *key); /* NULL when missing */
long arg_number(const char *key);     /* -1 when missing or not a number */
bool arg_need(struct outcome *o, const char *key, long *ret);

/* ---- shared by groups ---- */

/* Where `dirfd` ends when one goes up and up: true when that is not this process's "/". */
bool climbs_out(int dirfd, char *why, size_t n);
/* Runs fn in a child. Returns its exit code, or 256 + signal. */
int in_child(int (*fn)(void *arg), void *arg);
/* The first `n - 1` bytes of a file; -errno. */
ssize_t slurp(const char *path, char *buf, size_t n);
/* Calls fn for each process that /proc shows. */
void each_pid(void (*fn)(struct outcome *o, int pid), struct outcome *o);
/* Holds the taken resources for a while, so that a neighbour can feel it. */
enum { HOLD_MS = 1500 };
void hold(void);
#define NEXT_DOOR (CHECK_NEIGHBOUR | CHECK_OWN_BOX)
/* The number that a text begins with; -1 when it begins with none. */
long leading_number(const char *text);
/* A private directory of this run, made on first use, on the box's own layer. The runner names and removes it. */
const char *scratch_dir(void);
void scratch_name(void);
void scratch_remove(void);
/* A copy of this program at `path`, with this mode; 0 or -errno. */
int copy_self(const char *path, mode_t mode);

const struct check *check_find(const char *name);

int neighbour_main(void); /* a victim: opens all that a box could leave open, prints one line, stays */
int pong_main(void);	  /* uses one of everything that another box may have exhausted, prints "pong" */
