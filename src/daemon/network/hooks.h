/*
 * hooks.h - outbound handlers: requests of a box that a client of ours answers in the place of a server.
 *
 * A sandbox's setting `outbound` names the hosts: {"http": […], "https": […]}. The gate hands their requests over at
 * the hook socket; each goes on to the client that holds the sandbox's hook, a WebSocket at GET /v1/sandboxes/{id}/hook.
 * The last client that connected holds it. While nobody does, requests wait HOOK_WAIT, then they are answered with 520.
 *
 * The WebSocket carries many requests at once, as binary messages: a byte that says what, four bytes (big-endian) that
 * say which request, and the rest.
 *
 *	daemon → client    1 request {"method","url","headers":[[name, value]…],"body":bool}
 *	                   2 bytes of its body   3 end of the body   4 it was given up
 *	client → daemon    5 answer {"status","headers"}   6 bytes of its body   7 end   9 failed: text
 *	both               8 credit: four bytes, so many more bytes of the body may be sent
 *	both               10 a message of a WebSocket: a byte (1 text, 0 binary), the message
 *	both               11 its end: two bytes of code, the reason
 *
 * An answer 101 to an upgrade request makes it a WebSocket, of messages up to HOOK_MESSAGE_MAX; 10 and 11 stand in the
 * place of bodies then. Bodies and messages are limited by credit: HOOK_WINDOW bytes in each direction, and what the
 * other side has granted. So memory is bounded whatever side is slow. Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "proto/errc.h"

struct daemon;
struct daemon_request;
struct http_exchange;
struct sandbox;
struct hook;

/* The setting `outbound` (settings.c). */
int hooks_check_setting(const struct json *value, struct err *e);
/* Whether it has hosts of HTTPS. */
bool hooks_have_https(const char *settings);
/* "http": […], "https": […] */
void hooks_write(const struct sandbox *s, struct json_writer *w);

/* A request that came by the hook socket. */
void hooks_request(struct daemon *d, struct http_exchange *x);
/* GET …/hook: this client holds the hook from now on. */
void handle_hook(struct daemon_request *r);
/* The token with this name is revoked: its holders lose their hooks. */
void hooks_forget_token(struct daemon *d, const char *name);
/* The sandbox is gone. NULL is fine. */
void hooks_free(struct hook *h);
