#include "http/server/conn.h"

#include "http/limits.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void on_ready(struct loop_io *io, uint32_t events);
static void act(struct turn_seat *seat, uint32_t events);

static void on_flush(struct wire *w)
{
	struct http_conn *c = container_of(w, struct http_conn, w);
	turn_bill(c->seat.party);
	conn_step(c);
}

static void tune_tcp(int fd)
{
	/* Keep-alive probes find peers that vanished without a word, also those that a half-close hides. */
	const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 30},
		{IPPROTO_TCP, TCP_KEEPINTVL, 10},
		{IPPROTO_TCP, TCP_KEEPCNT, 4},
	};
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

int conn_new(struct http_server *s, int fd, int tag, struct turn_party *joined, struct err *e)
{
	struct http_conn *c = xcalloc(1, sizeof *c);
	wire_open(&c->w, s->loop, fd, on_ready, on_flush);
	bool layered = s->layer_open && tag == s->layer_tag;
	if (layered)
		c->w.layer = s->layer_open(s->layer_arg, fd);
	int r = layered && !c->w.layer ? -ENOMEM : wire_watch(&c->w, EPOLLIN | EPOLLRDHUP);
	if (r < 0) {
		wire_close(&c->w, false);
		free(c);
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "watch a connection");
	}
	c->s = s;
	c->tag = tag;
	c->tcp = wire_is_tcp(fd);
	c->in.max = 2 * HTTP_READ_CHUNK + HTTP_HEAD_MAX;
	if (c->tcp)
		tune_tcp(fd);
	conn_turn_begin(c, joined, act);
	list_init(&c->idle);
	list_push(&s->conns, &c->node);
	s->stats.accepted++;
	s->stats.conns++;
	place_take(c);
	conn_to_head(c);
	if (layered)
		conn_due_in(c, s->config.head_timeout);
	c->greeting = layered;
	conn_arm(c);
	return 0;
}

struct str http_exchange_peer(struct http_exchange *x)
{
	struct http_conn *c = conn_of(x);
	struct sockaddr_in6 six = {0};
	struct sockaddr *sa = (struct sockaddr *)&six;
	socklen_t len = sizeof six;
	if (c->peer[0] || !c->tcp || getpeername(c->w.fd, sa, &len) < 0)
		return str_of(c->peer);
	/* A client of a socket that serves both families. */
	if (sa->sa_family == AF_INET)
		inet_ntop(AF_INET, &((struct sockaddr_in *)sa)->sin_addr, c->peer, sizeof c->peer);
	else if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
		inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], c->peer, sizeof c->peer);
	else
		inet_ntop(AF_INET6, &six.sin6_addr, c->peer, sizeof c->peer);
	return str_of(c->peer);
}

static void free_conn(struct loop_task *t)
{
	struct http_conn *c = container_of(t, struct http_conn, free_task);
	head_mem_free(&c->x.mem);
	buf_free(&c->in);
	free(c);
}

/* Tells the handler, once, and leaves nothing of the exchange but its memory for the next head. */
static void close_exchange(struct http_conn *c, bool complete)
{
	const struct http_exchange_ops *ops = c->x.ops;
	if (ops && ops->on_close)
		ops->on_close(&c->x, complete);
	exchange_free(&c->x);
}

void conn_gone(struct http_conn *c)
{
	if (c->state == CONN_DEAD)
		return;
	bool open = c->state == CONN_OPEN;
	/* Where only the end of the connection ends the body, a plain close would look complete. */
	bool reset = open && c->x.out == OUT_UNTIL_CLOSE;
	c->state = CONN_DEAD;
	loop_timer_stop(&c->timer);
	c->s->stats.bytes_out += c->w.sent;
	wire_close(&c->w, reset);
	if (open)
		close_exchange(c, false);
	conn_leave_idle(c);
	place_leave(c);
	conn_turn_end(c);
	list_del(&c->node);
	c->s->stats.conns--;
	loop_defer(c->s->loop, &c->free_task, free_conn);
	server_room_made(c->s);
}

void conn_to_head(struct http_conn *c)
{
	c->scan = (struct head_scan){0};
	if (c->s->draining) {
		c->state = CONN_CLOSING;
		return conn_due_in(c, c->s->config.linger);
	}
	c->state = CONN_HEAD;
	list_push(&c->s->idle[c->rank], &c->idle);
	c->s->stats.idle++;
	conn_due_in(c, c->s->config.idle_timeout);
	if (c->s->resting)
		server_room_made(c->s);
}

void conn_leave_idle(struct http_conn *c)
{
	if (list_empty(&c->idle))
		return;
	list_del(&c->idle);
	c->s->stats.idle--;
}

