/*
 * sandbox.h - a sandbox as the daemon knows it: its settings, its state, and the requests that wait for it.
 *
 * The table (daemon.boxes) holds every sandbox that is not destroyed. A sandbox is freed when it has left the table and
 * its last reference is dropped. Exchanges, waiters and questions to the warden hold one reference each.
 *
 * At most one operation (`op`) is under way for a sandbox. Requests that need the sandbox in another state queue up as
 * waiters, in order. The waiter at the head decides the next operation (create, wake, destroy); it answers all waiters
 * behind the head that want the same. So a thousand first requests make one box, a DELETE in their middle takes effect
 * in the middle, and the requests behind the DELETE get a new box.
 *
 * No callback is called from inside the function that queued it. Thread: the loop's.
 */
#pragma once

#include "base/list.h"
#include "daemon/core/spec.h"
#include "daemon/daemon.h"
#include "daemon/limits.h"
#include "daemon/network/net_log.h"
#include "proto/limits.h"

/* What the warden has told about the box of a sandbox. */
enum warden_view {
	VIEW_CLEAR,   /* the box lives, is being made, or left nothing */
	VIEW_UNSEEN,  /* nothing yet: the sandbox was read from the store */
	VIEW_REMAINS, /* the warden keeps a dead box, which must be swept before the next start (SB_STOPPED only) */
};

/* How far a part of a create is. */
enum create_part { PART_NONE, PART_ASKED, PART_DONE, PART_FAILED };

struct sandbox {
	struct daemon *daemon;
	char id[BOX_ID_MAX + 1];
	enum sandbox_state state;
	enum sandbox_op op;
	enum warden_view view;
	bool has_files; /* it has run before: a failed start leaves it stopped, not gone */
	bool work;	/* a box of the image service: nobody else sees or reaches it */
	bool filling;	/* its files are being made from a snapshot; the row says so too (SB_CREATING only) */
	bool changing;	/* a PUT is on its way through store and warden */
	unsigned refs;

	struct api_spec spec;
	int64_t created_ms;		   /* wall clock */
	char reason[STORE_REASON_MAX + 1]; /* why it is stopped, or "CODE: why" it failed, or "" */

	/* Of the box while it lives. */
	uint32_t slot;
	bool no_network;    /* its box has none, whatever its policy says */
	int64_t started_ms; /* wall clock; tells one life of a sandbox from another */
	int64_t heard_ms;   /* started_ms of the life whose agent has answered before a snapshot */
	struct http_endpoint agent;
	struct turn_party *party; /* all that its connections make the loop do (base/turn.h) */
	struct dial *dial;	  /* into its network (dial.h); NULL before the first use */

	struct list waiters; /* struct sandbox_waiter */
	size_t waiters_n;
	unsigned exchanges;	 /* requests inside the box now */
	unsigned tunnels;	 /* … of which are upgraded connections to apps: only their bytes keep it awake */
	unsigned previews;	 /* requests that came by a preview, waiting or inside */
	struct tcp_owner memory; /* of its previews: pass/preview_memory.h */
	uint64_t last_used;	 /* loop_now of the last exchange's end */
	struct loop_timer idle;	 /* running: the next look whether it may sleep; asleep: its memory goes to swap */
	struct {
		bool under_way;	   /* the warden or the agent is being asked */
		uint64_t at;	   /* loop_now of the last look at its CPU time … */
		uint64_t cpu_usec; /* … and what it was */
	} look;
	bool nudged;		 /* bytes for it came while it was being frozen */
	bool stop_forced;	 /* OP_STOP: its processes had their time … */
	bool stop_killed;	 /* … and it had to be killed */
	struct loop_timer retry; /* a row that could not be deleted, a half-made or dying box to look at again */
	int checks_left;	 /* of OP_CHECK */

	struct net_log *net_log;  /* NULL before the first record */
	struct hook *hook;	  /* outbound handlers: hooks.h; NULL before the first use */
	struct usage_ring *usage; /* NULL before the first sample */

	int64_t backup_due_ms;	  /* wall clock: the next scheduled backup … */
	uint64_t backup_every_ms; /* … of the schedule that it was computed for; 0: of none */

