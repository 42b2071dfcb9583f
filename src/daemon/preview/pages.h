/*
 * pages.h - what a preview shows when the app cannot: pages for browsers, JSON for everyone else.
 *
 * A browser is who accepts text/html. The pages need nothing from elsewhere, run under a policy that allows their own
 * style and script and nothing else, and are never cached. All carry X-Atoll-Preview, by which the waiting page's
 * script tells our answers from the app's.
 *
 * Each answers the request and counts it.
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