void conn_refuse(struct http_conn *c, const struct err *e)
{
	bool open = c->state == CONN_OPEN;
	if (c->state == CONN_DEAD)
		return;
	/* The response is complete and goes out. The broken rest of the request only ends the connection. */
	if (open && exchange_ended(&c->x) && c->x.body != BODY_RAW) {
		exchange_end_at_least(&c->x, END_CLOSE);
		c->x.paused = true;
		return;
	}
	if (open && exchange_begun(&c->x))
		return conn_gone(c);
	c->s->stats.refused++;
	const struct errc_info *info = errc_info(e->code);
	auto_buf struct buf body = {0};
	if (c->s->on_refusal)
		c->s->on_refusal(c->s->refusal_arg, c->w.io.fd, e, &body);
	else
		error_json(&body, &(struct error_json){.err = e});
	conn_put_status(c, info->status, STR_NULL);
	if (info->status == 405)
		buf_add_c(&c->w.out, "Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS\r\n");
	buf_printf(&c->w.out,
		"Date: %.*s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n",
		STR_ARG(http_date()), c->s->on_refusal ? "text/plain; charset=utf-8" : "application/json",
		buf_size(&body));
	wire_put(&c->w, buf_str(&body));
	conn_leave_idle(c);
	c->state = CONN_CLOSING;
	conn_due_in(c, c->s->config.linger);
	if (open)
		close_exchange(c, false);
}

/* The response is out, whole. */
static void finish(struct http_conn *c)
{
	struct http_exchange *x = &c->x;
	bool body_left = !exchange_body_ended(x);
	bool costly =
		x->continue_due || conn_is_strange(c) || (x->body == BODY_LENGTH && x->body_left > HTTP_DRAIN_MAX);
	bool close_after = x->end != END_KEEP || x->body == BODY_RAW || c->eof || (body_left && costly);
	/* `body` and `chunk` stay for the drain; the handler sees the end now. */
	c->state = close_after ? CONN_CLOSING : body_left ? CONN_DRAIN : CONN_HEAD;
	c->drain_left = HTTP_DRAIN_MAX;
	c->w.full = false;
	c->zeros = 0;
	conn_due_in(c, close_after ? c->s->config.linger : c->s->config.body_stall);
	close_exchange(c, true);
	if (c->state == CONN_HEAD)
		conn_to_head(c);
}

static void shut_down(struct http_conn *c)
{
	wire_shutdown(&c->w);
	c->state = CONN_LINGER;
	if (c->eof)
		return conn_gone(c);
	place_linger(c);
}

static void read_eof(struct http_conn *c)
{
	struct http_exchange *x = &c->x;
	struct err e;
	c->eof = c->half = true;
	switch (c->state) {
	case CONN_HEAD:
		if (!list_empty(&c->idle))
			return conn_gone(c);
		err_set(&e, ERRC_INVALID_REQUEST, "the connection ended inside the head");
		return conn_refuse(c, &e);
	case CONN_OPEN:
		if (x->body == BODY_RAW)
			return conn_body_end(c);
		err_set(&e, ERRC_INVALID_REQUEST, "the connection ended inside the body");
		return conn_refuse(c, &e);
	case CONN_DRAIN:
	case CONN_LINGER:
		return conn_gone(c);
	case CONN_CLOSING:
	case CONN_DEAD:
		return;
	}
}

static bool wants_input(const struct http_conn *c)
{
	if (c->eof)
		return false;
	/* What is left over goes first; the rest of a head must come. */
	if (buf_size(&c->in) && (c->state != CONN_HEAD || !c->scan.at))
		return false;
	if (c->state == CONN_OPEN)
		return conn_wants_body(c);
	return c->state == CONN_HEAD || c->state == CONN_DRAIN || c->state == CONN_LINGER;
}

static void feed_leftover(struct http_conn *c)
{
	size_t used = conn_feed(c, buf_str(&c->in));
	buf_consume(&c->in, used);
	wire_relax(&c->in);
}

/* The handshake of the layer had the time of a head; from here on the connection is idle. */
static void greeted(struct http_conn *c)
{
	if (!c->w.layer->ops->ready(c->w.layer))
		return;
	c->greeting = false;
	conn_due_in(c, c->s->config.idle_timeout);
}

static void read_input(struct http_conn *c)
{
	char *p;
	turn_use(&c->seat);
	ssize_t n = wire_read(&c->w, &p);
	if (c->greeting)
		greeted(c);
	if (n == -EAGAIN)
		return;
	if (n < 0)
		return conn_gone(c);
	if (n == 0)
		return read_eof(c);
	c->s->stats.bytes_in += (uint64_t)n;
	if (buf_size(&c->in)) {
		buf_add(&c->in, p, (size_t)n);
		return feed_leftover(c);
	}
	size_t used = conn_feed(c, str_n(p, (size_t)n));
	buf_add(&c->in, p + used, (size_t)n - used);
}

/* A unit of work: what the events ask for, and what is left over. */
static void act(struct turn_seat *seat, uint32_t events)
{
	struct http_conn *c = container_of(seat, struct http_conn, seat);
	/* The layer had to write before it could read. */
	if (events & EPOLLOUT && c->w.in_waits)
		events |= EPOLLIN;
	if (events & EPOLLOUT)
		wire_writable(&c->w);
	if (events & EPOLLERR)
		conn_gone(c);
	else if (wants_input(c) && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP))
		read_input(c);
	else if (events & EPOLLHUP && c->state == CONN_OPEN && c->x.body == BODY_RAW)
		wire_unwatch(&c->w);
	else if (events & EPOLLHUP)
		conn_gone(c);
	else {
		c->half |= (events & EPOLLRDHUP) != 0;
		c->input_waits |= (events & EPOLLIN) != 0;
	}
	conn_step(c);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct http_conn *c = container_of(io, struct http_conn, w.io);
	turn_bill(c->seat.party);
	if (conn_turn_admit(c, events))
		act(&c->seat, events);
}

