/*
 * gate.h - the records from the warden to the gate: AF_UNIX SEQPACKET, one fixed-size record a packet.
 *
 * The warden connects to $ATOLL_RUN/gate-w.sock; the gate asks the kernel that it is root. Both are built from one tree
 * and run on one machine, so the struct is sent as it lies in memory; GATE_MAGIC changes with the layout.
 *
 * GATE_BOX carries descriptors in the order of struct steer_sockets: the TCP listener, the UDP socket, the raw IPv4
 * socket, the sock_diag one and, where there is IPv6, the raw IPv6 one. When a connection is new the warden asks about
 * every slot that it has (GATE_HAVE), because either side may have been restarted, and ends with GATE_SYNC.
 */
#pragma once

#include "base/base.h"
#include "proto/limits.h"

#define GATE_MAGIC 0x41544732u /* "ATG2" */

enum gate_op {
	GATE_BOX = 1, /* slot, generation, descriptors; an id when it has one */
	GATE_NAME,    /* slot, generation, id */
	GATE_GONE,    /* slot, generation */
	GATE_HAVE,    /* slot, generation, id: does the gate have its sockets? GATE_NEED comes back when not */
	GATE_NEED,    /* from the gate: slot, generation */
	GATE_SYNC,    /* slots that were not told of since the connection began are gone */
	GATE_DROPS,   /* a descriptor: the ring of struct gate_drop; first on each connection */
};

struct gate_record {
	uint32_t magic;
	uint32_t op;
	uint32_t slot;
	uint32_t padding;
	uint64_t generation;
	char id[BOX_ID_MAX + 1]; /* "": a prepared slot without a name */
};

enum { GATE_FDS_MAX = 5 };

/* A connection takes so many descriptors of the gate, of which so many may be lent to others (gate/places.h). */
enum { GATE_CONN_FILES = 6, GATE_CONN_SPARE = 2 };

/* Connections that fit where the gate may open `files` and `others` are for something else. */
static inline size_t gate_connections(size_t files, size_t others)
{
	size_t own = GATE_FILES_RESERVE + others, n = files > own ? (files - own) / GATE_CONN_FILES : 0;
	return n < GATE_CONNS_MIN ? GATE_CONNS_MIN : n < GATE_CONNS_MAX ? n : GATE_CONNS_MAX;
}

/* What the kernel refused in a box (cage/steer.h), through a BPF ring buffer that the gate reads: one for all boxes. */
struct gate_drop {
	uint64_t generation;
	uint32_t slot;
	uint16_t port;
	uint16_t protocol;   /* IPPROTO_TCP or IPPROTO_UDP */
	uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
};

enum { GATE_DROPS_RING = 1 << 20 }; /* bytes: some 26,000 records; what comes while it is full is not told of */
