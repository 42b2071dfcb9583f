/*
 * network.h - the way out of a box: steering its connections (cage/steer.h), and telling the gate (proto/gate.h).
 *
 * Each slot is steered while it is prepared. Its listener goes to the gate at once, its name when it becomes a box; the
 * end of a box is told as well. The warden keeps descriptors of the listener and of the UDP
 * socket, so that connections and questions wait while the gate is away. When the gate's connection is new, it is asked
 * slot by slot whether it still has the sockets (GATE_HAVE); what it needs is made again. Nothing here waits: records
 * go out as the socket takes them.
 *
 * A host without sk_lookup, or without a bpffs, has boxes without a network; that is logged once and told to atolld.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "cage/steer.h"

struct warden;
struct warden_slot;

/* What a slot has of it. */
struct slot_network {
	bool steered;
	uint32_t due; /* enum network_due */
	struct steer_sockets sockets;
	struct list node; /* of network.due */
};

enum network_due { NETWORK_HAVE = 1, NETWORK_BOX = 2, NETWORK_NAME = 4 };
enum { NETWORK_GONE_MAX = 256, NETWORK_RETRY = 100 };

struct network {
	int bpf; /* directory of the bpffs; -1: no network */
	int host_mounts;
	char mounted[256]; /* where the bpffs lies, as the host sees it */
	bool v6;
	bool sync; /* to be said when nothing is due any more */
	struct loop_io io;
	struct loop_timer retry;
	struct list due;
	struct {
		uint32_t slot;
		uint64_t generation;
	} gone[NETWORK_GONE_MAX];
	size_t gone_n;
};

/* Before the warden leaves the host's mounts and network: a bpffs below `run`, and whether the host has IPv6. */
void network_prepare_host(struct warden *w, const char *run);
/* After: checks what the kernel can, connects to the gate. */
void network_start(struct warden *w);
/* Takes the bpffs away: no box is left. */
void network_retire(struct warden *w);

/* The half-made box has its network namespace and nothing runs in it. */
void network_steer(struct warden_slot *c);
/* It has a name now; `flags` of cage/steer.h. */
void network_name(struct warden_slot *c, uint32_t flags);
/* Found again after a restart. */
void network_adopt(struct warden_slot *c);
/* The box is gone, or the slot was never used. */
void network_forget(struct warden_slot *c);
int network_flags(struct warden_slot *c, uint32_t flags, struct err *e);
