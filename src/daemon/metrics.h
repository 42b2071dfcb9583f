/*
 * metrics.h - counters of the daemon and their Prometheus text (GET /metrics).
 *
 * Counters are plain numbers that the loop thread increments. Agents are hostile and choose statuses: the table has one
 * counter for each number from 100 to 599, so no answer can add series without bound.
 */
#pragma once

#include "base/buf.h"
#include "daemon/network/net_log.h"
#include "daemon/route/route.h"

enum { METRIC_BUCKETS = 16, METRIC_STATUS_FIRST = 100, METRIC_STATUSES = 500 };

struct histogram {
	uint64_t bucket[METRIC_BUCKETS + 1]; /* not cumulative; the last one is +Inf */
	uint64_t sum_us;
};

/* Of an exposed port: ports.h. */
struct port_stats {
	uint64_t by_class[6]; /* 0: no answer; 1xx to 5xx */
	uint64_t bytes_in, bytes_out;
	struct histogram latency; /* to the end of the answer; upgraded connections are left out */
};

struct metrics {
	uint64_t requests[ROUTES_MAX][METRIC_STATUSES]; /* by row; [..][0]: no answer was given */
	struct histogram latency[ROUTES_MAX];
	struct histogram create;
	uint64_t create_failures, destroys, deaths, sleep_failures, unauthorized;
	uint64_t aborted; /* exchanges whose client or agent went away before the end */
	uint64_t foreign_hosts;
	uint64_t previews_busy; /* requests to previews that found no place */
	size_t ports_counted;	/* ports that have series of their own */
	struct port_stats ports_other;
	struct net_totals network;
};

/* At the start, before the process gives up being looked at. */
void metrics_open(void);

void histogram_add(struct histogram *h, uint64_t us);
/* status 0: the client went away unanswered. */
void metrics_request(struct metrics *m, const struct route_row *row, int status, uint64_t us);
void metrics_created(struct metrics *m, uint64_t us);

struct daemon;
void metrics_write(struct daemon *d, struct buf *out);

/* For modules that write series of their own. `labels` is "" or `route="…"`. */
void metrics_head(struct buf *out, const char *name, const char *type, const char *help);
void histogram_write(struct buf *out, const char *name, const char *labels, const struct histogram *h);
