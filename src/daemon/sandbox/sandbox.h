/*
 * sandbox.h - a sandbox as the daemon knows it: what was asked for, its state, who waits for it.
 *
 * The table (daemon.boxes) holds every sandbox that is not destroyed. A sandbox is freed when it has left the table and
 * its last reference is dropped; exchanges, waiters and questions under way hold one each.
 *
 * One operation at a time (`op`) is under way for a sandbox. Requests that need it in another state than it is in queue
 * up as waiters, in order: whoever is at the head decides what happens next (create, wake, destroy), and all waiters in
 * a row that want the same are answered by the same operation. So a thousand first requests make one box, a DELETE in
 * their middle takes effect in the middle, and those behind it get a new box.
 *
 * Nothing calls back from inside the function that queued it. Thread: the loop's.
 */
#pragma once

#include "base/list.h"
#include "daemon/daemon.h"
#include "daemon/limits.h"
#include "daemon/network/net_log.h"
#include "daemon/sandbox/spec.h"
#include "proto/limits.h"

enum sandbox_op { OP_NONE, OP_CREATE, OP_DESTROY, OP_WAKE, OP_SLEEP, OP_CHECK, OP_SWEEP };

/* How far a part of a create is. */
enum create_part { PART_NONE, PART_ASKED, PART_DONE, PART_FAILED };

struct sandbox {
	struct daemon *daemon;
	char id[BOX_ID_MAX + 1];
	enum sandbox_state state;
	enum sandbox_op op;
	bool in_table;
	bool has_files; /* it has run before: a failed start leaves it stopped, not gone */
	bool remains;	/* the warden keeps a dead box of it: to be swept before it can start again */
	bool changing;	/* a PUT is on its way through store and warden */
	bool unseen;	/* read from the store, and the warden has not said yet whether it lives */
	unsigned refs;

	struct api_spec spec;
	int64_t created_ms;		   /* wall clock */
	char reason[STORE_REASON_MAX + 1]; /* why it is stopped, or "" */

	/* Of the box while it lives. */
	uint32_t slot;
	struct http_endpoint agent;
	struct dial *dial; /* into its network (dial.h); NULL before the first use */

	struct list waiters; /* struct sandbox_waiter */
	size_t waiters_n;
	unsigned exchanges; /* requests inside the box now */
	unsigned previews;  /* requests that came by a preview, waiting or inside */
	uint64_t last_used; /* loop_now of the last exchange's end */
	struct loop_timer idle;
	struct loop_timer retry; /* a row that could not be deleted, a half-made or dying box to look at again */
	int checks_left;	 /* of OP_CHECK */

	struct net_log *net_log; /* NULL before the first record */

	struct list ports; /* struct port, by number: ports.h */
	size_t ports_n;

	/* Of the create under way. */
	enum create_part row, box, env;
	struct err create_err;
	uint64_t create_us;
};

enum wait_goal { WAIT_RUNNING, WAIT_GONE };

/* Embedded in a request's own object. */
struct sandbox_waiter {
	struct list node;
	struct sandbox *sandbox; /* while it waits */
	enum wait_goal goal;
	const struct api_change *change; /* WAIT_RUNNING: what a new sandbox shall be like; NULL: the defaults */
	bool wake_only;			 /* WAIT_RUNNING: neither makes nor starts it; fails instead */
	bool made;			 /* answer: this waiter's turn made the sandbox */
	struct loop_timer deadline;
	/* e is NULL on success. WAIT_RUNNING: s runs. The waiter no longer waits. */
	void (*on_done)(struct sandbox_waiter *w, struct sandbox *s, const struct err *e);
};

/* ---- table.c ---- */

/* NULL when there is none. */
struct sandbox *sandbox_find(struct daemon *d, const char *id);
/* A new entry in state creating, in the table. LIMIT_REACHED past BOX_TABLE_MAX. The id has been checked. */
struct sandbox *sandbox_add(struct daemon *d, const char *id, enum sandbox_state state, struct err *e);
void sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s);
/* Checked against the table of state.c. Keeps the counts, the reason ("" when NULL), and the idle timer right. Moving
 * to SB_DESTROYED takes it out of the table. Writes nothing to the store. */
void sandbox_move(struct sandbox *s, enum sandbox_state to, const char *reason);
/* Sorted by id, after `after` ("": from the start); the array is the caller's to free. */
struct sandbox **sandbox_sorted(struct daemon *d, const char *after, size_t *ret_n);
void sandbox_row(const struct sandbox *s, struct store_row *ret);

/* ---- lifecycle.c ---- */

/* Runs and nothing is under way: a request may be sent to its agent at once. */
static inline bool sandbox_is_ready(const struct sandbox *s)
{
	return s->state == SB_RUNNING && s->op == OP_NONE && !s->unseen;
}

/* Queues the waiter and starts what it needs. -1: too many wait (CONTAINER_UNAVAILABLE); on_done will not come. */
int sandbox_wait(struct sandbox *s, struct sandbox_waiter *w, struct err *e);
/* The same by id: makes the entry when there is none (WAIT_RUNNING only). */
int sandbox_wait_id(struct daemon *d, const char *id, struct sandbox_waiter *w, struct err *e);
/* The request is gone. Safe when it does not wait. */
void sandbox_wait_cancel(struct sandbox_waiter *w);

/* A request enters or leaves the box: keeps it from sleeping. */
void sandbox_enter(struct sandbox *s);
void sandbox_leave(struct sandbox *s);
/* Its agent broke a connection although it should run: ask the warden before anything else is sent there. `refused`: it
 * does not even listen, so it is dead or dying: the warden is asked until it knows. */
void sandbox_suspect(struct sandbox *s, bool refused);
/* Goes on with what is waited for, when nothing is under way. */
void sandbox_advance(struct sandbox *s);
/* The spec's sleepAfter or keepAlive may have changed. */
void sandbox_set_idle(struct sandbox *s);

/* ---- create.c, destroy.c: the operations, started by lifecycle.c ---- */

void sandbox_create(struct sandbox *s);
/* Tells the agent variables (an object of texts and nulls) for all that it starts from now on. */
void sandbox_send_env(struct sandbox *s, const char *env, http_on_reply on_reply, void *arg);
/* What the warden's list says about a create whose answer was lost. NULL: there is no such box. */
void sandbox_create_resume(struct sandbox *s, const struct box_info *info);
void sandbox_destroy(struct sandbox *s);
/* Tells the warden to let go of a dead box, but for its files. */
void sandbox_sweep(struct sandbox *s);
/* A box that was just made has died before it could be used. */
void sandbox_create_died(struct sandbox *s, const char *reason);
/* Fails the waiters at the head that want `goal`. */
void sandbox_fail_waiters(struct sandbox *s, enum wait_goal goal, const struct err *e);
/* The warden's answer about a living box: slot, agent's address, limits. */
void sandbox_take_info(struct sandbox *s, const struct box_info *info);

/* ---- recover.c ---- */

/* Reads the store's rows into the table. Before the loop runs. */
int recover_load(struct daemon *d, struct err *e);
extern const struct warden_ops recover_warden_ops; /* arg: the daemon */
