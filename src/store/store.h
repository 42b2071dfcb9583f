/*
 * store.h - the daemon's state that survives a restart: one row a sandbox, one an exposed port, and
 * items of other kinds (item.h), in SQLite.
 *
 * Two threads: the caller's loop thread, and the store's own, which alone touches SQLite once store_start() has run.
 * Changes are queued with a copy of their data, written in the order they were queued (all that has gathered is one
 * transaction) and answered on the loop thread. A change that fails leaves nothing of itself in the database; its
 * neighbours in the same transaction are not harmed. A commit is a write without fsync (WAL, synchronous=NORMAL): a loss
 * of power may take the last ones back. A change that says `durable` is on the disk before it is answered, and so are
 * all changes before it.
 *
 * The store does not know the meaning of a state: it keeps texts and numbers. Rows are checked when they are read:
 * a file that was damaged or made by a newer version is refused with a sentence.
 */
#pragma once

#include "base/loop.h"
#include "proto/errc.h"
#include "proto/limits.h"
#include "proto/warden.h"
#include "store/limits.h"

enum { STORE_STATE_MAX = 15, STORE_REASON_MAX = 239 };

struct store_row {
	char id[BOX_ID_MAX + 1];
	char image[BOX_IMAGE_NAME_MAX + 1];
	struct box_limits limits;
	int64_t created_ms; /* wall clock */
	char state[STORE_STATE_MAX + 1];
	char reason[STORE_REASON_MAX + 1]; /* why it is stopped, or "" */
	uint64_t sleep_after_ms;	   /* 0: never sleeps */
	bool keep_alive;
	bool filling; /* its files are being made from a snapshot; the next store_set_state ends it */
	bool durable; /* of store_put: the answer waits for the disk; not kept */
	/* JSON objects of texts, borrowed: the store copies them (store_put) or they live during the callback
	 * (store_load). */
	const char *env, *labels;
	const char *network, *settings; /* the same, of any values */
};

struct store_port {
	char id[BOX_ID_MAX + 1];
	uint16_t port;
	int64_t box_ms;	    /* created_ms of the sandbox that it belongs to */
	int64_t created_ms; /* wall clock */
	char token[PORT_TOKEN_MAX + 1];
	char name[PORT_NAME_MAX + 1]; /* or "" */
};

struct store;

/* Opens or makes `dir`/state.db, checks it and brings it to this version's schema. */
int store_open(const char *dir, struct store **ret, struct err *e);
/* Every row, before store_start. The callback returns 0, or -1 with *e to stop. */
typedef int (*store_on_row)(void *arg, const struct store_row *row, struct err *e);
int store_load(struct store *s, store_on_row on_row, void *arg, struct err *e);
/* The same for the exposed ports of sandboxes that have a row. */
typedef int (*store_on_port)(void *arg, const struct store_port *port, struct err *e);
int store_load_ports(struct store *s, store_on_port on_port, void *arg, struct err *e);
/* Starts the writing thread; answers come through `l`. */
int store_start(struct store *s, struct loop *l, struct err *e);
/* Writes the queued changes, ends the thread and frees. Callbacks that have not run are dropped. */
void store_close(struct store *s);

/* Called on the loop thread, never from inside the call that queued the change. e is NULL on success. */
typedef void (*store_on_done)(void *arg, const struct err *e);

/* on_done may be NULL: then the change may lie for STORE_SOON_MS so that others can join it, and a failure is
 * logged. */
void store_put(struct store *s, const struct store_row *row, store_on_done on_done, void *arg);
void store_set_state(struct store *s, const char *id, const char *state, const char *reason, bool durable,
	store_on_done on_done, void *arg);
/* The sandbox with its ports. Deleting a row that is not there is a success. */
void store_delete(struct store *s, const char *id, store_on_done on_done, void *arg);
void store_port_put(struct store *s, const struct store_port *p, store_on_done on_done, void *arg);
void store_port_delete(struct store *s, const char *id, uint16_t port, store_on_done on_done, void *arg);
