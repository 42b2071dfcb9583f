#include "daemon/core/dial.h"

#include <sys/resource.h>

#include "base/log.h"
#include "daemon/limits.h"
#include "proto/limits.h"

enum { AGAIN_MS = 50 };

struct stock {
	struct dial *dial;
	int family;
	int fds[DIAL_STOCK_MAX];
	size_t n;
	size_t target; /* how many it should hold: more after a rush, until it has been idle */
	bool asked;
	struct list waiters; /* struct dial_waiter */
	size_t waiters_n;
};

struct dial {
	struct http_dialer dialer;
	struct sandbox *sandbox;
	struct stock stock[2]; /* of 127.0.0.1, of ::1 */
	struct loop_timer timer;
	uint64_t used;		  /* loop_now of the last take */
	uint16_t sixes[DIAL_SIX]; /* ports that answer on ::1 only; the oldest is overwritten */
	size_t sixes_at;
};

static size_t stocked;

static void stock_fill(struct stock *k);
static void on_dial_timer(struct loop_timer *t);

static struct loop *loop_of(const struct dial *d)
{
	return d->sandbox->daemon->loop;
}

static int dial_take(struct http_dialer *h, int family)
{
	struct dial *d = container_of(h, struct dial, dialer);
	struct stock *k = &d->stock[family == AF_INET6];
	d->used = loop_now(loop_of(d));
	int fd = -EAGAIN;
	if (k->n) {
		fd = k->fds[--k->n];
		stocked--;
		if (d->sandbox->memory.window)
			tcp_window_set(fd, d->sandbox->memory.window);
	} else if (k->target < DIAL_STOCK_MAX) {
		k->target *= 2;
	}
	if (k->n <= k->target / 2)
		stock_fill(k);
	return fd;
}

static struct dial *dial_of(struct sandbox *s)
{
	if (s->dial)
		return s->dial;
	struct dial *d = xcalloc(1, sizeof *d);
	d->dialer = (struct http_dialer){.take = dial_take, .idle_max = DIAL_POOL_IDLE_MAX, .idle_ms = DIAL_POOL_IDLE};
	d->sandbox = s;
	for (size_t i = 0; i < ARRAY_LEN(d->stock); i++) {
		d->stock[i] = (struct stock){.dial = d, .family = i ? AF_INET6 : AF_INET, .target = DIAL_STOCK};
		list_init(&d->stock[i].waiters);
	}
	return s->dial = d;
}

static void stock_shrink(struct stock *k, size_t to)
{
	while (k->n > to) {
		fd_close(&k->fds[--k->n]);
		stocked--;
	}
}

void dial_wait_cancel(struct dial_waiter *w)
{
	if (!w->stock)
		return;
	list_del(&w->node);
	w->stock->waiters_n--;
	w->stock = NULL;
}

static void dial_release(struct stock *k, const struct err *e)
{
	struct dial_waiter *w = list_entry(k->waiters.next, struct dial_waiter, node);
	dial_wait_cancel(w);
	w->on_done(w, e);
}

/* Each of them takes one: as many as there are sockets, in one go. */
static void stock_hand_out(struct stock *k)
{
	for (size_t n = k->n; n && k->n && !list_empty(&k->waiters); n--)
		dial_release(k, NULL);
}

static void stock_fail_waiters(struct stock *k, const struct err *e)
{
	while (!list_empty(&k->waiters))
		dial_release(k, e);
}

/* ---- from the warden ---- */

static void put_in_stock(struct stock *k, const struct warden_answer *a)
{
	for (size_t i = 0; i < a->fds_n && k->n < DIAL_STOCK_MAX; i++) {
		k->fds[k->n++] = a->fds[i];
		a->fds[i] = -1;
		stocked++;
	}
}

static void on_sockets(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	struct stock *k = arg;
	k->asked = false;
	/* Sockets of a box that has ended are useless. Without free descriptors the kernel drops them. */
	bool ours = !a->err && a->info && a->info->slot == s->slot && s->state == SB_RUNNING && a->fds_n;
	if (ours)
		put_in_stock(k, a);
	else if (a->err && !a->lost && a->err->code != ERRC_RESOURCE_BUSY)
		stock_fail_waiters(k, a->err);
	stock_hand_out(k);
	if (ours && (k->n <= k->target / 2 || !list_empty(&k->waiters)))
		stock_fill(k);
	else if (!list_empty(&k->waiters))
		loop_timer_set(s->daemon->loop, &k->dial->timer, AGAIN_MS, on_dial_timer);
}

/* Connections need descriptors more than the stock does. */
static size_t stocked_max(void)
{
	static size_t max;
	struct rlimit l;
	if (!max)
		max = getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur / 8 < DIAL_STOCKED_MAX ? l.rlim_cur / 8
											     : DIAL_STOCKED_MAX;
	return max;
}

