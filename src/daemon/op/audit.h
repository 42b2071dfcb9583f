/*
 * audit.h - who changed what through the API: GET /v1/audit.
 *
 * One record for each request that changes something: its time, method, route, sandbox, status, and how the client
 * showed that it may (`by`): socket (the unix socket), token, console (a session of a browser), or nobody (a refused
 * sign-in); the name of the token, where it has one, also of a session or ticket that was made with it; the user at the
 * unix socket or the address of the TCP client; and the door, which is the protocol that it spoke. What goes
 * on inside a box (its commands, files and previews) is not recorded. The last AUDIT_MAX are kept in memory. Thread:
 * the loop's.
 */
#pragma once

#include "daemon/limits.h"
#include "daemon/route/request.h"

struct audit;

struct audit *audit_new(void);
/* When the request has been admitted or refused, before it is answered. */
void audit_begin(struct daemon_request *r);
/* The answer is known; 0: the client left before. */
void audit_end(const struct daemon_request *r, int status);
