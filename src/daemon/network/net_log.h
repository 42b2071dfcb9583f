/*
 * net_log.h - what a sandbox's connections did: the last NET_LOG_MAX records, totals, and clients that follow.
 *
 * Records come from the gate, one for each connection when it ends, and one for each refused name. A follower that does
 * not read loses records rather than holding others up. Owned by the sandbox; made with the first record.
 */
#pragma once

#include "base/json.h"
#include "daemon/network/follow.h"

struct net_totals {
	uint64_t connections, denied, sent, received;
};

/* Adds what a record of the gate says. */
void net_totals_add(struct net_totals *t, const struct json *record);

struct net_log;

/* `record` is the gate's JSON. */
void net_log_add(struct net_log **log, const struct json *record);
/* The gate was killed: what was open has no record of its own. Counts in no total. */
void net_log_gate_restarted(struct net_log **log, int64_t now);
void net_log_free(struct net_log *log); /* NULL is fine; followers are ended */
struct net_totals net_log_totals(const struct net_log *log);
/* "log": [ … ], "lost": n */
void net_log_write(const struct net_log *log, struct json_writer *w);
/* Answers the exchange with an event stream: what is there, then what comes. LIMIT_REACHED. */
int net_log_follow(struct net_log **log, const struct follow *how, struct err *e);
