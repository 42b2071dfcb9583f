/*
 * port_heads.h - the headers of a request to a port and of its response, as they are remembered for a person to read.
 *
 * Text of lines "name: value", at most PORT_HEADS_MAX bytes; headers that do not fit are left out. A visitor's secrets
 * are not kept: values of cookies and credentials are replaced, and addresses lose their queries. Thread: the loop's.
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "daemon/limits.h"

struct port_heads {
	struct buf request, response;
	uint64_t first_us; /* from the request to the head of the response; 0: there was none */
};

/* Adds a header to one of the two texts. */
void port_heads_add(struct buf *to, struct str name, struct str value);
/* "requestHeaders" and "responseHeaders", unless they are empty. */
void port_heads_write(struct json_writer *w, const struct port_heads *h);
void port_heads_clear(struct port_heads *h);
