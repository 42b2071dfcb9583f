/*
 * reply.h - a JSON answer that holds the output of commands, streamed in constant memory.
 *
 * The answer is a row of parts: literal JSON text and spools, each spool becoming one JSON string (UTF-8 with U+FFFD
 * for what is malformed, or base64). Short answers go out whole with a Content-Length; long ones chunked, one piece at
 * a time, as fast as the client reads.
 *
 *	struct reply *p = reply_new();
 *	json writer over reply_text(p): {"success":true,"stdout":
 *	reply_add_spool(p, &spool, false);
 *	json text: ,"exitCode":0}
 *	reply_send(p, x, 200);
 */
#pragma once

#include "agent/proc/spool.h"
#include "http/server/server.h"

struct reply;

struct reply *reply_new(void);
void reply_free(struct reply *p); /* only when not sent */
/* Where text goes until the next spool. */
struct buf *reply_text(struct reply *p);
/* Takes the spool's content; the caller's becomes empty. At most REPLY_SPOOLS_MAX. */
void reply_add_spool(struct reply *p, struct spool *s, bool base64);
enum { REPLY_SPOOLS_MAX = 4 };
/* Takes p and the exchange (its ops and arg are set here). */
void reply_send(struct reply *p, struct http_exchange *x, int status);
