/*
 * steer.h - every connection of a box, whatever address and port it names, ends at one socket of ours.
 *
 * A box has no route out. In its network namespace every address but 127/8 and ::1 is local, and a BPF program of the
 * type sk_lookup, attached to the namespace, picks the socket: connections to loopback and to the box's own address are
 * left alone, all others go to the listener in the map, whatever a program in the box has bound. An empty map, and what
 * no policy can allow, is SK_DROP: TCP sees ECONNREFUSED, UDP an ICMP error. getsockname() on an accepted socket is the
 * address that the program in the box wanted. What no policy can allow leaves a struct gate_drop in a ring buffer that
 * all slots share, so that somebody can write a log.
 *
 * sk_lookup attaches by a link, and detaches when the last reference to the link goes. A box without it would answer
 * itself for the internet. So link and maps are pinned in a bpffs, under names made from the slot's number:
 *
 *	<slot>-link   <slot>-socks (sockmap: STEER_TCP, STEER_UDP)   <slot>-flags (array of one u32)   drops (the ring)
 *
 * The kernel takes a socket out of the map when its last descriptor closes: the map is empty when the gate and the
 * warden are both gone, and boxes are refused until they are back.
 *
 * Calling sequence, while a slot is prepared:
 *
 *	steer_attach(dir, &(struct steer_slot){…}, netns)   anywhere
 *	setns(netns); steer_addresses(v6); s = STEER_NO_SOCKETS; steer_listen(v6, &s); setns(back)
 *	steer_put(dir, slot, &s)                       anywhere; again after a restart of the gate, with new sockets
 *	steer_forget(dir, slot)                        when the box is gone
 *
 * Raw bpf(2) and netlink, no allocation. `dir` is a directory of a bpffs. Needs CAP_SYS_ADMIN or CAP_BPF with
 * CAP_NET_ADMIN; steer_addresses and steer_listen need CAP_NET_ADMIN, CAP_NET_RAW and
 * CAP_NET_BIND_SERVICE over the namespace: those, or being its owner.
 */
#pragma once

#include <netinet/in.h>

#include "proto/errc.h"

/* What a box has besides loopback, and the address that its /etc/resolv.conf names. */
#define STEER_BOX4	0xc0000002u /* 192.0.0.2 */
#define STEER_RESOLVER4 0xc0000001u /* 192.0.0.1 */
#define STEER_BOX6                                                                                                     \
	{                                                                                                              \
		0xfd, 0x61, 0x74, 0x6f, 0x6c, 0x6c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2                                       \
	} /* fd61:746f:6c6c::2 */
#define STEER_RESOLVER6                                                                                                \
	{                                                                                                              \
		0xfd, 0x61, 0x74, 0x6f, 0x6c, 0x6c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1                                       \
	}

/* Our sockets must be bound somewhere. The steering makes the address unreachable, and no program binds this port. */
#define STEER_PORT 1

enum { STEER_BACKLOG = 4096, STEER_NAME = 24 };

/* Keys of the sockmap. */
enum { STEER_TCP, STEER_UDP, STEER_KEYS };

enum steer_flag {
	STEER_PRIVATE = 1,   /* private, link-local and carrier addresses go to the gate instead of being dropped */
	STEER_DATAGRAMS = 2, /* UDP to other ports than 53 goes to the gate as well */
};

/* Both listen for IPv4 and, where the kernel has it, IPv6. The raw ones send datagrams to programs in the box from any
 * address and port; they receive nothing. raw6 is -1 without IPv6. diag asks the kernel about sockets of the namespace.
 */
struct steer_sockets {
	int tcp, udp, raw4, diag, raw6;
};
#define STEER_NO_SOCKETS ((struct steer_sockets){-1, -1, -1, -1, -1})

/* Whether this kernel can do it (Linux 5.9): loads the program and forgets it. */
int steer_check(struct err *e);

/* Inside of the namespace, whose loopback interface is up: the box's addresses, and every other one declared local.
 * Without `v6`, IPv6 has no route at all: programs see ENETUNREACH at once and use IPv4. */
int steer_addresses(bool v6, struct err *e);
/* Inside of the namespace. Makes the sockets that are missing (-1) in `s`: non-blocking, the caller's. */
int steer_listen(bool v6, struct steer_sockets *s, struct err *e);
void steer_close(struct steer_sockets *s);

/* The ring of struct gate_drop: what is pinned, or a new one. The caller's. */
int steer_drops(int dir, struct err *e);

struct steer_slot {
	uint32_t number;
	uint64_t generation; /* stands in its drops */
	uint32_t flags;
};
/* Loads and attaches the program, pins it. The map is empty. Leaves no pin of the slot behind when it fails. */
int steer_attach(int dir, const struct steer_slot *slot, int netns, struct err *e);
/* True when the slot's link is pinned: a warden that was restarted need not attach again. */
bool steer_attached(int dir, uint32_t slot);
/* From now on new connections reach these. `s->tcp` or `s->udp` of -1 leaves what is there. */
int steer_put(int dir, uint32_t slot, const struct steer_sockets *s, struct err *e);
/* New connections are refused by the kernel. */
void steer_clear(int dir, uint32_t slot);
int steer_flags(int dir, uint32_t slot, uint32_t flags, struct err *e);
/* Removes the pins. The link goes with them. Does nothing where there are none. */
void steer_forget(int dir, uint32_t slot);

/* steer_prog.c: the program, for maps with these descriptors. Returns the number of instructions. */
struct bpf_insn;
enum { STEER_PROGRAM_MAX = 160 };
struct steer_maps {
	int socks, flags, drops;
};
/* Room for STEER_PROGRAM_MAX. */
size_t steer_program(const struct steer_maps *maps, const struct steer_slot *slot, struct bpf_insn *ret);
