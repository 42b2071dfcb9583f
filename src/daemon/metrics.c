#include "daemon/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "daemon/core/sandbox.h"
#include "daemon/daemon.h"
#include "daemon/limits.h"
#include "daemon/ports/ports.h"

/* Upper bounds in µs: from an answer out of memory to a command that runs for long. */
static const uint64_t bounds[METRIC_BUCKETS] = {100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000,
	500000, 1000000, 5000000, 30000000, 300000000};

void histogram_add(struct histogram *h, uint64_t us)
{
	int i = 0;
	while (i < METRIC_BUCKETS && us > bounds[i])
		i++;
	h->bucket[i]++;
	h->sum_us += us;
}

void metrics_request(struct metrics *m, const struct route_row *row, int status, uint64_t us)
{
	size_t route = (size_t)(row - route_table);
	bool known = status > METRIC_STATUS_FIRST && status < METRIC_STATUS_FIRST + METRIC_STATUSES;
	m->requests[route][known ? status - METRIC_STATUS_FIRST : 0]++;
	histogram_add(&m->latency[route], us);
}

void metrics_created(struct metrics *m, uint64_t us)
{
	histogram_add(&m->create, us);
}

void metrics_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void plain(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
	metrics_head(out, name, type, help);
	buf_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

void histogram_write(struct buf *out, const char *name, const char *labels, const struct histogram *h)
{
	uint64_t below = 0;
	const char *comma = *labels ? "," : "";
	for (int i = 0; i < METRIC_BUCKETS; i++) {
		below += h->bucket[i];
		buf_printf(out, "%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma, (double)bounds[i] / 1e6,
			(unsigned long long)below);
	}
	below += h->bucket[METRIC_BUCKETS];
	buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma, (unsigned long long)below);
	const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
	buf_printf(out, "%s_sum%s%s%s %.6f\n", name, open, labels, close, (double)h->sum_us / 1e6);
	buf_printf(out, "%s_count%s%s%s %llu\n", name, open, labels, close, (unsigned long long)below);
}

static bool route_used(const struct metrics *m, size_t route)
{
	for (int i = 0; i <= METRIC_BUCKETS; i++)
		if (m->latency[route].bucket[i])
			return true;
	return false;
}

static void write_requests(struct buf *out, const struct metrics *m)
{
	metrics_head(
		out, "atoll_requests_total", "counter", "Requests by route and status; status 0 went away unanswered.");
	for (size_t r = 0; r < route_rows; r++)
		for (int i = 0; i < METRIC_STATUSES; i++)
			if (m->requests[r][i])
				buf_printf(out, "atoll_requests_total{route=\"%s\",status=\"%d\"} %llu\n",
					route_label(&route_table[r]), i ? METRIC_STATUS_FIRST + i : 0,
					(unsigned long long)m->requests[r][i]);
	metrics_head(out, "atoll_request_seconds", "histogram", "Time from a request's head to the end of its answer.");
	for (size_t r = 0; r < route_rows; r++) {
		char labels[64];
		snprintf(labels, sizeof labels, "route=\"%s\"", route_label(&route_table[r]));
		if (route_used(m, r))
			histogram_write(out, "atoll_request_seconds", labels, &m->latency[r]);
	}
	plain(out, "atoll_requests_aborted_total", "counter", "Exchanges that client or agent left before the end.",
		m->aborted);
	plain(out, "atoll_foreign_hosts_total", "counter", "Requests under a name that is not the daemon's.",
		m->foreign_hosts);
	plain(out, "atoll_previews_busy_total", "counter", "Requests to previews that found no place.",
		m->previews_busy);
	plain(out, "atoll_unauthorized_total", "counter", "Requests without the right token.", m->unauthorized);
}

static void write_boxes(struct buf *out, struct daemon *d)
{
	const struct metrics *m = &d->metrics;
	metrics_head(out, "atoll_sandboxes", "gauge", "Sandboxes by state.");
	for (int i = 0; i < SB_DESTROYED; i++)
		buf_printf(
			out, "atoll_sandboxes{state=\"%s\"} %zu\n", state_name((enum sandbox_state)i), d->by_state[i]);
	metrics_head(out, "atoll_create_seconds", "histogram", "Time to make or restart a box, row and all.");
	histogram_write(out, "atoll_create_seconds", "", &m->create);
	plain(out, "atoll_create_failures_total", "counter", "Boxes that could not be made.", m->create_failures);
	plain(out, "atoll_destroys_total", "counter", "Sandboxes destroyed.", m->destroys);
	plain(out, "atoll_sleep_failures_total", "counter", "Boxes that could not be paused within 200 ms and run on.",
		m->sleep_failures);
	plain(out, "atoll_deaths_total", "counter", "Boxes that ended by themselves.", m->deaths);
	plain(out, "atoll_network_connections_total", "counter",
		"Connections of sandboxes that were allowed and have ended.", m->network.connections);
	plain(out, "atoll_network_denied_total", "counter", "Connections and names of sandboxes that were refused.",
		m->network.denied);
	plain(out, "atoll_network_sent_bytes_total", "counter", "Bytes that sandboxes have sent.", m->network.sent);
	plain(out, "atoll_network_received_bytes_total", "counter", "Bytes that sandboxes have received.",
		m->network.received);
}

static const struct {
	const char *name, *help;
	size_t at;
} totals[] = {
	{"atoll_sandbox_network_connections_total", "Connections of a sandbox that were allowed and have ended.",
		offsetof(struct net_totals, connections)},
	{"atoll_sandbox_network_denied_total", "Connections and names of a sandbox that were refused.",
		offsetof(struct net_totals, denied)},
	{"atoll_sandbox_network_sent_bytes_total", "Bytes that a sandbox has sent.", offsetof(struct net_totals, sent)},
	{"atoll_sandbox_network_received_bytes_total", "Bytes that a sandbox has received.",
		offsetof(struct net_totals, received)},
};

