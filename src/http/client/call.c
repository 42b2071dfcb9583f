#include "http/client/call.h"

#include "http/limits.h"
#include <stdio.h>
#include <sys/socket.h>

enum { CONNECT_AGAIN_MS = 5 };

int call_fail(struct http_call *c, enum http_fail fail, const char *what)
{
	if (c->fail.fail == HTTP_FAIL_NONE)
		failure_set(&c->fail, fail, what);
	return -1;
}

static uint64_t bytes_sent(const struct http_call *c)
{
	return c->link ? c->link->w.sent - c->sent_before : 0;
}

bool call_connected(const struct http_call *c)
{
	return c->fail.fail == HTTP_FAIL_NONE && c->link && !c->link->connecting;
}

bool call_wants_input(const struct http_call *c)
{
	return c->fail.fail == HTTP_FAIL_NONE && !c->paused && c->answer < ANSWER_ENDED;
}

/* ---- time ---- */

static void on_due(struct loop_timer *t)
{
	struct http_call *c = container_of(t, struct http_call, timer);
	turn_bill(c->seat.party);
	if (c->due && c->due <= loop_now(c->cl->loop)) {
		c->due = 0;
		if (c->link && c->link->connecting)
			call_fail(c, HTTP_FAIL_CONNECT, "connecting took too long");
		else
			call_fail(c, HTTP_FAIL_TIMEOUT,
				call_has_head(c) ? "the response stalled" : "no response came in time");
	}
	call_step(c);
}

void call_due_in(struct http_call *c, uint32_t ms)
{
	c->due = ms ? loop_now(c->cl->loop) + ms : 0;
}

static void call_arm(struct http_call *c)
{
	uint64_t now = loop_now(c->cl->loop);
	uint64_t due = c->due;
	/* Not watched while connecting: the backlog of a unix socket is full. */
	if (c->link && c->link->connecting && !c->link->w.io.loop && (!due || due > now + CONNECT_AGAIN_MS))
		due = now + CONNECT_AGAIN_MS;
	if (due && (!c->timer.pos || c->timer.due > due))
		loop_timer_set(c->cl->loop, &c->timer, due > now ? due - now : 0, on_due);
}

/* ---- connection ---- */

static void call_set_connected(struct http_call *c)
{
	c->link->connecting = c->link->w.held = false;
	call_due_in(c, c->head_ms);
}

static void try_connect(struct http_call *c)
{
	if (link_connect(c->link, &c->fail) && c->fail.fail == HTTP_FAIL_NONE)
		call_set_connected(c);
}

static void call_attach(struct http_call *c, struct link *k)
{
	c->link = k;
	c->seat.io = k ? &k->w.io : NULL;
	if (!k)
		return;
	link_waits(k, c);
	c->sent_before = c->sent_seen = k->w.sent;
	call_due_in(c, k->connecting ? c->connect_ms : c->head_ms);
	if (k->connecting)
		try_connect(c);
}

/* Also if it is unknown whether the request arrived. */
static bool may_repeat(const struct http_call *c)
{
	return c->body_length == 0 && http_method_idempotent(c->method);
}

/* A reused connection was dead: send the request again on a fresh one, if that cannot take effect twice. */
static bool call_repeat(struct http_call *c)
{
	struct link *old = c->link;
	uint64_t sent = bytes_sent(c);
	bool safe = sent == 0 || may_repeat(c);
	if (c->fail.fail != HTTP_FAIL_CLOSED || !old || !old->reused || c->answer != ANSWER_NONE || c->repeated ||
		!safe)
		return false;
	c->repeated = true;
	c->eof = false;
	c->fail = (struct http_failure){0};
	struct buf out = {0};
	if (sent == 0) {
		out = old->w.out;
		old->w.out = (struct buf){0};
	}
	link_release(old, false);
	call_attach(c, link_get(c->cl, &c->ep, true, &c->fail));
	if (c->link)
		c->link->w.out.wipe |= c->head.wipe;
	if (c->link)
		wire_put(&c->link->w, sent ? buf_str(&c->head) : buf_str(&out));
	buf_free(&out);
	return true;
}

static void finish_connect(struct http_call *c)
{
	int os = 0;
	socklen_t len = sizeof os;
	getsockopt(c->link->w.fd, SOL_SOCKET, SO_ERROR, &os, &len);
	if (os == 0)
		return call_set_connected(c);
	call_fail(c, HTTP_FAIL_CONNECT, "connect");
	err_os(&c->fail.err, c->fail.err.code, os, "connect");
}

