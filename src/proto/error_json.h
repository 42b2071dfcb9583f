/*
 * error_json.h - the JSON text of an error, as every program answers it:
 *
 *	{"code":"FILE_NOT_FOUND","message":"…","context":{…},"operation":"file.read","httpStatus":404,
 *	 "timestamp":"2026-…","suggestion":"…"}
 *
 * "operation" and "suggestion" are left out when there is none. Some routes have other members, or another order, as
 * upstream has there: they list their members and write those that this file does not know in `put`.
 */
#pragma once

#include "base/json.h"
#include "proto/errc.h"

struct error_json {
	const struct err *err;
	const char *operation;	    /* NULL: none */
	const char *suggestion;	    /* NULL: the code's own */
	struct str context;	    /* a complete JSON object; empty: {} */
	int status;		    /* 0: the code's own */
	const char *const *members; /* their names in order, NULL at the end; NULL: as above */
	/* Asked first for each member: writes it and returns true, or leaves it to the usual way. NULL: never. */
	bool (*put)(struct json_writer *w, const char *member, const void *arg);
	const void *arg;
};

/* The HTTP status that goes with it. */
int error_json_status(const struct error_json *j);

/* Writes the whole object. */
void error_json(struct buf *out, const struct error_json *j);

/* Writes the members alone, into an object that the caller has begun and will end. */
void error_json_members(struct json_writer *w, const struct error_json *j);

/* Writes a context that says which field is wrong: {"validationErrors":[{"field","message","code"}]}. `code` may be
 * NULL. */
void error_json_field(struct buf *out, const struct err *e, const char *code);

/* The message of such an object, or the text itself. */
void error_json_message(struct str body, struct buf *ret);
