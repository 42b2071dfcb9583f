/*
 * sse.h - Server-Sent Events: a writer over an exchange, and an incremental reader for clients.
 *
 * Writer:	sse_begin(x); sse_send(x, NULL, STR_NULL, json); … sse_comment(x) now and then … http_respond_end(x)
 *
 * sse_* write whole events and return what http_respond_write does: false means stop until on_writable.
 * A data text with line breaks becomes several data: lines, so that the reader gets it back as it was (CR and CRLF
 * arrive as LF: the format has no way to carry them).
 *
 * Reader: feed it what on_body gives, in pieces of any size; it calls back for each complete event. It follows the
 * WHATWG algorithm: BOM, LF/CRLF/CR ends, comments, several data lines, id without NUL, retry in digits. An event
 * without data is not delivered. It holds one event, at most `max` bytes (SSE_EVENT_MAX by default).
 */
#pragma once

#include "http/limits.h"
#include "http/server/server.h"

/* 200, text/event-stream, no-cache, chunked. */
void sse_begin(struct http_exchange *x);
/* `event` and `id` are left out when NULL. They must hold no line break (false, nothing is written). */
bool sse_send(struct http_exchange *x, const char *event, struct str id, struct str data);
/* ": keep-alive" */
bool sse_comment(struct http_exchange *x);
/* The same into a buffer. */
bool sse_format(struct buf *out, const char *event, struct str id, struct str data);

struct sse_event {
	struct str event; /* "message" when not named */
	struct str data;
	struct str id; /* the last one seen, also from earlier events */
};

/* Members are the reader's own, but for what init sets and retry_ms. */
struct sse_reader {
	void (*on_event)(void *arg, const struct sse_event *ev);
	void *arg;
	size_t max;	   /* may be changed after init */
	uint64_t retry_ms; /* last retry: field, 0 when none came */
	struct buf line;   /* the part of a line that has come */
	struct buf data, event, id;
	bool skip_lf, begun, has_data, failed;
};

void sse_reader_init(struct sse_reader *r, void (*on_event)(void *arg, const struct sse_event *ev), void *arg);
void sse_reader_free(struct sse_reader *r);
/* -1 (PAYLOAD_TOO_LARGE) when an event or a line is longer than max; then every call fails. */
int sse_feed(struct sse_reader *r, struct str bytes, struct err *e);
