/*
 * gate_client.h - the daemon's connection to the gate: policies out, log records in (docs/design/011-network.md).
 *
 * When the gate is away it is tried again and again; when it is there it is told everything it needs: the policy of
 * each sandbox that has, or is getting, a box. What is said while it is away is not kept: the next connection says it
 * all.
 */
#pragma once

#include "base/base.h"

struct daemon;
struct sandbox;
struct gate_client;

struct gate_client *gate_client_new(struct daemon *d);
/* Its policy, as it is now. Before its box is made, and after each change. */
void gate_client_policy(struct gate_client *g, const struct sandbox *s);
/* Its box is about to be frozen, or runs again: bytes for a frozen one are reported at once. */
void gate_client_asleep(struct gate_client *g, const struct sandbox *s, bool asleep);
/* It has no box any more. */
void gate_client_forget(struct gate_client *g, const char *id);
bool gate_client_is_up(const struct gate_client *g);
