/*
 * pieces.h - an answer of the API that is written while it is sent, for lists whose length clients or boxes choose.
 *
 * A piece is about API_PIECE long, and each turn of the loop writes one: a list of any length neither keeps the loop
 * nor lies in memory as text. A client that stops reading holds one piece.
 *
 * Ownership: from pieces_start on the exchange owns the object; `free` is called once, when it closes. What next()
 * walks over may change between two pieces.
 */
#pragma once

#include "base/json.h"
#include "daemon/route/request.h"

struct pieces {
	struct daemon_request *r;
	struct loop_timer again;
	bool comma;
	/* Writes the next piece. False: that was all. */
	bool (*next)(struct pieces *p, struct json_writer *w);
	void (*free)(struct pieces *p);
};

/* Answers 200 with a JSON object. Set before: next, free. */
void pieces_start(struct pieces *p, struct daemon_request *r);

/* {"key":[…]}: write() is called for each id in their order. The ids are copied; an object that has gone meanwhile is
 * left out by write(). */
typedef void (*pieces_write)(struct json_writer *w, struct daemon *d, const char *id);
struct pieces_ids {
	char (*v)[SNAPSHOT_NAME_MAX + 1];
	size_t n;
};
void pieces_list(struct daemon_request *r, const char *key, struct pieces_ids ids, pieces_write write);
