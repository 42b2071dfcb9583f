/*
 * watch_request.h - what a request to watch asks for: where, and which changes count. Shared by /api/watch (a stream)
 * and /api/watch/check (questions).
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

/* What is watched: a directory, or one file in it. */
struct watch_target {
	char *root;  /* the directory, free of links */
	char *shown; /* the same as the client named it, absolute: what events begin with */
	char *named; /* what the client named, absolute: the directory or the file */
	char *only;  /* the file, or NULL */
};

/* Members recursive, events, include, exclude. The filter may be half filled on failure: free it. */
int watch_filter_read(const struct json *body, struct watch_filter *f, struct err *e);
void watch_filter_free(struct watch_filter *f);
/* Member path. It must lie in the workspace, as upstream has it (PERMISSION_DENIED). */
int watch_target_read(const struct agent_request *r, struct watch_target *ret, struct err *e);
void watch_target_free(struct watch_target *t);

/* Borrows from both. */
struct watch_options watch_options_of(const struct watch_filter *f, const struct watch_target *t);

/* Answers what could not be read or started. */
void watch_fail(const struct agent_request *r, const struct err *e);

enum { WATCH_ID_LEN = 48 };
/* "watch-3-1763190000000": a number and the time. */
void watch_id_make(char ret[WATCH_ID_LEN]);
/* Made by this process, not by one before a restart. */
bool watch_id_is_ours(struct str id);

/* Makes room for one more watcher: what is only kept for a next question (api_watch_check.c) gives way. */
void watch_make_room(void);
