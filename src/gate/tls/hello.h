/*
 * hello.h - what a TLS client says first: the server's name, and whether it hides another one.
 *
 * Reads the client hello from bytes that were peeked at, from the first byte of the connection, as far as they have
 * come. The hello may be cut over any number of records. Nothing is kept: call again with more. Bounded by
 * GATE_HELLO_MAX; every length is checked against what encloses it. A hello with two names, a name that is no host
 * name, or two extensions of a kind that counts is refused: two readers could disagree.
 */
#pragma once

#include "base/str.h"
#include "gate/limits.h"

enum hello_result {
	HELLO_MORE,    /* so far it is TLS; more bytes are needed */
	HELLO_NOT_TLS, /* the first bytes are something else */
	HELLO_BAD,     /* TLS, and malformed or too long */
	HELLO_DONE,
};

struct hello {
	char name[NET_NAME_MAX + 1]; /* lower case; "" when there is no SNI */
	bool ech;		     /* encrypted client hello: `name` is the outer one */
	bool http1, h2;		     /* offered by ALPN */
};

enum hello_result hello_read(struct str in, struct hello *ret);
/* After HELLO_MORE: how many bytes there have to be before another look is worth it, by the length that the last record
 * announces. */
size_t hello_wants(struct str in);
