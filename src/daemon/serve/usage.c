/*
 * Samples of memory, CPU time, processes, disk and network. A round asks the warden about one running sandbox after the
 * other, so that a thousand of them do not fill its queue. Live rounds are made only while somebody follows the events.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/network/net_log.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "daemon/serve/events.h"

struct sample {
	int64_t wall_ms;
	uint64_t memory, cpu_usec, disk;
	uint64_t sent, received; /* through the gate, since the daemon started */
	uint32_t pids;
	bool disk_known;
};

struct usage_ring {
	struct sample v[USAGE_SAMPLES];
	size_t n, head; /* head: the oldest */
	uint64_t oom_kills;
};

struct usage;

struct round {
	struct usage *usage;
	struct daemon *daemon;
	struct sandbox **v; /* referenced */
	size_t n, at;
	bool keep; /* also into the rings */
	struct buf out;
	struct json_writer w;
};

struct usage {
	struct daemon *daemon;
	struct loop_timer timer;
	uint64_t kept_at; /* monotonic, of the last round that was kept */
};

static void on_due(struct loop_timer *t);

void usage_free(struct usage_ring *ring)
{
	free(ring);
}

static void ring_add(struct usage_ring *ring, const struct sample *sample)
{
	size_t at = (ring->head + ring->n) % USAGE_SAMPLES;
	if (ring->n == USAGE_SAMPLES)
		ring->head = (ring->head + 1) % USAGE_SAMPLES;
	else
		ring->n++;
	ring->v[at] = *sample;
}

static void sample_write(struct json_writer *w, const struct sample *s)
{
	char iso[CLOCK_ISO_LEN];
	json_member_cstr(w, "time", clock_iso(s->wall_ms, iso));
	json_member_u64(w, "memory", s->memory);
	json_member_double(w, "cpuSeconds", (double)s->cpu_usec / 1e6);
	json_member_u64(w, "pids", s->pids);
	if (s->disk_known)
		json_member_u64(w, "disk", s->disk);
	json_member_u64(w, "bytesSent", s->sent);
	json_member_u64(w, "bytesReceived", s->received);
}

void usage_write(struct json_writer *w, const struct usage_ring *ring)
{
	json_array_begin(w);
	for (size_t i = 0; ring && i < ring->n; i++) {
		json_object_begin(w);
		sample_write(w, &ring->v[(ring->head + i) % USAGE_SAMPLES]);
		json_object_end(w);
	}
	json_array_end(w);
}

static void take(struct round *r, struct sandbox *s, const struct box_info *info)
{
	const struct net_totals net = net_log_totals(s->net_log);
	const struct sample sample = {
		.wall_ms = clock_wall_ms(),
		.memory = info->mem_used,
		.cpu_usec = info->cpu_usec,
		.disk = info->disk_used,
		.sent = net.sent,
		.received = net.received,
		.pids = (uint32_t)info->pids_used,
		.disk_known = info->disk_known,
	};
	if (!s->usage)
		s->usage = xcalloc(1, sizeof *s->usage);
	if (r->keep)
		ring_add(s->usage, &sample);
	if (info->oom_kills > s->usage->oom_kills)
		events_oom(s);
	s->usage->oom_kills = info->oom_kills;
	if (s->work)
		return; /* no client sees boxes of builds */
	json_object_begin(&r->w);
	json_member_cstr(&r->w, "sandbox", s->id);
	sample_write(&r->w, &sample);
	json_object_end(&r->w);
}

static void round_end(struct round *r)
{
	json_array_end(&r->w);
	json_object_end(&r->w);
	events_pass(r->daemon->events, buf_str(&r->out));
	while (r->at < r->n)
		sandbox_unref(r->v[r->at++]);
	free(r->v);
	buf_free(&r->out);
	loop_timer_set(r->daemon->loop, &r->usage->timer, USAGE_LIVE_EVERY, on_due);
	free(r);
}

static void round_next(struct round *r);

static void on_inspected(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct round *r = arg;
	if (!a->err && a->info && sandbox_exists(s))
		take(r, s, a->info);
	sandbox_unref(s);
	round_next(r);
}

static void round_next(struct round *r)
{
	while (r->at < r->n && warden_client_is_up(r->daemon->warden)) {
		struct sandbox *s = r->v[r->at++];
		if (s->state == SB_RUNNING && (r->keep || !s->work))
			return sandbox_ask(s, &(struct warden_request){.op = WARDEN_INSPECT}, on_inspected, r);
		sandbox_unref(s);
	}
	round_end(r);
}

static void take_running(struct round *r)
{
	struct list *running = &r->daemon->running;
	size_t n = 0;
	list_each(it, running) n++;
	r->v = xcalloc(n + 1, sizeof(struct sandbox *));
	list_each(it, running)
	{
		struct sandbox *s = list_entry(it, struct sandbox, running);
		sandbox_ref(s);
		r->v[r->n++] = s;
	}
}

static void on_due(struct loop_timer *t)
{
	struct usage *u = container_of(t, struct usage, timer);
	struct daemon *d = u->daemon;
	bool keep = clock_ms() - u->kept_at >= USAGE_KEPT_EVERY;
	if (!keep && !events_followed(d->events))
		return loop_timer_set(d->loop, t, USAGE_LIVE_EVERY, on_due);
	if (keep)
		u->kept_at = clock_ms();
	struct round *r = xcalloc(1, sizeof *r);
	r->usage = u;
	r->daemon = d;
	r->keep = keep;
	take_running(r);
	r->w = json_writer(&r->out);
	json_object_begin(&r->w);
	json_member_cstr(&r->w, "type", "usage");
	json_key(&r->w, "samples");
	json_array_begin(&r->w);
	round_next(r);
}

void usage_start(struct daemon *d)
{
	struct usage *u = xcalloc(1, sizeof *u); /* lives as long as the daemon */
	u->daemon = d;
	u->kept_at = clock_ms();
	loop_timer_set(d->loop, &u->timer, USAGE_LIVE_EVERY, on_due);
}

void handle_usage(struct daemon_request *r)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	json_object_begin(&w);
	json_key(&w, "samples");
	usage_write(&w, s->usage);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}
