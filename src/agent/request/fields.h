/*
 * fields.h - the members of a JSON request that its route does not have (struct route); what people write instead.
 *
 * A member that is known under another name is renamed ("cmd" is "command"), unless the right one is there too. Both
 * cases, and members that mean nothing, are told in `warnings` of the answer: clients of other versions may send more
 * than we know, so it is never an error. Pure but for the exchange.
 */
#pragma once

#include "agent/limits.h"
#include "agent/request/route.h"

/* `body` is an object that nobody else reads yet. */
void fields_check(struct http_exchange *x, const struct route *route, struct json *body);

/* A member that a route, which reads its body itself, found under a name that is not its own. */
struct field_found {
	char name[FIELD_SHOWN_MAX + 1]; /* cut there */
	const char *right;		/* the field that it was taken as; NULL: it is not known */
};
void fields_warn(struct http_exchange *x, const struct field_found *found, size_t n);
