/*
 * up.h - `atoll up`: prepares the host, listens, and keeps warden and daemon running.
 *
 * docs/design/005-start.md is the contract with atolld and atoll-warden: owners, environment, handed-down sockets.
 *
 *	up.c          the verb: order of the steps, readiness, signals, stop
 *	up_prepare.c  user, directories, token, locks, kernel settings
 *	up_pool.c     the file of the pool
 *	up_listen.c   the two listening sockets
 *	up_child.c    one supervised program
 *	up_groups.c   the cgroups that programs enter
 */
#pragma once

#include <limits.h>

#include "base/loop.h"
#include "cli/cli.h"
#include "http/client/client.h"
#include "proto/groups.h"

/* The daemon's user when ATOLL_USER is not set; made when missing. */
#define UP_USER "atoll"
/* The user of the gate; made when missing. */
#define UP_GATE_USER "atoll-gate"

#define UP_INOTIFY_INSTANCES	    "/proc/sys/fs/inotify/max_user_instances"
#define UP_INOTIFY_WATCHES	    "/proc/sys/fs/inotify/max_user_watches"
#define UP_INOTIFY_INSTANCES_WANTED 65536u
#define UP_INOTIFY_WATCHES_WANTED   1048576u

/* The file of the pool: how large it is at first, and the smallest that makes sense. */
#define UP_POOL_FIRST (2048ull << 20)
#define UP_POOL_MIN   (256ull << 20)
#define UP_POOL_ALIGN (1ull << 20)

/* The first of Atoll's programs that is missing in `dir`, or NULL. */
const char *up_missing_program(const char *dir);
/* True when the images directory holds at least one whole image. */
bool up_image_there(void);

/* ---- up_prepare.c ---- */

struct up_place {
	char run[PATH_MAX], data[PATH_MAX], images[PATH_MAX]; /* absolute */
	char user[64];
	uid_t uid;
	gid_t gid;
	uid_t gate_uid;
	gid_t gate_gid;
	int run_lock, data_lock; /* held open until the end */
};

/* Finds absolute paths and the user (makes UP_USER when missing) and puts them into the environment of the programs. */
int up_prepare_settings(struct cli *c, struct up_place *p, struct err *e);
/* Directories, locks, token. Waits for programs that a killed predecessor left behind. */
int up_prepare_files(struct cli *c, struct up_place *p, struct err *e);
/* The file of the pool (docs/storage.md), when the data directory needs one and has none. A host that cannot have one
 * gets plain directories: the warden says why. -1 for settings that make no sense. */
int up_prepare_pool(struct cli *c, const struct up_place *p, struct err *e);
/* Raises kernel settings that are too low for many boxes, and logs each change. Never fails. */
void up_raise_limits(void);
/* Writes the process ids into the lock file, for the next `atoll up` after this one was killed. */
void up_note_pids(const struct up_place *p, pid_t warden, pid_t daemon, pid_t gate);

/* ---- up_listen.c ---- */

struct up_sockets {
	int tcp, local, docker;
	int own;		      /* the daemon's, for programs of its user */
	int gate_warden, gate_daemon; /* the gate's */
	int hook;		      /* the daemon's, for the gate */
	char address[64];	      /* the actual address: 127.0.0.1:8700 */
};

int up_listen(struct cli *c, const struct up_place *p, struct up_sockets *ret, struct err *e);
/* Removes the files of up_listen from the run directory. */
void up_unlisten(const struct up_place *p);

/* ---- up_groups.c ---- */

/* The files that take a process in, open for writing. Empty until the warden has sent them, or where it has none. */
struct up_group {
	int procs[GROUPS_FILES];
	size_t n;
};

struct up_groups {
	struct loop_io io;
	int warden; /* the warden's end, for each warden that is started */
	struct up_group of[GROUPS_PROGRAMS];
	void (*on_come)(struct up_groups *g); /* a warden has sent them */
};

int up_groups_open(struct up_groups *g, struct loop *l, void (*on_come)(struct up_groups *g), struct err *e);
/* In the child, as root. */
void up_group_enter(const struct up_group *g);

/* ---- up_child.c ---- */

enum { UP_BACKOFF_FIRST = 100, UP_BACKOFF_MAX = 5000, UP_QUIET = 60000 };

struct up_child {
	const char *name;
	const struct up_place *place;
	int down[5];		      /* become descriptors 3 and following of the program; 0: none */
	const char *down_names;	      /* in LISTEN_FDNAMES; NULL: none are passed */
	const char *beside[5];	      /* programs of our directory that it needs and may not reach; then NULL */
	const struct up_group *group; /* or NULL */
	uid_t uid;		      /* 0: stays root */
	gid_t gid;
	bool stopping;
	pid_t pid; /* 0: does not run */
	int pidfd;
	int status; /* wait status of the last process that ended */
	uint64_t started, delay;
	struct loop *loop;
	struct loop_io io;
	struct loop_timer timer;
	void (*on_change)(struct up_child *ch); /* the program started or ended */
};

/* Starts the program, and restarts it whenever it ends, until up_child_stop. */
int up_child_start(struct up_child *ch, struct loop *l, struct err *e);
/* Sends the signal, and does not restart the program. */
void up_child_stop(struct up_child *ch, int signo);
/* "exit code 1", "killed by SIGKILL" */
void up_child_describe(int status, char *ret, size_t n);
