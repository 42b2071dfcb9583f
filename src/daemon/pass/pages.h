/*
 * pages.h - the answers of a preview whose app cannot answer: pages for browsers, JSON for other clients.
 *
 * A client that accepts text/html counts as a browser. A page loads nothing from other servers, its policy allows its
 * own style and script only, and it is never cached. Every answer has the header X-Atoll-Preview: the script of the
 * waiting page tells our answers from the app's by it.
 *
 * Each function answers the request and counts it.
 */
#pragma once

#include "daemon/route/request.h"

/* 404, the same bytes for every reason, so that it tells nothing about which sandboxes and ports exist. */
void page_not_found(struct daemon_request *r);
/* 410: the sandbox is stopped. */
void page_stale(struct daemon_request *r, uint16_t port);
/* 502: nothing listens on the port. The page asks again by itself and reloads when a server answers. */
void page_silent(struct daemon_request *r, uint16_t port);
/* Any other failure on the way to the app, with the error's status and message. */
void page_failed(struct daemon_request *r, uint16_t port, const struct err *e);

/* True for the requests of the waiting page's script. They do not keep a sandbox awake. */
bool page_is_poll(const struct http_request *q);
