/*
 * fields.h - the members that a JSON request may have, for each route; what people write instead of them.
 *
 * A member that is known under another name is renamed ("cmd" is "command"), unless the right one is there too. Both
 * cases, and members that mean nothing, are told in `warnings` of the answer: clients of other versions may send more
 * than we know, so it is never an error. Pure but for the exchange.
 */
#pragma once

#include "agent/request/route.h"

/* `body` is an object that nobody else reads yet. */
void fields_check(struct http_exchange *x, const struct route *route, struct json *body);
/*
 * For a route that reads its body itself: the answer tells that `name` was taken as `right`, or is not known (NULL).
 */
void fields_warn(struct http_exchange *x, struct str name, const char *right);
