/*
 * secret_in.h - one member of a secret's `in`: a place in the head of a request where its placeholder is replaced.
 *
 *	header:X-Api-Key   the value of this header, and inside of it Basic credentials
 *	query:key          the value of this parameter of the query
 *	path               the path
 *
 * A server that shows what it was sent gives the value away: the fewer places, the fewer servers do. Names of headers
 * are compared without case, those of parameters as they are after percent-decoding.
 *
 * atolld and the gate share this file: what the first accepts the second understands.
 */
#pragma once

#include "base/str.h"
#include "proto/limits.h"

enum secret_in_kind { SECRET_IN_HEADER, SECRET_IN_QUERY, SECRET_IN_PATH };

struct secret_in {
	enum secret_in_kind kind;
	struct str name; /* a part of the text; empty for the path */
};

bool secret_in_parse(struct str text, struct secret_in *ret);

/* The members of a secret that says nothing. */
extern const char *const secret_in_usual[];
extern const size_t secret_in_usual_n;
