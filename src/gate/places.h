/*
 * places.h - how many connections the gate has room for, and which box gives one up.
 *
 * A connection takes GATE_CONN_FILES descriptors: the client's, the server's, the pair that HTTP goes through, and two
 * spare ones, which pipes of bulk transfers and further attempts to dial share. Spare ones are counted over all
 * connections; where none is left, bytes are copied and attempts follow each other. So the descriptors suffice by
 * construction. Boxes, which have five each, and flows of datagrams take from the room for connections.
 *
 * One place in GATE_PLACES_RESERVE is kept. While only these are left,
 *
 *	a box that holds fewer than the largest holder	takes a place; the largest one loses its longest idle connection
 *	a box with fewer than GATE_PLACES_FEW		takes a place, as long as there is one
 *	any other box					waits in its listener's queue
 *
 * so boxes that want many end up with equal numbers, and a box that wants few always gets them. Everything is O(1) but
 * for the search of the largest box, which looks at boxes of the same power of two, at most GATE_HOLDERS_LOOK.
 */
#pragma once

#include "base/list.h"
#include "proto/gate.h"

struct gate;
struct gate_box;

enum { GATE_HOLDER_RANKS = 18 };

struct places {
	size_t files;				/* that this process may open */
	size_t flows;				/* of datagrams */
	struct list holders[GATE_HOLDER_RANKS]; /* gate_box.holder: by the power of two of what they hold */
	struct list waiting;			/* gate_box.waits: not accepted from for want of a place */
};

void places_init(struct gate *g, size_t files);
/* Connections that fit now. */
size_t places_max(const struct gate *g);
/* The number of connections of a box has changed from `before`. */
void places_held(struct gate_box *b, size_t before);
/* Whether the box may have one more, as far as the others are concerned. */
bool places_has_room(const struct gate_box *b);
/* Before a connection of the box is accepted: another box may lose one. */
void places_make_room(struct gate_box *b);