/* ---- input ---- */

static void call_feed_leftover(struct http_call *c)
{
	size_t used = call_feed(c, buf_str(&c->in));
	buf_consume(&c->in, used);
	wire_relax(&c->in);
}

static void call_read(struct http_call *c)
{
	char *p;
	turn_use(&c->seat);
	ssize_t n = wire_read(&c->link->w, &p);
	if (n == -EAGAIN)
		return;
	if (n == 0)
		return call_eof(c);
	if (n < 0) {
		call_fail(c, HTTP_FAIL_CLOSED, "read the response");
		err_os(&c->fail.err, c->fail.err.code, (int)-n, "read the response");
		return;
	}
	c->cl->heard = loop_now(c->cl->loop);
	if (buf_size(&c->in)) {
		buf_add(&c->in, p, (size_t)n);
		return call_feed_leftover(c);
	}
	size_t used = call_feed(c, str_n(p, (size_t)n));
	buf_add(&c->in, p + used, (size_t)n - used);
}

/* An incomplete head waits in `in` for more; anything else there must be used up first. */
static bool wants_read(const struct http_call *c)
{
	return call_wants_input(c) && !c->eof && (!buf_size(&c->in) || c->reply == REPLY_HEAD);
}

/* A unit of work: what the events ask for, and what is left over. */
static void act(struct turn_seat *seat, uint32_t events)
{
	struct http_call *c = container_of(seat, struct http_call, seat);
	struct link *k = c->link;
	if (k->connecting) {
		finish_connect(c);
		return call_step(c);
	}
	if (events & EPOLLOUT)
		wire_writable(&k->w);
	if (wants_read(c) && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		call_read(c);
	else if (events & (EPOLLHUP | EPOLLERR))
		wire_unwatch(&k->w);
	else
		k->input_waits |= (events & EPOLLIN) != 0;
	call_step(c);
}

void call_on_ready(struct link *k, uint32_t events)
{
	struct http_call *c = k->call;
	turn_bill(c->seat.party);
	if (turn_admit(&c->seat, events))
		act(&c->seat, events);
}

static void call_watch(struct http_call *c)
{
	struct link *k = c->link;
	if (k->connecting)
		return;
	bool in = wants_read(c) && !turn_waits(&c->seat);
	k->input_waits = !in && (k->input_waits || turn_waits(&c->seat));
	uint32_t events = 0;
	if (in || (!k->input_waits && !c->eof))
		events |= EPOLLIN;
	events |= wire_out_event(&k->w);
	bool rests = !k->w.io.loop && !in;
	if (!rests && wire_watch(&k->w, events) < 0)
		call_fail(c, HTTP_FAIL_CLOSED, "the connection cannot be watched");
}

/* ---- steps ---- */

static void free_call(struct loop_task *t)
{
	struct http_call *c = container_of(t, struct http_call, free_task);
	turn_party_leave(&c->own);
	turn_party_unref(c->joined);
	buf_free(&c->head);
	buf_free(&c->in);
	buf_free(&c->trailers);
	head_mem_free(&c->mem);
	free(c);
}

void call_close(struct http_call *c)
{
	bool failed = c->fail.fail != HTTP_FAIL_NONE;
	c->fail.maybe_processed = bytes_sent(c) > 0;
	if (c->link) {
		bool whole = call_request_ended(c) && !wire_pending(&c->link->w) && !buf_size(&c->in) && !c->eof;
		bool reusable = !failed && whole && c->response.keep_alive && c->reply != REPLY_RAW;
		link_release(c->link, reusable);
		c->link = NULL;
	}
	turn_leave(&c->seat);
	loop_timer_stop(&c->timer);
	list_del(&c->task.node);
	list_del(&c->node);
	c->reply = REPLY_DONE;
	if (c->ops->on_close)
		c->ops->on_close(c, failed ? &c->fail : NULL);
	loop_defer(c->cl->loop, &c->free_task, free_call);
}

static bool is_done(const struct http_call *c)
{
	if (c->answer != ANSWER_TOLD)
		return false;
	return c->reply != REPLY_RAW || (call_request_ended(c) && !wire_pending(&c->link->w));
}

/* Does one thing that is due; false when nothing is due. */
static bool step_once(struct http_call *c)
{
	struct link *k = c->link;
	struct wire *w = &k->w;
	if (k->connecting && !w->io.loop) {
		try_connect(c);
		return !k->connecting || c->fail.fail != HTTP_FAIL_NONE;
	}
	wire_flush(w);
	if (!c->sent_told && bytes_sent(c) >= buf_size(&c->head)) {
		c->sent_told = true;
		if (c->ops->on_sent)
			c->ops->on_sent(c);
	} else if (wire_take_room(w)) {
		if (!call_request_ended(c) && c->ops->on_writable)
			c->ops->on_writable(c);
	} else if (c->reply == REPLY_RAW && c->request == REQUEST_ENDED && !wire_pending(w)) {
		shutdown(w->fd, SHUT_WR);
		call_request(c, REQUEST_SHUT);
	} else if (c->answer == ANSWER_ENDED && !c->paused) {
		call_reply_end(c);
	} else {
		size_t before = buf_size(&c->in);
		bool usable = before && call_wants_input(c) && (c->reply != REPLY_HEAD || c->scan.at == 0);
		if (usable && turn_go_on(&c->seat))
			call_feed_leftover(c);
		return buf_size(&c->in) != before;
	}
	return true;
}

/* Sending failed. An answer may have come before the peer closed (a refusal of a long body): look for it first. */
static void sort_out_broken(struct http_call *c)
{
	bool overflow = c->link->w.out.failed;
	if (overflow || (c->reply == REPLY_RAW && !call_wants_input(c)))
		call_fail(c, HTTP_FAIL_CLOSED, "the connection broke");
	else if (wants_read(c))
		call_read(c);
}

/* The time for the head runs while the request stands still: a long body may take long. */
static void begin_anew(struct http_call *c)
{
	if (c->reply != REPLY_HEAD || c->link->w.sent == c->sent_seen)
		return;
	c->sent_seen = c->link->w.sent;
	call_due_in(c, c->head_ms);
}

void call_step(struct http_call *c)
{
	if (c->reply == REPLY_DONE)
		return;
	INVARIANT(c->link || c->fail.fail != HTTP_FAIL_NONE);
	while (c->fail.fail == HTTP_FAIL_NONE && !is_done(c)) {
		if (step_once(c))
			continue;
		if (c->link->w.broken)
			sort_out_broken(c);
		break;
	}
	if (c->fail.fail != HTTP_FAIL_NONE && call_repeat(c))
		return call_step(c);
	if (c->fail.fail != HTTP_FAIL_NONE || is_done(c))
		return call_close(c);
	begin_anew(c);
	call_watch(c);
	call_arm(c);
	if (c->fail.fail != HTTP_FAIL_NONE)
		call_close(c);
}

static void run_step(struct loop_task *t)
{
	struct http_call *c = container_of(t, struct http_call, task);
	turn_bill(c->seat.party);
	call_step(c);
}

static void call_kick(struct http_call *c)
{
	if (c->reply != REPLY_DONE)
		loop_defer(c->cl->loop, &c->task, run_step);
}

void http_client_give_up(struct http_client *cl, const char *why)
{
	for (struct list *n = cl->calls.next; n != &cl->calls; n = n->next) {
		struct http_call *c = list_entry(n, struct http_call, node);
		call_fail(c, HTTP_FAIL_TIMEOUT, why);
		call_kick(c);
	}
}

/* ---- for callers ---- */

static struct http_call *call_new(struct http_client *cl, struct turn_party *joined, const struct http_call_options *o,
	const struct http_call_ops *ops, void *arg)
{
	struct http_call *c = xcalloc(1, sizeof *c);
	c->cl = cl;
	turn_party_init(&c->own, cl->loop, false);
	c->joined = turn_party_ref(joined);
	c->seat = (struct turn_seat){.party = joined ? joined : &c->own, .run = act};
	c->ops = ops;
	c->arg = arg;
	c->body_length = c->body_left = o->content_length;
	c->request = o->content_length == 0 && !o->upgrade ? REQUEST_ENDED : REQUEST_OPEN;
	c->upgrade = o->upgrade;
	c->connect_ms = o->connect_ms ? o->connect_ms : HTTP_CONNECT_TIMEOUT;
	c->head_ms = o->head_ms;
	c->stall_ms = o->stall_ms;
	c->in.max = 2 * HTTP_READ_CHUNK + HTTP_HEAD_MAX;
	c->chunk.trailers = &c->trailers;
	list_push(&cl->calls, &c->node);
	struct err e;
	if (call_render(c, o, &e) < 0)
		call_fail(c, HTTP_FAIL_PROTOCOL, e.msg);
	call_kick(c);
	return c;
}

struct http_call *http_call_start(struct http_client *cl, const struct http_endpoint *ep,
	const struct http_call_options *o, const struct http_call_ops *ops, void *arg)
{
	struct http_call *c = call_new(cl, ep->party, o, ops, arg);
	c->ep = *ep;
	if (c->fail.fail == HTTP_FAIL_NONE)
		call_attach(c, link_get(cl, ep, o->fresh || o->upgrade, &c->fail));
	if (c->link)
		c->link->w.out.wipe |= c->head.wipe;
	if (c->link)
		wire_put(&c->link->w, buf_str(&c->head));
	return c;
}

struct http_call *http_call_start_fd(
	struct http_client *cl, int fd, const struct http_call_options *o, const struct http_call_ops *ops, void *arg)
{
	struct http_call *c = call_new(cl, NULL, o, ops, arg);
	call_attach(c, link_adopt(cl, fd));
	wire_put(&c->link->w, buf_str(&c->head));
	return c;
}

int http_call_window(struct http_call *c, uint32_t window)
{
	if (!c->link || c->link->w.fd < 0)
		return -1;
	wire_window(&c->link->w, window);
	return c->link->w.fd;
}

void *http_call_arg(const struct http_call *c)
{
	return c->arg;
}

const struct http_response *http_call_response(const struct http_call *c)
{
	return call_has_head(c) ? &c->response : NULL;
}

bool http_call_write(struct http_call *c, struct str bytes)
{
	if (!bytes.n || call_request_ended(c) || !c->link || c->reply == REPLY_DONE)
		return true;
	struct wire *w = &c->link->w;
	if (c->reply == REPLY_RAW)
		return wire_put(w, bytes);
	if (c->body_length >= 0) {
		if ((int64_t)bytes.n > c->body_left)
			bytes.n = (size_t)c->body_left;
		c->body_left -= (int64_t)bytes.n;
		return wire_put(w, bytes);
	}
	char size[20];
	int n = snprintf(size, sizeof size, "%zx\r\n", bytes.n);
	struct iovec v[] = {{size, (size_t)n}, {(void *)bytes.p, bytes.n}, {(void *)"\r\n", 2}};
	return wire_write(w, v, 3);
}

struct str http_call_trailers(const struct http_call *c)
{
	return buf_str(&c->trailers);
}

void http_call_end(struct http_call *c)
{
	http_call_end_with(c, STR_NULL);
}

void http_call_end_with(struct http_call *c, struct str trailers)
{
	if (call_request_ended(c) || c->reply == REPLY_DONE)
		return;
	if (c->reply != REPLY_RAW && c->body_length > 0 && c->body_left > 0)
		call_fail(c, HTTP_FAIL_CANCELLED, "the request's body ended early");
	else if (c->reply != REPLY_RAW && c->body_length < 0 && c->link)
		wire_write(&c->link->w,
			(struct iovec[]){{(void *)"0\r\n", 3}, {(void *)trailers.p, trailers.n}, {(void *)"\r\n", 2}},
			3);
	call_request(c, REQUEST_ENDED);
	call_kick(c);
}

size_t http_call_pending(const struct http_call *c)
{
	return c->link ? wire_pending(&c->link->w) : 0;
}

void http_call_pause(struct http_call *c)
{
	c->paused = true;
	if (call_has_head(c))
		call_due_in(c, 0);
}

void http_call_resume(struct http_call *c)
{
	if (!c->paused)
		return;
	c->paused = false;
	if (call_has_head(c) && c->reply != REPLY_RAW)
		call_due_in(c, c->stall_ms);
	call_kick(c);
}

void http_call_cancel(struct http_call *c)
{
	call_fail(c, HTTP_FAIL_CANCELLED, "given up");
	call_kick(c);
}

bool http_call_is_raw(const struct http_call *c)
{
	return c->reply == REPLY_RAW;
}