/*
 * Epoll is changed as rarely as possible: input stays watched while an exchange runs, until some arrives. A tunnel with
 * both directions shut reports EPOLLHUP for ever; it is not watched while its last bytes may not be read.
 */
static void watch(struct http_conn *c)
{
	bool in = wants_input(c) && !turn_waits(&c->seat);
	c->input_waits = !in && (c->input_waits || turn_waits(&c->seat));
	uint32_t events = c->half ? 0 : EPOLLRDHUP;
	if (in || (!c->input_waits && !c->half))
		events |= EPOLLIN;
	events |= wire_out_event(&c->w);
	bool rests = !c->w.io.loop && !in;
	if (!rests && wire_watch(&c->w, events) < 0)
		conn_gone(c);
}

/* The next request is here already: its answer and those before it leave together. */
static bool gathers(const struct http_conn *c)
{
	const struct http_exchange *x = &c->x;
	if (!buf_size(&c->in) || wire_pending(&c->w) > HTTP_OUT_LOW || turn_waits(&c->seat) || c->eof)
		return false;
	if (c->state == CONN_HEAD)
		return !c->scan.at;
	return c->state == CONN_OPEN && exchange_ended(x) && exchange_body_ended(x) && x->body != BODY_RAW &&
	       x->end == END_KEEP;
}

static bool is_over(const struct http_conn *c)
{
	const struct http_exchange *x = &c->x;
	if (!exchange_ended(x) || (wire_pending(&c->w) && !gathers(c)))
		return false;
	return x->body != BODY_RAW || exchange_body_ended(x);
}

/* Does one thing that is due in an open exchange; false when nothing is due. */
static bool step_open(struct http_conn *c)
{
	struct http_exchange *x = &c->x;
	if (x->end == END_ABORT) {
		conn_gone(c);
	} else if (x->collect == COLLECT_TOO_LARGE) {
		struct err e;
		err_set(&e, ERRC_PAYLOAD_TOO_LARGE, "the body is longer than %zu bytes", x->collect_max);
		conn_refuse(c, &e);
	} else if (wire_take_room(&c->w) || (x->respond == RESPOND_MORE && !c->w.full && turn_go_on(&c->seat))) {
		if (x->respond == RESPOND_MORE)
			exchange_respond(x, RESPOND_BEGUN);
		if (!exchange_ended(x) && x->ops && x->ops->on_writable)
			x->ops->on_writable(x);
	} else if (x->input == INPUT_ENDED && !x->paused) {
		conn_body_end(c);
	} else if (x->collect == COLLECT_DUE) {
		exchange_collect(x, COLLECT_TOLD);
		if (x->ops && x->ops->on_whole_body)
			x->ops->on_whole_body(x, buf_str(&x->collected));
	} else if (x->body == BODY_RAW && x->respond == RESPOND_ENDED && !wire_pending(&c->w)) {
		wire_shutdown(&c->w);
		exchange_respond(x, RESPOND_SHUT);
	} else if (is_over(c)) {
		finish(c);
	} else if (x->continue_due && conn_wants_body(c) && !exchange_begun(x) && !buf_size(&c->in)) {
		x->continue_due = false;
		conn_put_status(c, 100, STR_NULL);
		wire_put(&c->w, STR("\r\n"));
	} else {
		return false;
	}
	return true;
}

/* Whether what is left over may be used now. */
static bool may_feed(struct http_conn *c)
{
	/* An incomplete head has been scanned already: only new bytes from the socket help. */
	if (!buf_size(&c->in) || (c->state == CONN_HEAD && c->scan.at))
		return false;
	if (c->state == CONN_OPEN && !conn_wants_body(c))
		return false;
	/* What comes behind the last answer is dropped. */
	if (c->state == CONN_CLOSING || c->state == CONN_LINGER)
		return true;
	return turn_go_on(&c->seat);
}

static bool step_once(struct http_conn *c)
{
	if (!gathers(c))
		wire_flush(&c->w);
	if (c->w.broken) {
		conn_gone(c);
		return false;
	}
	if (c->state == CONN_OPEN && step_open(c))
		return true;
	if (c->state == CONN_CLOSING && !wire_pending(&c->w)) {
		shut_down(c);
		return true;
	}
	size_t before = buf_size(&c->in);
	enum conn_state was = c->state;
	if (may_feed(c))
		feed_leftover(c);
	return c->state != was || buf_size(&c->in) != before;
}

void conn_step(struct http_conn *c)
{
	while (c->state != CONN_DEAD && step_once(c))
		;
	if (c->state == CONN_DEAD)
		return;
	wire_flush(&c->w);
	if (c->w.broken)
		return conn_gone(c);
	watch(c);
	conn_arm(c);
}
