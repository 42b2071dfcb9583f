/*
 * process.h - background processes: started in a session's state, then on their own. They outlive the client that
 * started them, the session they came from, and atolld.
 *
 * The table holds living ones and the last PROCESSES_MAX ended ones with their logs and exit codes. Followers get what
 * is in the log and then what comes, each at its own pace. Thread: the loop's.
 */
#pragma once

#include "agent/limits.h"
#include "agent/proc/cmd.h"
#include "agent/proc/proctree.h"
#include "agent/process/proclog.h"
#include "base/list.h"

enum process_status {
	PROCESS_STARTING,
	PROCESS_RUNNING,
	PROCESS_COMPLETED,
	PROCESS_FAILED,
	PROCESS_KILLED,
	PROCESS_ERROR
};

struct process {
	struct list node;
	char *id, *command, *session;
	enum process_status status;
	pid_t pid;
	int64_t start_ms, end_ms; /* wall clock */
	struct cmd_result result; /* when ended */
	struct proclog log;
	struct cmd *cmd; /* NULL when ended */
	/* While it waits for its turn in the session: gives that up. What waits for the start is told. */
	void (*give_up)(struct process *p);
	void *give_up_arg;
	int kill_asked; /* the last signal that was asked for */
	bool kill_again;
	struct proclist tree; /* what has been signalled to end it */
	uint64_t kill_began;
	uint64_t kill_due; /* while it is being killed: when SIGKILL is due (monotonic ms) */
	struct list followers, waiters;
	bool forgotten; /* no longer in the table */
	struct loop_timer kill_timer;
};

/* Told when there is more in the log, or that it has ended. Goes with process_unfollow. */
struct process_follower {
	struct list node;
	void (*on_news)(struct process_follower *f);
};

void process_unfollow(struct process *p, struct process_follower *f);

/* Told once when the process has ended and, if it was killed, nothing of its tree is left; already removed then. */
struct process_waiter {
	struct list node;
	void (*on_end)(struct process_waiter *w, struct process *p);
};

/* Adds one under `id`, or under a generated "proc_<ms>_<6 characters>" when empty. PROCESS_ERROR when a living one has
 * that id; an ended one is replaced. */
struct process *process_add(struct str id, struct str command, struct str session, struct err *e);
void process_started(struct process *p, struct cmd *cmd);
/* It could not be started: forgotten at once, unless somebody looks at it already, who then sees it end with this
 * error. */
void process_failed(struct process *p, const struct err *e);
/* Takes it out of the table. Those who follow it still get its log to the end; it is freed with the last of them. */
void process_forget(struct process *p);
extern const struct cmd_ops process_cmd_ops; /* with the process as cmd's arg */

struct process *process_find(struct str id);
struct list *process_all(void);
bool process_is_over(const struct process *p);
const char *process_status_name(enum process_status s);
/* The exit code to show: 143 and 137 for those that we ended. */
int process_exit_code(const struct process *p);

/* Ended, and nobody waits for it: may be forgotten. */
bool process_is_idle(const struct process *p);

/* `sig` to its whole tree. SIGTERM is followed by SIGKILL after PROCESS_KILL_GRACE, also for children that outlive it.
 * One that waits for its turn in its session is not started any more, whatever the signal. */
void process_kill(struct process *p, int sig);
/* SIGTERM to all that are not over, in as many looks at /proc as one takes. */
void process_kill_all(void);
