/*
 * pages.h - the answers of a preview when the app cannot answer: pages for browsers, JSON for other clients.
 *
 * A client that accepts text/html is a browser. The pages load nothing, run under a policy that allows only their own
 * style and script, and are never cached. All answers carry X-Atoll-Preview: by this header the script of the waiting
 * page tells the daemon's answers from the app's.
 *
 * Each function answers the request and counts it.
 */
#pragma once

#include "daemon/route/request.h"

/* 404, the same bytes for every reason: it knows nothing about the request but what it accepts. */
void page_not_found(struct daemon_request *r);
/* 410: the sandbox is stopped. */
void page_stale(struct daemon_request *r, uint16_t port);
/* 502: nothing listens. Looks again by itself, and reloads when something does. */
void page_silent(struct daemon_request *r, uint16_t port);
/* Anything else that went wrong on the way, with the error's status and sentence. */
void page_failed(struct daemon_request *r, uint16_t port, const struct err *e);

/* The waiting page's script asks with this header: such a request is no activity. */
bool page_is_poll(const struct http_request *q);
