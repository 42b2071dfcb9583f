/*
 * paths.h - which row of the table a path finds, and the values of its parameters. Pure functions.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "daemon/limits.h"
#include "daemon/route/route.h"
#include "http/http.h"
#include "proto/errc.h"
#include "proto/limits.h"

struct api_match {
	const struct route_row *row;
	char id[BOX_ID_MAX + 1]; /* of a sandbox, percent-decoded and checked; of an approval */
	char secret[SECRET_NAME_MAX + 1];
	char token[TOKEN_NAME_MAX + 1];
	char volume[VOLUME_NAME_MAX + 1];
	char snapshot[SNAPSHOT_NAME_MAX + 1]; /* of a snapshot or a backup: its id, or part of no id */
	uint16_t port;			      /* 1 to 65535 */
	struct str session;		      /* of a console session: its id */
	struct str rest;		      /* behind the last parameter, still percent-encoded */
};

/* 0 with *ret filled, or -1: NOT_FOUND, or what is wrong with a parameter. ret->row is set in any case. */
int api_route_match(struct str path, struct api_match *ret, struct err *e);

/* The entry of the row for this method, or NULL. */
const struct route_method *api_route_method(const struct route_row *row, struct str method);
/* Appends the methods of a row, for Allow. */
void api_route_allow(const struct route_row *row, struct buf *ret);

/* Appends "?a=1&b=2" to a target, without the parameters ("a=1", still encoded) for which `drops` is true. `drops` may
 * be NULL. */
typedef bool (*api_query_drops)(const void *arg, struct str parameter);
void api_query_put(struct buf *target, struct str query, api_query_drops drops, const void *arg);
