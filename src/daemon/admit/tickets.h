/*
 * tickets.h - short-lived, one-time permissions for one sandbox and one purpose: POST /v1/tickets.
 *
 * A web page cannot put a header on a WebSocket or a download. A ticket stands in the URL instead (?ticket=…), for
 * TICKET_LIFE, and is used up by its first request. What it permits:
 *
 *	terminal	GET /v1/sandboxes/{id}/ws/pty, a WebSocket
 *	exec		GET /v1/sandboxes/{id}/ws/exec, a WebSocket
 *	watch		GET /v1/sandboxes/{id}/ws, the WebSocket transport
 *	download	GET /v1/sandboxes/{id}/api/file?path=…, exactly this path; the answer is an attachment
 *
 * Tickets live in memory: a restart of the daemon ends them.
 */
#pragma once

#include "daemon/limits.h"
#include "daemon/route/request.h"

struct tickets;

struct tickets *tickets_new(struct loop *l);
/* True, once: the request's ticket permits it. */
bool tickets_admit(struct tickets *t, struct daemon_request *r);
/* The token with this name is revoked: its tickets too. */
void tickets_forget_token(struct tickets *t, const char *name);
/* Of a query parameter: it is a ticket, and no box may see it. */
bool tickets_is_parameter(struct str parameter);
