/*
 * local.h - calls to the agent's own server, over a socket pair.
 *
 * /ws and /rpc turn each message into such a call: a route has one implementation, with its limits, errors and
 * back-pressure (docs/design/016-websocket-transport.md). Paths below /internal belong to atolld; callers refuse them.
 */
#pragma once

#include "http/client/client.h"

/* NULL: no socket pair could be made. The call's other failures come through its on_close. */
struct http_call *local_call(
	const struct http_call_options *o, const struct http_call_ops *ops, void *arg, struct err *e);
