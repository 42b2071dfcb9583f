/*
 * context.h - code contexts: one interpreter process each, with a queue of runs.
 *
 *	starting → idle ⇄ running → ended
 *
 * A context that has ended (crashed, killed, out of memory) stays in the table and says how it ended until it is
 * deleted; a default context is replaced by its next run. Runs are done in order, one at a time. What a worker prints
 * between two runs is kept (CODE_BETWEEN_MAX) and comes with the next one.
 *
 * Ownership: the table owns contexts, a context its runs. on_over comes exactly once for each run, as the last, unless
 * context_run_drop came before; the run is freed behind either. Thread: the loop's.
 */
#pragma once

#include "agent/code/worker.h"
#include "agent/limits.h"
#include "base/list.h"

enum context_state { CONTEXT_STARTING, CONTEXT_IDLE, CONTEXT_RUNNING, CONTEXT_ENDED };

struct context {
	struct list node;
	char *id, *cwd;
	enum language language;
	struct env env;
	bool is_default;
	enum context_state state;
	uint64_t created_ms, used_ms; /* wall clock */
	struct worker *worker;	      /* NULL: ended */
	struct list runs;	      /* the first is the one that runs, when state is running */
	uint64_t count;
	struct loop_timer start_timer, limit;
	struct err ended; /* how */
	enum outcome outcome;
	struct buf between[2];
	uint64_t between_dropped;
	void (*on_started)(void *arg, struct context *c, const struct err *failure); /* NULL: told, or nobody asks */
	void *started_arg;
	void (*on_deleted)(void *arg); /* set: it is being deleted, and in no table any more */
	void *deleted_arg;
};

/* Why a run was over. */
enum run_over {
	RUN_DONE,    /* the worker says so */
	RUN_ENDED,   /* the context ended under it: context->ended, ->outcome */
	RUN_DELETED, /* the context was deleted */
	RUN_REFUSED, /* it was not started: the context did not start */
};

/* What cut it short. */
enum run_stop { STOP_NONE, STOP_TIMEOUT, STOP_GONE };

struct code_run;

struct run_ops {
	void (*on_begin)(struct code_run *r);
	/* All three: false stops what comes until context_run_resume. */
	bool (*on_output)(struct code_run *r, int stream, struct str bytes);
	bool (*on_event)(struct code_run *r, struct str piece, bool first, bool last);
	bool (*on_error)(struct code_run *r, struct str json);
	/* `json` is the worker's last word with RUN_DONE. */
	void (*on_over)(struct code_run *r, enum run_over how, struct str json);
};

struct code_run {
	struct list node;
	struct context *c;
	const struct run_ops *ops; /* NULL: nobody listens any more */
	void *arg;
	char *code;
	size_t code_n;
	struct env env;
	uint64_t timeout_ms; /* 0: none */
	enum run_stop stop;
	bool failed; /* an error event has come */
};

struct context_spec {
	enum language language;
	const char *cwd;
	const struct env *env; /* changes over the sandbox's */
	bool is_default;
};

/* Starts it; on_started comes later. NULL on failure. */
struct context *context_create(const struct context_spec *s,
	void (*on_started)(void *arg, struct context *c, const struct err *failure), void *arg, struct err *e);
struct context *context_find(struct str id);
struct context *context_default(enum language l);
struct list *context_all(void);
const char *context_state_name(enum context_state s);
/* Out of the table at once; what runs or waits is over; on_deleted (may be NULL) comes when its processes are gone. */
void context_delete(struct context *c, void (*on_deleted)(void *arg), void *arg);

/* Takes the run (from malloc), on success. LIMIT_REACHED when too much waits. It begins at once or in its turn. */
int context_run(struct context *c, struct code_run *r, struct err *e);
/* Nobody wants it any more: one that waits is taken out, one that runs is interrupted. */
void context_run_drop(struct code_run *r);
/* How many runs wait for their turn. */
size_t context_waiting(const struct context *c);
void context_run_resume(struct code_run *r);
