/* The requests to a port: a ring of the last ones, counters, and their Prometheus text. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/core/sandbox.h"
#include "daemon/limits.h"
#include "daemon/ports/ports.h"
#include "proto/limits.h"

enum { LOG_FIRST = 8 };

static void count(struct port_stats *st, const struct port_entry *entry)
{
	int status_class = entry->status / 100;
	st->by_class[status_class >= 1 && status_class <= 5 ? status_class : 0]++;
	st->bytes_in += entry->bytes_in;
	st->bytes_out += entry->bytes_out;
	if (entry->status != 101)
		histogram_add(&st->latency, entry->us);
}

/* The ring grows with the traffic: most ports of a large table are never looked at. */
static void log_grow(struct port *p)
{
	size_t cap = p->log_cap ? 2 * p->log_cap : LOG_FIRST;
	p->log_cap = cap < PORT_LOG_MAX ? cap : PORT_LOG_MAX;
	p->log = xrealloc(p->log, p->log_cap * sizeof *p->log);
	p->log_next = p->log_n;
}

static struct port_entry *nth_newest(const struct port *p, size_t n)
{
	return &p->log[(p->log_next + p->log_cap - 1 - n) % p->log_cap];
}

static void remember(struct port *p, const struct port_entry *entry)
{
	if (p->log_n == p->log_cap && p->log_cap < PORT_LOG_MAX)
		log_grow(p);
	if (p->log_n == p->log_cap)
		port_heads_clear(&p->log[p->log_next].heads);
	p->log[p->log_next] = *entry;
	p->log_next = (p->log_next + 1) % p->log_cap;
	p->log_n += p->log_n < p->log_cap;
	if (p->log_n > PORT_LOG_HEADS)
		port_heads_clear(&nth_newest(p, PORT_LOG_HEADS)->heads);
}

void port_log_free(struct port *p)
{
	for (size_t i = 0; i < p->log_n; i++)
		port_heads_clear(&nth_newest(p, i)->heads);
	free(p->log);
	p->log = NULL;
}

void port_record(struct daemon *d, struct port *p, struct port_entry *entry)
{
	struct metrics *m = &d->metrics;
	if (!p->gone && !p->counted && m->ports_counted < PORT_METRICS_MAX) {
		m->ports_counted++;
		p->counted = true;
	}
	count(p->counted ? &p->stats : &m->ports_other, entry);
	if (p->gone)
		port_heads_clear(&entry->heads);
	else
		remember(p, entry);
}

static void entry_view(struct json_writer *w, const struct port_entry *entry)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "time", clock_iso(entry->at_ms, iso));
	json_member_cstr(w, "method", entry->method);
	json_member_cstr(w, "path", entry->path);
	json_member_bool(w, "query", entry->query);
	json_member_u64(w, "status", (uint64_t)entry->status);
	json_member_double(w, "ms", (double)entry->us / 1e3);
	if (entry->heads.first_us)
		json_member_double(w, "firstMs", (double)entry->heads.first_us / 1e3);
	json_member_u64(w, "bytesIn", entry->bytes_in);
	json_member_u64(w, "bytesOut", entry->bytes_out);
	port_heads_write(w, &entry->heads);
	json_object_end(w);
}

void port_log_view(struct json_writer *w, const struct port *p)
{
	json_array_begin(w);
	for (size_t i = 0; i < p->log_n; i++)
		entry_view(w, nth_newest(p, i));
	json_array_end(w);
}

typedef void (*on_stats)(struct buf *out, const char *labels, const struct port_stats *st);

static void write_requests(struct buf *out, const char *labels, const struct port_stats *st)
{
	for (int i = 0; i < 6; i++)
		if (st->by_class[i])
			buf_printf(out, "atoll_port_requests_total{%s,status=\"%d%s\"} %llu\n", labels, i,
				i ? "xx" : "", (unsigned long long)st->by_class[i]);
}

static void write_received(struct buf *out, const char *labels, const struct port_stats *st)
{
	buf_printf(out, "atoll_port_received_bytes_total{%s} %llu\n", labels, (unsigned long long)st->bytes_in);
}

static void write_sent(struct buf *out, const char *labels, const struct port_stats *st)
{
	buf_printf(out, "atoll_port_sent_bytes_total{%s} %llu\n", labels, (unsigned long long)st->bytes_out);
}

static void write_latency(struct buf *out, const char *labels, const struct port_stats *st)
{
	histogram_write(out, "atoll_port_request_seconds", labels, &st->latency);
}

static void each_port(struct daemon *d, struct buf *out, on_stats write)
{
	size_t it = 0;
	struct str key;
	void *value;
	while (map_next(&d->boxes, &it, &key, &value)) {
		struct sandbox *s = value;
		list_each(node, &s->ports)
		{
			struct port *p = list_entry(node, struct port, node);
			char labels[BOX_ID_MAX + 64];
			snprintf(labels, sizeof labels, "sandbox=\"%s\",port=\"%u\"", s->id, (unsigned)p->number);
			if (p->counted)
				write(out, labels, &p->stats);
		}
	}
	write(out, "sandbox=\"\",port=\"other\"", &d->metrics.ports_other);
}

void port_metrics_write(struct daemon *d, struct buf *out)
{
	metrics_head(out, "atoll_port_requests_total", "counter", "Requests to exposed ports by class of status.");
	each_port(d, out, write_requests);
	metrics_head(out, "atoll_port_received_bytes_total", "counter", "Bytes of bodies that went into the boxes.");
	each_port(d, out, write_received);
	metrics_head(out, "atoll_port_sent_bytes_total", "counter", "Bytes of bodies that came out of the boxes.");
	each_port(d, out, write_sent);
	metrics_head(out, "atoll_port_request_seconds", "histogram",
		"Time to the end of the answer; upgraded connections are left out.");
	each_port(d, out, write_latency);
}
