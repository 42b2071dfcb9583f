/*
 * process.h - background processes. A process starts with a session's state and is independent afterwards: it outlives
 * the client that started it, and atolld. It ends with its session.
 *
 * A process that is being killed runs until nothing of its tree is left. Its exit code is that of its program. The
 * process that was started may be a shell (a copy of the session's) that waits for the program and dies of the signal
 * first; then the agent inherits and reaps the program, and the code comes from there (`heir`). The same holds for a
 * process that is sent another signal, which its shell dies of and its program survives: it runs on.
 *
 * The table holds all living processes and those that ended last, with their logs and exit codes: at most
 * PROCESSES_MAX, and fewer when their commands have more than PROCESS_COMMANDS_MAX bytes. Followers read the log from
 * its beginning and then new output, each at its own pace. Thread: the loop's.
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
	struct list over_node; /* when ended */
	size_t kept_bytes;     /* of its command, when ended */
	char *id, *command, *session;
	enum process_status status;
	pid_t pid;
	int64_t start_ms, end_ms; /* wall clock */
	struct cmd_result result; /* when ended */
	struct proclog log;
	struct cmd *cmd; /* NULL when ended */
	/* Set while the process waits for its turn in the session: cancels the start, and tells its client. */
	void (*give_up)(struct process *p);
	void *give_up_arg;
	int kill_asked;	      /* the last signal that a client asked for */
	uint64_t sent;	      /* all of them: a bit for each */
	bool kill_again;      /* SIGTERM has been sent twice to young processes */
	struct proclist tree; /* the processes that were signalled to end it */
	struct proc heir;     /* while it is killed: the last child of its shell; pid 0: none */
	bool heir_ended;
	int heir_status; /* from waitpid */
	uint64_t kill_began;
	uint64_t kill_due; /* while it is being killed: when SIGKILL is due (monotonic ms) */
	struct list followers, waiters;
	bool forgotten;	 /* no longer in the table */
	bool service;	 /* started again when it ends (service.h) */
	bool keep_alive; /* its box does not sleep while it runs */
	struct loop_timer kill_timer;
};

/* on_news is called when the log has grown or the process has ended, until process_unfollow. */
struct process_follower {
	struct list node;
	void (*on_news)(struct process_follower *f);
};

void process_unfollow(struct process *p, struct process_follower *f);

/* on_end is called once, when the process has ended and, if it was killed, no process of its tree is left. The waiter
 * is out of the list by then. */
struct process_waiter {
	struct list node;
	void (*on_end)(struct process_waiter *w, struct process *p);
};

/* Adds a process under `id`; an empty id becomes "proc_<ms>_<6 characters>". PROCESS_ERROR when a living process has
 * that id; an ended process is replaced. */
struct process *process_add(struct str id, struct str command, struct str session, struct err *e);
/* The same for the next run of a service: the log of the run before goes on. */
struct process *process_add_again(struct str id, struct str command, struct str session, struct err *e);
/* At most PROCESS_ID_MAX bytes that can stand in a path, and not the name of a route. An empty one is fine. */
bool process_id_ok(struct str id);
/* Living processes that keep their box awake. */
size_t process_keeping_awake(void);
void process_started(struct process *p, struct cmd *cmd);
/* The process could not be started. It is forgotten at once, unless it has followers or waiters: they see it end with
 * this error. */
void process_failed(struct process *p, const struct err *e);
/* The same, but it stays in the table, with the error in its log. */
void process_failed_visibly(struct process *p, const struct err *e);
/* Takes the process out of the table. Its followers still get the log to the end; the last follower frees it. */
void process_forget(struct process *p);
extern const struct cmd_ops process_cmd_ops; /* with the process as cmd's arg */

struct process *process_find(struct str id);
struct list *process_all(void);
bool process_is_over(const struct process *p);
const char *process_status_name(enum process_status s);
/* The exit code to show: 143 and 137 for processes that the agent ended. */
int process_exit_code(const struct process *p);

/* Ended and without waiters: it may be forgotten. */
bool process_is_idle(const struct process *p);

/* Sends `sig` to the whole tree. SIGKILL follows SIGTERM after PROCESS_KILL_GRACE, also for children that outlive the
 * process. A process that still waits for its turn in its session is not started any more, whatever the signal. */
void process_kill(struct process *p, int sig);
/* Sends SIGTERM to all living processes of a session (NULL: of all), with as many looks at /proc as a single process
 * needs. */
void process_kill_all(const char *session);
