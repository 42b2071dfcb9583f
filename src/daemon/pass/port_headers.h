/*
 * port_headers.h - rewrites the headers of a request on its way to an app in a box, and those of the response. Internal
 * to port_forward.c, whose header states the rules.
 */
#pragma once

#include "daemon/admit/tokens.h"
#include "http/proxy.h"

enum { PORT_HEADERS_ADDED = 4 };

/* For one attempt: zero it, fill the first part, free with port_headers_free when http_proxy has returned. */
struct port_headers {
	const struct tokens *tokens;
	bool trusted_peer;
	const char *proto;
	struct str host; /* as the client said it */
	struct str peer; /* the client's address, "" when it has none */

	struct http_header add[PORT_HEADERS_ADDED];
	size_t add_n;
	struct buf lines;   /* what `add` points into */
	struct buf cookies; /* rewritten ones */
};

/* Fills `add`. */
void port_headers_make(struct port_headers *h, const struct http_headers *request);
void port_headers_free(struct port_headers *h);

/* May it pass? *value may be replaced by bytes that live until port_headers_free. */
bool port_headers_request(struct port_headers *h, struct str name, struct str *value);
/* … by bytes that live in `made`, which is overwritten by the next call. */
bool port_headers_response(struct str name, struct str *value, struct buf *made);
