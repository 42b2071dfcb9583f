/*
 * op.h - operations: what callers may do to sandboxes. No transport is known here.
 *
 * An operation gets who asks, its arguments and where its end is told: op_name(call, arguments). It decides whether the
 * caller may, does it, writes the record of it (audit.h) and then calls on_done once, maybe from inside the function
 * that began it. What it returned is a handle until then; NULL when on_done has been called.
 *
 * A client that leaves calls op_forget: on_done does not come any more. An operation that only waits for its turn ends
 * then; one that has begun goes on, and its record says how it ended.
 *
 * Operations on a sandbox reach only what their caller sees (op_find): boxes of builds are for the image service alone.
 * Ownership: an operation owns itself, and takes over the arguments that it says it takes. Thread: the loop's.
 */
#pragma once

#include "daemon/admit/caller.h"
#include "daemon/core/sandbox.h"
#include "daemon/limits.h"
#include "store/limits.h"

struct operation;
struct snapshot;
struct backup;
struct tunnel;
struct tunnel_wish;
struct port;

struct op_result {
	const struct err *err;	 /* NULL: it is done */
	bool made;		 /* what it names was not there before */
	struct sandbox *sandbox; /* of this one; NULL after a destroy. Only for the call */
	const struct tunnel *tunnel;
	const struct port *port;
	const struct snapshot *snapshot;
	struct sandbox *const *forks;
	size_t forks_n;
};

typedef void (*op_on_done)(void *arg, const struct op_result *result);

/* What every operation gets. The id has been checked (box_id_check). */
struct op_call {
	struct daemon *daemon;
	const struct caller *caller; /* copied */
	const char *id;		     /* of the sandbox */
	op_on_done on_done;
	void *arg;
};

/* The client is gone. NULL is fine. */
void op_forget(struct operation *op);

/* ---- what callers see ---- */

/* The sandbox with this id, if the caller sees it. NULL: SANDBOX_NOT_FOUND. */
struct sandbox *op_find(struct daemon *d, const struct caller *c, const char *id, struct err *e);
/* Whether the caller may make a sandbox of this id, or use the one that is there. -1: RESERVED_SANDBOX_ID,
 * SANDBOX_NOT_FOUND. */
int op_may_make(struct daemon *d, const struct caller *c, const char *id, struct err *e);

/* ---- life.c ---- */

/* Waits until nothing of the sandbox is left. */
struct operation *op_destroy(const struct op_call *call);
struct operation *op_sleep(const struct op_call *call);
/* Starts it when it is stopped. */
struct operation *op_wake(const struct op_call *call);
struct operation *op_stop(const struct op_call *call);

/* ---- put.c: makes a sandbox, or changes one that is there ---- */

/* Takes what `change` owns. */
struct operation *op_put(const struct op_call *call, struct api_change *change);

/* ---- change.c: one change of a sandbox that is there ---- */

/* The network policy of a sandbox. Takes what `change` owns. */
struct operation *op_policy(const struct op_call *call, struct api_change *change);

/* ---- fork.c ---- */

struct op_fork_wish {
	size_t count; /* {id}-1, {id}-2 …: when there are no ids */
	size_t n;
	char ids[FORKS_MAX][BOX_ID_MAX + 1];
};
/* Makes sandboxes from the files of call->id, all or none. */
struct operation *op_fork(const struct op_call *call, const struct op_fork_wish *wish);
/* Makes call->id from change->from, and starts it: a part of op_put. Takes what `change` owns. */
struct operation *op_make_from(const struct op_call *call, struct api_change *change);

/* ---- restore.c ---- */

/* A client that follows the reading of a backup, and ends it when it leaves. Called with the call's arg. */
struct op_follow {
	void (*on_load)(void *arg); /* it is about to begin: what could be refused was not */
	void (*on_progress)(void *arg, const char *phase, uint64_t bytes, uint64_t total);
};

struct op_files {
	const struct api_from *from;	/* a sandbox, a snapshot (of any sandbox), or a backup … */
	bool of_its_own;		/* … or the snapshot must be one of call->id, by id or name */
	const struct op_follow *follow; /* or NULL: the reading of a backup goes on when the client leaves */
};
/* Gives call->id the files of a snapshot or a backup. */
struct operation *op_restore(const struct op_call *call, const struct op_files *files);
/* The same with those of a sandbox, a snapshot or a backup. */
struct operation *op_replace(const struct op_call *call, const struct op_files *files);

/* ---- mount.c ---- */

struct bucket_mount;
struct operation *op_mount(const struct op_call *call, const struct bucket_mount *mount);
struct operation *op_unmount(const struct op_call *call, const char *path);

/* ---- approve.c ---- */

struct approval_answer;
/* Takes the answer to the question `id`; call->id is not used. What it filled is in *ret when on_done comes. */
struct operation *op_approve(
	const struct op_call *call, const char *id, const struct approval_answer *answer, struct approval_answer *ret);

/* ---- tunnel.c ---- */

/* The result has the tunnel. */
struct operation *op_tunnel_open(const struct op_call *call, const struct tunnel_wish *wish);
struct operation *op_tunnel_close(const struct op_call *call, uint16_t port);

/* ---- expose.c ---- */

struct op_port_wish {
	uint16_t port;
	char token[PORT_TOKEN_MAX + 1]; /* "": any */
	char name[PORT_NAME_MAX + 1];	/* "": none */
};
/* The result has the port. */
struct operation *op_expose(const struct op_call *call, const struct op_port_wish *wish);
struct operation *op_unexpose(const struct op_call *call, uint16_t port);

/* ---- snapshot.c ---- */

/* `name` may be "". The result has the snapshot. */
struct operation *op_snapshot(const struct op_call *call, const char *name);
/* By id or name. */
struct operation *op_snapshot_drop(const struct op_call *call, struct str id);