/* As many as are missing, one question at a time. */
static void stock_fill(struct stock *k)
{
	struct sandbox *s = k->dial->sandbox;
	struct loop_timer *t = &k->dial->timer;
	if (k->asked)
		return;
	if (!t->pos)
		loop_timer_set(s->daemon->loop, t, list_empty(&k->waiters) ? DIAL_IDLE : AGAIN_MS, on_dial_timer);
	if (s->state != SB_RUNNING || !warden_client_is_up(s->daemon->warden))
		return;
	size_t want = k->n < k->target ? k->target - k->n : 0;
	/* While many boxes are in use, each gets only the sockets that it needs now. */
	if (stocked >= stocked_max())
		want = k->waiters_n < want ? k->waiters_n : want;
	want = want < WARDEN_SOCKETS_MAX ? want : WARDEN_SOCKETS_MAX;
	if (!want)
		return;
	struct warden_request r = {.op = WARDEN_SOCKETS, .family = (uint32_t)k->family, .count = (uint32_t)want};
	k->asked = true;
	sandbox_ask(s, &r, on_sockets, k);
}

/* Waiters need another look, or the stock has not been used for a while. */
static void on_dial_timer(struct loop_timer *t)
{
	struct dial *d = container_of(t, struct dial, timer);
	uint64_t now = loop_now(loop_of(d));
	bool waiting = false;
	struct err e;
	sandbox_ref(d->sandbox);
	err_set(&e, ERRC_CONTAINER_UNAVAILABLE, "sandbox '%s' cannot be reached now: %s", d->sandbox->id,
		d->sandbox->state == SB_RUNNING ? "the warden made no connection to it in time"
						: "it ended before the request was sent");
	for (size_t i = 0; i < ARRAY_LEN(d->stock); i++) {
		struct stock *k = &d->stock[i];
		while (!list_empty(&k->waiters) && list_entry(k->waiters.next, struct dial_waiter, node)->until <= now)
			dial_release(k, &e);
		stock_hand_out(k);
		if (now >= d->used + DIAL_IDLE) {
			stock_shrink(k, 0);
			k->target = DIAL_STOCK;
		}
		waiting |= !list_empty(&k->waiters);
		if (!list_empty(&k->waiters))
			stock_fill(k);
	}
	if (waiting)
		loop_timer_set(loop_of(d), t, AGAIN_MS, on_dial_timer);
	else if (now < d->used + DIAL_IDLE)
		loop_timer_set(loop_of(d), t, d->used + DIAL_IDLE - now, on_dial_timer);
	sandbox_unref(d->sandbox);
}

/* ---- for callers ---- */

struct http_endpoint dial_endpoint(struct sandbox *s, uint16_t port, bool six)
{
	struct http_endpoint ep = {.dialer = &dial_of(s)->dialer, .party = s->party};
	if (six) {
		ep.in6 = (struct sockaddr_in6){
			.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
		ep.len = sizeof ep.in6;
	} else {
		ep.in = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		ep.len = sizeof ep.in;
	}
	return ep;
}

static uint16_t *find_six(const struct sandbox *s, uint16_t port)
{
	for (size_t i = 0; s->dial && i < DIAL_SIX; i++)
		if (s->dial->sixes[i] == port)
			return &s->dial->sixes[i];
	return NULL;
}

bool dial_is_six(const struct sandbox *s, uint16_t port)
{
	return find_six(s, port) != NULL;
}

void dial_remember(struct sandbox *s, uint16_t port, bool six)
{
	struct dial *d = dial_of(s);
	uint16_t *known = find_six(s, port);
	if (known && !six)
		*known = 0;
	else if (!known && six)
		d->sixes[d->sixes_at++ % DIAL_SIX] = port;
}

int dial_wait(struct sandbox *s, bool six, struct dial_waiter *w, struct err *e)
{
	struct dial *d = dial_of(s);
	struct stock *k = &d->stock[six];
	if (k->waiters_n >= BOX_WAITERS_MAX)
		return err_set(e, ERRC_CONTAINER_UNAVAILABLE,
			"%d requests wait for a connection to sandbox '%s' already", BOX_WAITERS_MAX, s->id);
	w->stock = k;
	w->until = loop_now(s->daemon->loop) + WARDEN_WAIT;
	list_push(&k->waiters, &w->node);
	k->waiters_n++;
	/* The stock may have been filled since it was found empty. */
	loop_timer_set(s->daemon->loop, &d->timer, k->n ? 0 : AGAIN_MS, on_dial_timer);
	stock_fill(k);
	return 0;
}

void dial_drop(struct sandbox *s)
{
	if (!s->dial)
		return;
	http_client_forget_dialer(s->daemon->client, &s->dial->dialer);
	for (size_t i = 0; i < ARRAY_LEN(s->dial->stock); i++) {
		stock_shrink(&s->dial->stock[i], 0);
		list_each(it, &s->dial->stock[i].waiters) list_entry(it, struct dial_waiter, node)->until = 0;
	}
	loop_timer_set(s->daemon->loop, &s->dial->timer, 0, on_dial_timer);
}

void dial_free(struct sandbox *s)
{
	if (!s->dial)
		return;
	loop_timer_stop(&s->dial->timer);
	for (size_t i = 0; i < ARRAY_LEN(s->dial->stock); i++)
		stock_shrink(&s->dial->stock[i], 0);
	free(s->dial);
	s->dial = NULL;
}

size_t dial_stocked(void)
{
	return stocked;
}
