/*
 * gate_client.h - the daemon's connection to the gate: policies out, log records in (docs/design/011-network.md).
 *
 * When the gate is away it is tried again and again; when it is there it is told everything it needs: the policy of
 * each sandbox that has, or is getting, a box. What is said while it is away is not kept: the next connection says it
 * all.
 */
#pragma once

#include "base/list.h"

struct daemon;
struct sandbox;
struct gate_client;

struct gate_client *gate_client_new(struct daemon *d);

/* Embedded in the object of who waits until the gate has acted on a line. */
struct gate_ack {
	struct list node;
	uint64_t seq; /* 0: waits for nothing */
	/* Once, when the gate has acted on it, or is away: then it learns it before any connection of the box. */
	void (*on_done)(struct gate_ack *a);
};

/* Its policy, as it is now. Before its box is made, and after each change. `ack` may be NULL. */
void gate_client_policy(struct gate_client *g, const struct sandbox *s, struct gate_ack *ack);
/* All policies: the rules for all sandboxes have changed, or the warden has said which boxes live. */
void gate_client_all(struct gate_client *g);
/* An approval. */
void gate_client_answer(struct gate_client *g, const char *ask, bool allow, struct gate_ack *ack);
/* Its secrets, outbound handlers and workerd, as they are now: with the policy, and after each change. */
void gate_client_secrets(struct gate_client *g, const struct sandbox *s);
/* workerd that decides about the connections of a container's box; nothing for other sandboxes. `ack` may be NULL. */
void gate_client_worker(struct gate_client *g, const struct sandbox *s, struct gate_ack *ack);
/* The authority that boxes with secrets trust, as PEM; NULL while the gate has not told. */
const char *gate_client_ca(const struct gate_client *g);
/* Its box is about to be frozen, or runs again: bytes for a frozen one are reported at once. */
void gate_client_asleep(struct gate_client *g, const struct sandbox *s, bool asleep);
/* It has no box any more. */
void gate_client_forget(struct gate_client *g, const char *id);
bool gate_client_is_up(const struct gate_client *g);
