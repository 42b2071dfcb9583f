/*
 * watch_request.h - the target and the filter of a watch request. Shared by /api/watch (a stream) and /api/watch/check
 * (single questions).
 */
#pragma once

#include "agent/request/route.h"
#include "agent/watch/watch.h"

struct watch_filter {
	bool recursive;
	unsigned kinds;
	struct str *include, *exclude; /* each text on the heap */
	size_t include_n, exclude_n;
};

/* The watched directory, or one file in it. */
struct watch_target {
	char *root;  /* the directory, free of links */
	char *shown; /* the directory as the client named it, absolute: paths in events begin with it */
	char *named; /* the directory or file that the client named, absolute */
	char *only;  /* the file, or NULL */
};

/* Members recursive, events, include, exclude. The filter may be half filled on failure: free it. */
int watch_filter_read(const struct json *body, struct watch_filter *f, struct err *e);
void watch_filter_free(struct watch_filter *f);
/* Member path. It must be inside the workspace, as upstream requires (PERMISSION_DENIED). */
int watch_target_read(const struct agent_request *r, struct watch_target *ret, struct err *e);
void watch_target_free(struct watch_target *t);

/* Borrows from both. */
struct watch_options watch_options_of(const struct watch_filter *f, const struct watch_target *t);

/* Answers a request whose watch could not be read or started. */
void watch_fail(const struct agent_request *r, const struct err *e);

enum { WATCH_ID_LEN = 48 };
/* "watch-3-1763190000000": a number and the time. */
void watch_id_make(char ret[WATCH_ID_LEN]);
/* True when this process made the id, not a process before a restart. */
bool watch_id_is_ours(struct str id);

/* Makes room for one more watcher: ends the least recently used watcher that is only retained for a next check
 * (api_watch_check.c). */
void watch_make_room(void);
