/*
 * places.h - which connections a server keeps when it has too many. Internal to src/http.
 *
 * Every connection has a rank (server.h) and counts against the places of that rank. A connection on a public listener
 * begins as a stranger; the handler vouches for it with each request. All decisions are O(1): each rank lists its idle
 * connections in the order of their last use. Strangers are listed in the order of their last completed request, once
 * for the server and once for their address. So the first of a list is the slowest, and is closed first:
 *
 *	too many strangers	the first lingering one, else the first stranger
 *	too many of one address	the first stranger of that address
 *	too many linger		the first lingering one
 *	too many guests		the first idle guest, else the first that still sends its request, else none
 *	no place at all		a lingering one, strangers down to a remainder, then idle guests, known and local ones
 *
 * Rank and lists change here only. Invariant: a stranger is in `strangers` or in `lingering`; a guest that still
 * sends its request is in `senders`; no other connection is in any of them.
 */
#pragma once

#include "base/list.h"
#include "http/server/server.h"

struct http_conn;

/* Clients of one IPv4 address or one IPv6 /64. Owned by its connections: the last one frees it. */
struct place_address {
	unsigned char key[16];
	size_t conns, strangers;
	struct list list; /* of strangers: http_conn.same_address */
};

/* A new connection, already in s->conns. May end others. */
void place_take(struct http_conn *c);
/* It ends. */
void place_leave(struct http_conn *c);
/* The rank of the request that has begun. False: no place as a guest, nothing has changed. */
bool place_set_rank(struct http_conn *c, enum http_rank rank);
/* Its request has been sent whole. */
void place_body_ended(struct http_conn *c);
/* It has been answered for the last time and only waits until the client has read. */
void place_linger(struct http_conn *c);

/* Whether all places for a new connection are taken. */
bool place_is_full(const struct http_server *s, bool is_public);
/* The connection to close for a new one; NULL when none may be closed. */
struct http_conn *place_victim(struct http_server *s, bool is_public);
