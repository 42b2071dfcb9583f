#include "daemon/pass/preview_memory.h"

#include "base/log.h"
#include "base/turn.h"
#include "daemon/core/sandbox.h"
#include "daemon/pass/port_forward.h"
#include "daemon/pass/preview.h"
#include "http/proxy.h"

struct preview_look {
	struct sandbox *sandbox; /* whose connections are asked about */
	uint64_t now, patience;
	struct tcp_doomed doomed;
};

void preview_memory_begin(struct sandbox *s, struct daemon_request *r)
{
	tcp_owner_window(&s->memory, &s->daemon->tcp, s->previews);
	http_guest_window(r->x, s->memory.window);
}

/* ---- what waits ---- */

static void look_at_guest(void *arg, struct http_exchange *x, const struct turn_party *party)
{
	const struct preview_look *k = arg;
	struct sandbox *s = party->owner;
	if (!s)
		return;
	http_guest_look(x, k->now, s->memory.window);
	s->memory.held += http_guest_memory(x)->held;
}

/* Its connection into the box counts as the viewer's. */
static void look_at_preview(void *arg, struct daemon_request *r)
{
	const struct preview_look *k = arg;
	struct sandbox *s = k->sandbox;
	struct http_proxy *p = port_forward_proxy(r);
	struct http_exchange *x = p ? http_proxy_client(p) : NULL;
	if (!x)
		return;
	int fd = http_proxy_window(p, s->memory.window);
	struct tcp_conn *m = http_guest_memory(x);
	size_t held = tcp_held(fd);
	m->held += held;
	s->memory.held += held;
	tcp_way_look_at(&m->up, k->now, false, fd);
}

/* ---- who gives it back ---- */

static void add_stuck(void *arg, struct http_exchange *x, const struct turn_party *party)
{
	struct preview_look *k = arg;
	struct tcp_conn *m = http_guest_memory(x);
	if (party->owner == k->sandbox && tcp_conn_is_stuck(m, k->now, k->patience))
		tcp_doomed_add(&k->doomed, m);
}

static void reset(void *arg, struct tcp_conn *m)
{
	const struct sandbox *s = arg;
	log_limited(LOG_WARN, "a viewer that does not read is reset", "id=%s bytes=%zu", LOG_Q(s->id), s->memory.held);
	http_guest_reset(http_guest_of(m));
}

static size_t shed(struct sandbox *s, size_t most, uint64_t patience)
{
	struct preview_look k = {.sandbox = s, .now = loop_now(s->daemon->loop), .patience = patience};
	http_server_each_guest(s->daemon->server, add_stuck, &k);
	return tcp_doomed_end(&k.doomed, &s->memory, most, reset, s);
}

static struct sandbox *largest_below(const struct daemon *d, size_t limit)
{
	struct sandbox *most = NULL;
	size_t it = 0;
	void *v;
	while (map_next(&d->boxes, &it, &(struct str){0}, &v)) {
		struct sandbox *s = v;
		if (s->memory.held < limit && (!most || s->memory.held > most->memory.held))
			most = s;
	}
	return most;
}

static size_t count_large(const struct daemon *d)
{
	size_t it = 0, n = 0;
	void *v;
	while (map_next(&d->boxes, &it, &(struct str){0}, &v))
		n += ((struct sandbox *)v)->memory.held > TCP_OWNER_KEPT;
	return n;
}

/* While the host is short. */
static void relieve(struct daemon *d)
{
	uint64_t freed = 0;
	size_t limit = SIZE_MAX;
	if (!tcp_host_needs(&d->tcp))
		return;
	size_t part = tcp_host_part(&d->tcp, count_large(d));
	while (freed < d->tcp.over) {
		struct sandbox *s = largest_below(d, limit);
		if (!s || s->memory.held <= part)
			return;
		limit = s->memory.held;
		freed += shed(s, part, TCP_STUCK_SHORT);
	}
}

static void judge(struct daemon *d, struct preview_look *k)
{
	size_t it = 0;
	void *v;
	while (map_next(&d->boxes, &it, &(struct str){0}, &v)) {
		struct sandbox *s = k->sandbox = v;
		if (s->previews)
			preview_each(s, look_at_preview, k);
		tcp_owner_judge(&s->memory, k->now);
		tcp_owner_window(&s->memory, &d->tcp, s->previews);
		if (s->memory.held > TCP_OWNER_MAX)
			shed(s, TCP_OWNER_MAX, tcp_owner_patience(&s->memory, k->now));
	}
}

/* Windows that change here are set at the next look. */
static void on_look(struct loop_timer *t)
{
	struct daemon *d = container_of(t, struct daemon, tcp_look);
	struct preview_look k = {.now = loop_now(d->loop)};
	size_t it = 0;
	void *v;
	tcp_host_look(&d->tcp);
	while (map_next(&d->boxes, &it, &(struct str){0}, &v))
		((struct sandbox *)v)->memory.held = 0;
	http_server_each_guest(d->server, look_at_guest, &k);
	judge(d, &k);
	relieve(d);
	loop_timer_set(d->loop, t, TCP_LOOK, on_look);
}

void preview_memory_start(struct daemon *d)
{
	tcp_host_open(&d->tcp, TCP_HOST_SHARE);
	loop_timer_set(d->loop, &d->tcp_look, TCP_LOOK, on_look);
}
