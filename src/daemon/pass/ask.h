/*
 * ask.h - a question to the agent of a sandbox, for doors, which have no exchange of HTTP to pass on.
 *
 * It takes the way of a request to /v1/sandboxes/{id}/api: the sandbox is made, woken or started first, and a box whose
 * agent does not listen is waited for once. It is asked as the caller, and reaches what the caller sees.
 *
 * A question lives until its on_close has returned, which comes exactly once, last, and not from inside a function of
 * this header. Order: on_head → on_body* → on_close(arg, NULL), or on_close with an error at any point: one of an
 * operation when nothing was sent, CONTAINER_LOST when the outcome is unknown. Backpressure as in http/client. Thread:
 * the loop's.
 */
#pragma once

#include "daemon/admit/caller.h"
#include "daemon/core/sandbox.h"

struct pass_question;

struct pass_ops {
	void (*on_head)(void *arg, const struct http_response *r); /* r lives until on_close */
	void (*on_body)(void *arg, struct str chunk);
	void (*on_writable)(void *arg); /* NULL: it writes no body piece by piece */
	void (*on_close)(void *arg, const struct err *e);
};

struct pass_what {
	struct daemon *daemon;
	const struct caller *caller; /* copied */
	const char *id;		     /* of the sandbox; it has been checked */
	const char *method;	     /* static */
	struct str target;	     /* "/api/execute" */
	struct str body;	     /* JSON, the whole; p == NULL with `stream` */
	bool stream;		     /* the body comes by pass_write, and ends with pass_end */
	uint32_t head_ms;	     /* 0: no limit */
	const struct pass_ops *ops;
	void *arg;
};

struct pass_question *pass_ask(const struct pass_what *what);
/* False: no more until on_writable. */
bool pass_write(struct pass_question *q, struct str bytes);
void pass_end(struct pass_question *q);
void pass_pause(struct pass_question *q);
void pass_resume(struct pass_question *q);
/* on_close follows from the loop, and no other callback. */
void pass_cancel(struct pass_question *q);

/* ---- whole answers ---- */

/* err.code is 0 when the agent's answer is no error; else why there is none, or the code and message of the agent's
 * error. status is 0 when there was no answer. */
struct pass_reply {
	int status;
	struct str body;
	struct err err;
};
typedef void (*pass_on_reply)(void *arg, const struct pass_reply *reply);
/* what->ops is not used; an answer of more than `max` bytes is an error. */
void pass_ask_whole(const struct pass_what *what, size_t max, pass_on_reply on_reply);
/* Fills err of a reply from its status and body. */
void pass_reply_read(struct pass_reply *reply);
/* What a failed call means for the client: CONTAINER_UNAVAILABLE, BAD_GATEWAY or CONTAINER_LOST. */
void pass_explain(const struct sandbox *s, const struct http_failure *f, struct err *e);
