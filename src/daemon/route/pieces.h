/*
 * pieces.h - an answer of the API that is written while it is sent, for lists whose length clients or boxes choose.
 *
 * A piece is about API_PIECE long, or looks at API_PIECE_ITEMS objects, and is a unit of work of the connection
 * (base/turn.h): a list of any length neither keeps the loop nor lies in memory as text. A client that stops reading
 * holds HTTP_OUT_HIGH and a piece.
 *
 * Ownership: from pieces_start on the exchange owns the object; `free` is called once, when it closes. What next()
 * walks over may change between two pieces.
 */
#pragma once

#include "base/json.h"
#include "daemon/route/request.h"

struct pieces {
	struct daemon_request *r;
	bool comma;
	/* Writes the next piece. False: that was all. */
	bool (*next)(struct pieces *p, struct json_writer *w);
	void (*free)(struct pieces *p);
};

/* Answers 200 with JSON. Set before: next, free. */
void pieces_start(struct pieces *p, struct daemon_request *r);

/* {"key":[…]}, or […] where key is NULL: write() is called for each id in their order. An object that has gone
 * meanwhile, or that a filter leaves out, is left out by write(). */
struct pieces_list {
	const char *key;
	void (*write)(struct json_writer *w, const struct daemon_request *r, void *arg, const char *id);
	void (*tail)(struct json_writer *w, const struct daemon_request *r); /* more members after it; may be NULL */
	void *arg;
	void (*free)(void *arg); /* may be NULL */
	struct buf ids;		 /* each with its NUL */
};
void pieces_list_add(struct pieces_list *l, const char *id);
/* Takes ids and arg. */
void pieces_list(struct daemon_request *r, struct pieces_list *l);
