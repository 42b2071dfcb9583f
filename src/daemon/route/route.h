/*
 * route.h - a row of the table of routes: one path of the API, who may ask for it, and for each method the body that
 * it takes and its handler. The table is src/daemon/routes.c.
 *
 * A path is a pattern: `{id}`, `{port}` and their like stand for one segment; a slash and two stars at its end stand
 * for nothing or anything below. paths.c knows what each parameter must be. Paths are compared as they were sent;
 * nothing is normalised (two slashes, "/./", "/../").
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/admit/caller.h"

struct daemon_request;

/* MAY_NOT_SAID is what a row has that says nothing: a test refuses it. */
enum route_may {
	MAY_NOT_SAID,
	MAY_ALL,     /* without a token: the handler looks at the caller, if at all */
	MAY_CALLERS, /* every caller that was admitted (admit/caller.h) */
	MAY_PEER,    /* users of the host at docker.sock: the door looks at the uid */
};

enum route_body {
	BODY_NONE,   /* none, or the handler takes it as it comes */
	BODY_WHOLE,  /* request.body, at most API_BODY_MAX */
	BODY_SECRET, /* the same, and its memory is overwritten afterwards */
};

/* Where a token may stand beside the headers. */
enum route_query_token {
	TOKEN_IN_HEADERS,
	TOKEN_IN_SOCKETS, /* in the query of a WebSocket: a browser can give it nothing but a URL */
	TOKEN_IN_DOOR,	  /* the same, and in that of the bridge's pages for people */
};

struct route_method {
	const char *names; /* "GET, HEAD"; NULL: any method */
	void (*handle)(struct daemon_request *r);
	enum route_body body;
	bool makes; /* the sandbox of the path, when there is none */
};

enum { ROUTE_METHODS_MAX = 4 };

struct route_row {
	const char *path;  /* NULL: no path leads here */
	const char *also;  /* further patterns, divided by blanks, or NULL */
	const char *label; /* in metrics, log and records; NULL: the path */
	enum route_may may;
	bool inside; /* requests into boxes, or requests of a door that has operations in it: no record of their own */
	bool app;    /* answered by an app in a box: cookies of the console do not count */
	enum route_query_token token;
	enum door door; /* 0: the API's own */
	struct route_method methods[ROUTE_METHODS_MAX];
};

/* The first rows, which no path finds. */
enum { ROUTE_UNKNOWN, ROUTE_PREVIEW, ROUTE_DOCKER };
enum { ROUTES_MAX = 80 };

extern const struct route_row route_table[];
extern const size_t route_rows;

static inline const char *route_label(const struct route_row *row)
{
	return row->label ? row->label : row->path;
}
