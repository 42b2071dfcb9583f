/*
 * impl.h - the inside of a session. Internal to src/capnweb.
 *
 * A hook is one end of anything that an id can mean: a result, a promise, an object, a pipe. It is counted. A hook that
 * is not PENDING never changes but for SAME, which forwards to another hook. References never form a cycle: a new hook
 * refers to older ones only, and hook_become refuses a value that leads back to the promise that it is for.
 *
 * A payload is a value with the references in it. It never changes once made. It is a part of a frame (doc, root) or a
 * text that the application wrote; in such a text a reference is ["$ref",N], which no frame can contain, because an
 * unknown special value ends the session.
 *
 * Who waits for a hook is a waiter in its list. When the hook settles, its waiters go to the session's list `ready` and
 * run from cw_run: no chain of promises makes a deep stack.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "capnweb/capnweb.h"
#include "capnweb/limits.h"

struct doc {
	unsigned refs;
	struct capnweb *s;
	size_t cost;
	struct json_doc *json;
};

enum ref_kind { REF_STUB, REF_PROMISE, REF_PIPE, REF_STREAM };

struct capnweb_ref {
	enum ref_kind kind;
	const struct json *node; /* in a document … */
	size_t at, len;		 /* … or in a text */
	struct cw_hook *hook;	 /* STUB, PROMISE, PIPE */
	struct capnweb_stream *stream;
};

struct payload {
	unsigned refs;
	struct capnweb *s;	 /* of a text */
	struct doc *doc;	 /* of a text: when it was parsed */
	const struct json *root; /* likewise */
	struct buf text;
	struct capnweb_ref *ref;
	size_t n, promises;
	bool list;	/* the root is a list of arguments, not an expression */
	bool too_large; /* a text that could not be parsed */
};

enum hook_kind { HOOK_PENDING, HOOK_VALUE, HOOK_ERROR, HOOK_OBJECT, HOOK_IMPORT, HOOK_PIPE, HOOK_SAME };

struct cw_hook {
	struct capnweb *s;
	unsigned refs;
	enum hook_kind kind;
	uint64_t mark;		 /* the walk that has seen it last */
	struct payload *payload; /* VALUE, ERROR */
	const struct json *root; /* VALUE: a part of the payload; NULL: all of it */
	struct object *object;	 /* OBJECT */
	char *prefix;		 /* OBJECT: path below it, or NULL */
	struct imported *import; /* IMPORT, PENDING */
	struct capnweb_pipe *pipe;
	struct cw_hook *same;
	struct list waiters;
};

/* What the application exported; several hooks may mean it. */
struct object {
	unsigned refs;
	void *arg; /* NULL: the main object */
};

struct waiter {
	struct list node;
	void (*run)(struct waiter *w);
};

struct exported {
	int64_t id;
	struct cw_hook *hook;
	uint64_t refs;
	bool pulled, auto_release;
	struct capnweb *s;
	struct waiter w;
};

struct imported {
	int64_t id;
	uint64_t remote;      /* references that we owe the peer a release for */
	struct cw_hook *hook; /* not counted: it lets go of us */
	capnweb_on_reply on_reply;
	void *arg;
	struct capnweb_stream *stream; /* this is the answer to a write of it, or its pipe */
	size_t bytes;
	bool ack, last;
};

struct capnweb {
	const struct capnweb_ops *ops;
	void *arg;
	struct map exports, imports;
	struct object main;
	struct list ready, calls, lates, streams, pipes;
	size_t hooks, calls_n;
	uint64_t walks;	      /* that marked hooks */
	unsigned too_large;   /* values that could not be written with their promises replaced */
	size_t held, answers; /* bytes of documents, and of texts */
	int64_t next_export, next_import, next_negative;
	bool ended, full, running;
	struct buf out;	 /* an answer that is being written */
	struct buf call; /* a call of the peer that is being written */
};

struct capnweb_call {
	struct list node;
	struct capnweb *s;
	struct cw_hook *result, *args;
	struct object *object;
	char method[CAPNWEB_METHOD_MAX + 1];
	struct waiter w;
	bool told;  /* the application knows it */
	bool *gone; /* while on_call runs: set when the call was answered */
};

/* Where an expression finds the ids that it names. */
struct scope {
	struct capnweb *s;
	struct doc *doc;
	bool map; /* of a mapper: the ids are variables and captures */
	struct cw_hook **vars, **caps;
	size_t vars_n, caps_n;
	size_t *budget; /* instructions that may still be evaluated */
	char error[CAPNWEB_ERROR_MAX];
};