/* A series for each sandbox that has used the network, of the first NET_METRICS_MAX: a client makes sandboxes without
 * end, and a page of metrics must have one. The totals over all have no label. */
static void write_networks(struct buf *out, struct daemon *d)
{
	for (size_t i = 0; i < ARRAY_LEN(totals); i++) {
		size_t it = 0, n = 0;
		void *v;
		metrics_head(out, totals[i].name, "counter", totals[i].help);
		while (n < NET_METRICS_MAX && map_next(&d->boxes, &it, &(struct str){0}, &v)) {
			const struct sandbox *s = v;
			struct net_totals t = net_log_totals(s->net_log);
			if (!s->net_log || s->work)
				continue;
			n++;
			buf_printf(out, "%s{sandbox=\"%s\"} %llu\n", totals[i].name, s->id,
				(unsigned long long)*(const uint64_t *)((const char *)&t + totals[i].at));
		}
	}
}

static void write_warden(struct buf *out, struct daemon *d)
{
	struct warden_stats w = warden_stats(d->warden);
	plain(out, "atoll_warden_up", "gauge", "1 while the warden answers.", warden_client_is_up(d->warden));
	plain(out, "atoll_warden_connects_total", "counter", "Connections made to the warden.", w.connects);
	plain(out, "atoll_warden_calls_total", "counter", "Questions to the warden.", w.calls);
	plain(out, "atoll_warden_lost_total", "counter", "Questions whose answer was lost with the connection.",
		w.lost);
	metrics_head(out, "atoll_warden_round_trip_seconds", "summary", "Round trips to the warden, creates left out.");
	buf_printf(out, "atoll_warden_round_trip_seconds_sum %.6f\natoll_warden_round_trip_seconds_count %llu\n",
		(double)w.round_trip_us / 1e6, (unsigned long long)w.round_trips);
}

/* A process that must not be dumped cannot open this any more: it is opened before. */
static DIR *fds;

void metrics_open(void)
{
	fds = opendir("/proc/self/fd");
}

static size_t count_fds(void)
{
	size_t n = 0;
	if (fds)
		rewinddir(fds);
	while (fds && readdir(fds))
		n++;
	return n > 3 ? n - 3 : 0; /* ".", ".." and the directory's own */
}

static uint64_t resident_bytes(void)
{
	auto_buf struct buf text = {0};
	struct str rest;
	uint64_t pages = 0;
	if (fd_read_file(AT_FDCWD, "/proc/self/statm", 256, &text) == 0) {
		str_split(buf_str(&text), ' ', &rest);
		str_to_u64(str_split(rest, ' ', &rest), UINT64_MAX, &pages);
	}
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_places(struct buf *out, const struct http_server_stats *s)
{
	static const char *const ranks[HTTP_RANKS] = {
		[HTTP_STRANGER] = "stranger",
		[HTTP_GUEST] = "preview",
		[HTTP_KNOWN] = "authenticated",
		[HTTP_LOCAL] = "local",
	};
	static const char *const reasons[HTTP_SHEDS] = {
		[HTTP_SHED_STRANGER] = "strangers",
		[HTTP_SHED_ADDRESS] = "address",
		[HTTP_SHED_LINGERING] = "lingering",
		[HTTP_SHED_GUEST] = "previews",
		[HTTP_SHED_ROOM] = "room",
	};
	metrics_head(out, "atoll_connections_by_rank", "gauge", "Open client connections by what vouches for them.");
	for (int i = 0; i < HTTP_RANKS; i++)
		buf_printf(out, "atoll_connections_by_rank{rank=\"%s\"} %zu\n", ranks[i], s->by_rank[i]);
	metrics_head(
		out, "atoll_connections_shed_total", "counter", "Client connections closed to make room, by limit.");
	for (int i = 0; i < HTTP_SHEDS; i++)
		buf_printf(out, "atoll_connections_shed_total{limit=\"%s\"} %llu\n", reasons[i],
			(unsigned long long)s->shed[i]);
}

static void write_process(struct buf *out, struct daemon *d)
{
	struct http_server_stats s = http_server_stats(d->server);
	plain(out, "atoll_connections", "gauge", "Open client connections.", s.conns);
	plain(out, "atoll_connections_idle", "gauge", "Open client connections without a request.", s.idle);
	write_places(out, &s);
	plain(out, "atoll_connections_total", "counter", "Client connections accepted.", s.accepted);
	plain(out, "atoll_received_bytes_total", "counter", "Bytes from clients.", s.bytes_in);
	plain(out, "atoll_sent_bytes_total", "counter", "Bytes to clients.", s.bytes_out);
	plain(out, "atoll_requests_refused_total", "counter", "Requests refused before routing.", s.refused);
	plain(out, "atoll_uptime_seconds", "gauge", "Seconds since the start.", (clock_ms() - d->started_ms) / 1000);
	plain(out, "process_open_fds", "gauge", "Open file descriptors.", count_fds());
	plain(out, "process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes());
	metrics_head(out, "atoll_build_info", "gauge", "The version that runs.");
	buf_printf(out, "atoll_build_info{version=\"%s\"} 1\n", ATOLL_VERSION);
}

void metrics_write(struct daemon *d, struct buf *out)
{
	write_requests(out, &d->metrics);
	write_boxes(out, d);
	write_networks(out, d);
	port_metrics_write(d, out);
	write_warden(out, d);
	write_process(out, d);
}
