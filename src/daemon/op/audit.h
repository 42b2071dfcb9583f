/*
 * audit.h - who changed what: GET /v1/audit.
 *
 * One record for each operation that a client asked for, and for each request that should change something and was
 * refused before an operation began: its time, method, route, sandbox and status, whichever door it came through. Of
 * the caller it has how it showed that it may (`by`): socket (a unix socket), token, console (a session of a browser),
 * ticket, or nobody (refused); the name of the token, where it has one, also of a session or ticket that was made with
 * it; the user at the unix socket or the address of the TCP client; and the door, the protocol that it spoke. What goes
 * on inside a box (its commands, files and previews) is not recorded. The last AUDIT_MAX are kept in memory. Thread:
 * the loop's.
 */
#pragma once

#include "base/json.h"
#include "daemon/admit/caller.h"
#include "daemon/limits.h"

struct daemon;
struct audit;

struct audit_entry {
	const char *method, *route;
	const char *sandbox; /* "": of none */
	int status;	     /* 0: the client left before */
};

struct audit *audit_new(void);
void audit_operation(struct daemon *d, const struct caller *c, const struct audit_entry *entry);
/* The members of an array, oldest first. */
void audit_write(const struct audit *a, struct json_writer *w);