	struct volume_use *uses; /* volumes that its settings name: uses.h */
	size_t uses_n;
	struct list running; /* in daemon.running */

	struct list ports; /* struct port, by number: ports.h */
	size_t ports_n;
	struct list tunnel_hosts; /* struct tunnel: tunnels.h */
	size_t tunnel_hosts_n;
	size_t cloudflareds;		   /* runs of cloudflared.h, those that are being ended included */
	struct tunnel_watch *tunnel_watch; /* the wishes of its agent; NULL: no client of the rpc transport came */

	/* Of the create under way. */
	enum create_part row, box, env;
	bool wished; /* a PUT asked for it: a failure stays (SB_FAILED) */
	struct err create_err;
	uint64_t create_us;
};

/* WAIT_SETTLED: it exists, and nothing is under way. */
enum wait_goal { WAIT_RUNNING, WAIT_GONE, WAIT_ASLEEP, WAIT_STOPPED, WAIT_SETTLED };

/* Embedded in a request's own object. */
struct sandbox_waiter {
	struct list node;
	struct sandbox *sandbox; /* while it waits */
	enum wait_goal goal;
	const struct api_change *change; /* WAIT_RUNNING: settings of a new sandbox; NULL: the defaults */
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
/* An operation begins, checked against the table of state.c, or ends. */
void sandbox_op_begin(struct sandbox *s, enum sandbox_op op);
void sandbox_op_end(struct sandbox *s);
/* What the warden has just told. VIEW_REMAINS: the sandbox is stopped. */
void sandbox_set_view(struct sandbox *s, enum warden_view view);
/* Writes the state and its reason to the store, without waiting. */
void sandbox_write_state(const struct sandbox *s);
/* The settings have the note that makes a sandbox one of the image service. */
#define SANDBOX_WORK ".work"
bool sandbox_settings_work(const char *settings);
void sandbox_set_work(struct sandbox *s, bool work);
/* False once it is destroyed: it has left the table. */
static inline bool sandbox_exists(const struct sandbox *s)
{
	return s->state != SB_DESTROYED;
}
/* All, sorted by id; the array is the caller's to free. */
struct sandbox **sandbox_sorted(struct daemon *d, size_t *ret_n);
/* The same for the first `limit` after `after` ("": from the start) that pick() wants, without sorting all. */
struct sandbox_page {
	const char *after;
	size_t limit;
	bool (*pick)(const void *arg, const struct sandbox *s);
	const void *arg;
};
struct sandbox **sandbox_page(struct daemon *d, const struct sandbox_page *p, size_t *ret_n);
void sandbox_row(const struct sandbox *s, struct store_row *ret);

/* ---- lifecycle.c ---- */

/* Runs and nothing is under way: a request may be sent to its agent at once. */
static inline bool sandbox_is_ready(const struct sandbox *s)
{
	return s->state == SB_RUNNING && s->op == OP_NONE && s->view != VIEW_UNSEEN;
}

/* Queues the waiter and starts what it needs. -1: too many wait (CONTAINER_UNAVAILABLE); on_done will not come. */
int sandbox_wait(struct sandbox *s, struct sandbox_waiter *w, struct err *e);
/* The same by id: makes the entry when there is none (WAIT_RUNNING only). */
int sandbox_wait_id(struct daemon *d, const char *id, struct sandbox_waiter *w, struct err *e);
/* The request is gone. Safe when it does not wait. */
void sandbox_wait_cancel(struct sandbox_waiter *w);

/* Its agent broke a connection although it should run: ask the warden before anything else is sent there. `refused`: it
 * does not even listen, so it is dead or dying: the warden is asked until it knows. */
void sandbox_suspect(struct sandbox *s, bool refused);
/* If no operation is under way, begins the next one that the waiters need. */
void sandbox_advance(struct sandbox *s);
/* Begins to thaw it, if it is asleep and nothing is under way. */
void sandbox_wake(struct sandbox *s);
/* Begins to freeze it. */
void sandbox_sleep(struct sandbox *s);

/* ---- idle.c: when a box falls asleep, and when its memory goes to swap ---- */

/* A request enters or leaves the box: keeps it from sleeping. */
void sandbox_enter(struct sandbox *s);
void sandbox_leave(struct sandbox *s);
/* Bytes for the box, or from it, move: they count as activity, and wake it. */
void sandbox_touch(struct sandbox *s);
/* Its state, sleepAfter or keepAlive may have changed. */
void sandbox_set_idle(struct sandbox *s);
/* How long it stays awake without activity; 0: always. */
uint64_t sandbox_sleep_after(const struct sandbox *s);

/* ---- stop.c ---- */

/* The reason of a sandbox that did not end within BOX_STOP_GRACE. */
#define SANDBOX_KILLED "stopped by a request; it did not end by itself and was killed"
/* Ends its processes and keeps its files: SIGTERM, and after BOX_STOP_GRACE SIGKILL. */
void sandbox_stop(struct sandbox *s);
/* Its box died while it was being stopped. */
void sandbox_stop_died(struct sandbox *s);

/* ---- ask.c ---- */

/* `arg` is the caller's. The sandbox is referenced until the callback has returned. */
typedef void (*sandbox_on_answer)(struct sandbox *s, const struct warden_answer *a, void *arg);
/* Sends the warden a request about this sandbox; the id is filled in here. Only while the warden is up. `on_answer` may
 * be NULL. */
void sandbox_ask(struct sandbox *s, const struct warden_request *r, sandbox_on_answer on_answer, void *arg);

/* ---- create.c, destroy.c: the operations, started by lifecycle.c ---- */

void sandbox_create(struct sandbox *s);
/* The same for a sandbox without files that cannot be made: it fails without the warden. */
void sandbox_create_refused(struct sandbox *s, const struct err *why);
/* Tells the agent variables (an object of texts and nulls) for all that it starts from now on. `start`: and to start
 * the services that the box has in its files. */
void sandbox_send_env(struct sandbox *s, const char *env, bool start, http_on_reply on_reply, void *arg);
/* Makes the programs of a living box trust the gate's authority; waits TRUST_WAIT for the gate. */
void sandbox_trust(struct sandbox *s, sandbox_on_answer on_answer, void *arg);
/* Continues a create whose answer was lost. `info` is from the warden's list; NULL: there is no such box. */
void sandbox_create_resume(struct sandbox *s, const struct box_info *info);
void sandbox_destroy(struct sandbox *s);
/* Makes the warden drop a dead box but keep its files. */
void sandbox_sweep(struct sandbox *s);
/* A box that was just made has died before it could be used. */
void sandbox_create_died(struct sandbox *s, const char *reason);
/* A sandbox that a PUT asked for, and that never ran, could not be made. */
void sandbox_set_failed(struct sandbox *s, const struct err *e);
/* The error with which a sandbox failed. */
void sandbox_failure(const struct sandbox *s, struct err *ret);
/* Fails the waiters at the head that want `goal`. */
void sandbox_fail_waiters(struct sandbox *s, enum wait_goal goal, const struct err *e);
/* The warden's answer about a living box: slot, agent's address, limits. */
void sandbox_take_info(struct sandbox *s, const struct box_info *info);

/* ---- fill.c ---- */

/* e is NULL on success. The sandbox is referenced until the callback has returned. */
typedef void (*sandbox_on_filled)(void *arg, struct sandbox *s, const struct err *e);
/* A new entry with these settings, whose files come from a snapshot. It is `stopped` when they are there, and
 * gone if that fails. The id has been checked and is free; the warden is up. -1: LIMIT_REACHED. */
struct sandbox_filling {
	const char *id, *snapshot;
	const struct api_spec *spec;
	sandbox_on_filled on_done;
	void *arg;
};
int sandbox_fill(struct daemon *d, const struct sandbox_filling *what, struct err *e);
/* Ends the processes of a settled sandbox and gives it the files of a snapshot. The warden is up. */
void sandbox_replace(struct sandbox *s, const char *snapshot, sandbox_on_filled on_done, void *arg);

/* ---- recover.c ---- */

/* Reads the store's rows into the table. Before the loop runs. */
int recover_load(struct daemon *d, struct err *e);
extern const struct warden_ops recover_warden_ops; /* arg: the daemon */
