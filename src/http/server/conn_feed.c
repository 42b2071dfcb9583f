/* The effect of arriving bytes on a connection, state by state. */
#include "http/server/conn.h"

bool conn_wants_body(const struct http_conn *c)
{
	return c->state == CONN_OPEN && !exchange_body_ended(&c->x) && !c->x.paused && c->x.end != END_ABORT &&
	       c->x.collect != COLLECT_TOO_LARGE;
}

/* False: nothing more can be used now. */
static bool feed_head(struct http_conn *c, struct str *in)
{
	struct err e;
	ssize_t n = head_scan(&c->scan, HEAD_REQUEST, *in, &e);
	if (n == 0) {
		if (!list_empty(&c->idle))
			conn_due_in(c, c->s->config.head_timeout);
		conn_leave_idle(c);
		return false;
	}
	if (n < 0 || head_parse_request(&c->x.mem, &c->scan, str_n(in->p, (size_t)n), &c->x.req, &e) < 0) {
		conn_refuse(c, &e);
		return false;
	}
	*in = str_skip(*in, (size_t)n);
	conn_leave_idle(c);
	c->s->stats.requests++;
	c->state = CONN_OPEN;
	exchange_open(&c->x);
	conn_due_in(c, exchange_body_ended(&c->x) ? 0 : c->s->config.body_stall);
	c->s->on_request(&c->x, c->s->arg);
	if (c->state != CONN_DEAD && !c->x.vouched)
		place_set_rank(c, HTTP_STRANGER);
	if (c->state != CONN_DEAD)
		conn_turn_asked(c);
	return true;
}

static void collect(struct http_exchange *x, struct str data)
{
	if (buf_size(&x->collected) + data.n > x->collect_max)
		exchange_collect(x, COLLECT_TOO_LARGE);
	else
		buf_add_str(&x->collected, data);
}

static void deliver(struct http_conn *c, struct str data)
{
	struct http_exchange *x = &c->x;
	conn_due_in(c, x->body == BODY_RAW ? 0 : c->s->config.body_stall);
	x->continue_due = false;
	if (exchange_ended(x) && x->body != BODY_RAW)
		return;
	if (x->collect == COLLECT_ON)
		collect(x, data);
	else if (x->ops && x->ops->on_body)
		x->ops->on_body(x, data);
}

void conn_body_end(struct http_conn *c)
{
	struct http_exchange *x = &c->x;
	exchange_input(x, INPUT_TOLD);
	if (x->collect == COLLECT_ON)
		exchange_collect(x, COLLECT_DUE);
	else if (x->collect == COLLECT_OFF && x->ops && x->ops->on_body_end)
		x->ops->on_body_end(x);
}

/* The next piece of the body inside *in. False when the framing is broken. */
static bool next_piece(struct http_exchange *x, struct str *in, struct str *ret_data, bool *ret_end)
{
	*ret_data = (struct str){in->p, 0};
	*ret_end = false;
	if (x->body == BODY_CHUNKED) {
		unsigned *heads = turn_chunks(&conn_of(x)->chunks, &conn_of(x)->seat);
		enum chunk_result r = chunk_gather(&x->chunk, in, heads, ret_data);
		*ret_end = r == CHUNK_END;
		return r != CHUNK_BAD;
	}
	size_t n = in->n;
	if (x->body == BODY_LENGTH && (int64_t)n > x->body_left)
		n = (size_t)x->body_left;
	*ret_data = str_n(in->p, n);
	*in = str_skip(*in, n);
	if (x->body == BODY_LENGTH) {
		x->body_left -= (int64_t)n;
		*ret_end = x->body_left == 0;
	}
	return true;
}

static bool feed_body(struct http_conn *c, struct str *in)
{
	struct http_exchange *x = &c->x;
	struct str data;
	bool end;
	if (!next_piece(x, in, &data, &end)) {
		struct err e;
		err_set(&e, ERRC_INVALID_REQUEST, "the chunked body is malformed");
		conn_refuse(c, &e);
		return false;
	}
	if (data.n)
		deliver(c, data);
	if (end) {
		exchange_input(x, INPUT_ENDED);
		place_body_ended(c);
		conn_due_in(c, 0);
		/* A pause inside on_body also holds back the end: it is told after the resume. */
		if (!x->paused)
			conn_body_end(c);
	}
	return true;
}

/* The body is not wanted any more, but the next request begins behind its end. */
static bool feed_drain(struct http_conn *c, struct str *in)
{
	struct str data;
	bool end;
	size_t before = in->n;
	if (!next_piece(&c->x, in, &data, &end) || before - in->n > c->drain_left) {
		c->state = CONN_CLOSING;
		return false;
	}
	c->drain_left -= (uint32_t)(before - in->n);
	if (end) {
		place_body_ended(c);
		conn_to_head(c);
	}
	return true;
}

/* False: it has read its chunks of this turn. */
static bool has_chunks(struct http_conn *c)
{
	if (c->x.body != BODY_CHUNKED || *turn_chunks(&c->chunks, &c->seat))
		return true;
	turn_wait(&c->seat);
	return false;
}

size_t conn_feed(struct http_conn *c, struct str in)
{
	size_t before = in.n;
	bool more = true;
	while (in.n && more) {
		switch (c->state) {
		case CONN_HEAD:
			more = feed_head(c, &in);
			break;
		case CONN_OPEN:
			more = conn_wants_body(c) && has_chunks(c) && feed_body(c, &in);
			break;
		case CONN_DRAIN:
			more = has_chunks(c) && feed_drain(c, &in);
			break;
		case CONN_CLOSING:
		case CONN_LINGER:
		case CONN_DEAD:
			in.n = 0;
			break;
		}
	}
	return before - in.n;
}
