/*
 * api.h - the routes of one box (/v1/sandboxes/{id}/api/…): whole answers, event streams, files of any size.
 *
 * A route makes the box if it does not exist. Verbs that only read call api_need_box first, so that a misspelt name is
 * an error and not a new box.
 */
#pragma once

#include "cli/client.h"

/* 0 when the box exists. */
int api_need_box(struct client *cl, const char *id, struct err *e);
/* client_open, and api_need_box on it. */
int api_open_box(struct cli *c, struct client *ret, const char *id, struct err *e);

struct api_request {
	const char *id, *method;
	const char *rest; /* of the path, as in "/api/process/list" */
	struct str body;  /* JSON, or empty */
};

/* One request and its whole answer; an answer other than 2xx is an error. */
int api_call(struct client *cl, const struct api_request *rq, struct buf *ret, struct err *e);
/* The same, parsed. NULL with *e. With --json the answer is also printed, unchanged. */
struct json_doc *api_ask(
	struct client *cl, const char *id, const char *method, const char *rest, struct str body, struct err *e);

/* The same for a verb that asks once, of any path: client_once, parsed. */
struct json_doc *api_once(struct cli *c, const char *method, const char *path, struct str body, struct err *e);

/* A member of an answer, "" when it is missing. */
struct str api_text(const struct json *object, const char *key);
/* Appends a name and a value to the query: "?path=%2Ftmp", with '&' when the path already has a query. */
void api_query(struct buf *path, const char *name, const char *value);
/* Writes "K=V" words as member `key`, an object. Writes nothing when there are no words. */
void api_write_env(struct json_writer *w, const char *key, const char *const *items, size_t n);

/*
 * An event stream. Each event is parsed and passed to on_event, which returns 0 to go on, 1 to end the stream, -1 with
 * *e. The callback may block; the stream then waits.
 */
struct api_follow {
	const char *id, *method, *rest; /* without an id, `rest` is the whole path */
	struct str body;
	int (*on_event)(void *arg, const struct json *event, struct str text, struct err *e);
	void *arg;
	char last_id[32];	/* in and out: id of the last event; the stream continues after it */
	int status;		/* out: status of the answer, 0 when none came */
	bool broken;		/* out: after -1: the connection failed or ended, not the request */
	struct http_call *call; /* while it runs, for http_call_cancel */
};
int api_follow(struct client *cl, struct api_follow *f, struct err *e);

/* The body of an answer in pieces, as it comes; the callback may block, -1 with *e stops. */
typedef int (*api_on_piece)(void *arg, struct str piece, struct err *e);
int api_fetch(struct client *cl, const struct api_request *rq, api_on_piece on_piece, void *arg, struct err *e);

/* Sends a regular file from its present offset to its end as the body of PUT. *ret gets the answer. */
int api_send(struct client *cl, const char *id, const char *rest, int fd, struct buf *ret, struct err *e);