/* value.c */
struct doc *doc_new(struct capnweb *s, struct json_doc *json, size_t bytes);
struct doc *doc_ref(struct doc *d);
void doc_unref(struct doc *d);
struct payload *payload_of_text(struct capnweb *s, struct buf *text, struct capnweb_ref *refs, size_t n);
struct payload *payload_ref(struct payload *p);
void payload_unref(struct payload *p);
/* Parses a text that was not read so far. False: it is too large for that. */
bool payload_read(struct payload *p, struct capnweb *s);
struct capnweb_ref *payload_find(const struct payload *p, const struct json *node);
bool key_is_hidden(struct str key);
void cw_put_value(struct capnweb *s, struct buf *out, const struct cw_hook *h);
bool node_is(const struct json *node, const char *special);
bool node_id(const struct json *node, int64_t *ret);

/* hook.c */
struct cw_hook *hook_new(struct capnweb *s, enum hook_kind kind);
struct cw_hook *hook_ref(struct cw_hook *h);
void hook_unref(struct cw_hook *h);
struct cw_hook *hook_follow(struct cw_hook *h);
struct cw_hook *hook_value(struct capnweb *s, struct payload *p, const struct json *root); /* takes p */
struct cw_hook *hook_error(struct capnweb *s, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Takes h. When h leads back to `pending`, the promise becomes an error instead. */
void hook_become(struct cw_hook *pending, struct cw_hook *h);
/* The hook that stands for the whole value, with no promise left in it. NULL: w waits. */
struct cw_hook *hook_settle(struct cw_hook *h, struct waiter *w);
void hook_wake(struct cw_hook *h);
/* The node under a path of a value. *ret_ref is set when a reference is in the way: then *path is what remains. */
const struct json *hook_walk(
	struct cw_hook *h, const struct json **path, struct capnweb_ref **ret_ref, struct cw_hook **ret_error);
struct object *object_ref(struct object *o);
void object_unref(struct capnweb *s, struct object *o);

/* call.c: all return a counted hook; args are taken. */
struct cw_hook *hook_call(struct cw_hook *h, struct doc *doc, const struct json *path, struct payload *args);
struct cw_hook *hook_get(struct cw_hook *h, struct doc *doc, const struct json *path);
void call_free(struct capnweb_call *c);
struct late;
void late_free_all(struct capnweb *s);

/* remap.c */
struct mapping {
	struct doc *doc;
	const struct json *path, *code;
	struct cw_hook **caps;
	size_t caps_n;
	size_t *budget;
};
struct cw_hook *hook_map(struct cw_hook *h, const struct mapping *m); /* the captures stay the caller's */
/* call.c: the same once h has settled. */
struct cw_hook *late_map(struct cw_hook *h, const struct mapping *m);

/* eval.c: NULL when the expression is not valid; scope->error says why. */
struct payload *eval(struct scope *scope, const struct json *node);

/* pipe.c */
struct cw_hook *pipe_call(struct cw_hook *h, const struct json *path, struct payload *args);
struct capnweb_pipe *pipe_new(struct capnweb *s);
/* For the application; NULL when it has it already. */
struct capnweb_pipe *pipe_take(struct capnweb_pipe *p);
/* The peer has let go of the writable end. */
void pipe_drop(struct capnweb_pipe *p);

/* The session is over: tells the application about the pipes that it still has. */
void pipe_end_all(struct capnweb *s);

/* stream.c */
void stream_open(struct capnweb_stream *st, int64_t id);
void stream_acked(struct capnweb_stream *st, const struct imported *i, bool ok);
/* Tells streams that they may write again: after frames of the peer, and when the transport takes more. */
void stream_wake_all(struct capnweb *s);
void stream_cancel_all(struct capnweb *s);
/* After the answers that hold streams are gone. */
void stream_free_all(struct capnweb *s);
void stream_dropped(struct capnweb_stream *st);

/* session.c */
void cw_send(struct capnweb *s, struct buf *frame);
void cw_end(struct capnweb *s, const char *reason, bool tell);
void cw_run(struct capnweb *s);
struct exported *cw_export(struct capnweb *s, int64_t id);
/* Under the next id of the peer; takes h. */
struct exported *cw_export_next(struct capnweb *s, struct cw_hook *h);
void cw_export_free(struct exported *e);
void cw_pull(struct exported *e);
int64_t cw_export_hook(struct capnweb *s, struct cw_hook *h); /* takes a reference of its own */
struct imported *cw_import(struct capnweb *s, int64_t id);
struct imported *cw_import_new(struct capnweb *s, int64_t id);
void cw_import_gone(struct capnweb *s, struct imported *i);
struct cw_hook *cw_import_stub(struct capnweb *s, int64_t id);
struct cw_hook *cw_import_promise(struct capnweb *s, int64_t id);
/* A call of the peer: ["push" or "stream",["pipeline",id,path,[args]]]. The caller adds the arguments to the buffer. It
 * is kept while there are streams: fresh memory for each piece costs more than the bytes in it. */
struct buf *cw_call_begin(struct capnweb *s, const char *verb, int64_t id, const char *path);
struct imported *cw_call_send(struct capnweb *s);
