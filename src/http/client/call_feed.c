/* The effect of arriving bytes on a call. */
#include "http/client/call.h"

enum { INFOS_MAX = 32 };

static bool refuse(struct http_call *c, const struct err *e)
{
	failure_set(&c->fail, HTTP_FAIL_PROTOCOL, e->msg);
	err_wrap(&c->fail.err, "the response is not acceptable");
	return false;
}

static void begin_body(struct http_call *c)
{
	struct http_response *r = &c->response;
	c->reply_left = r->content_length;
	if (r->upgrade)
		c->reply = REPLY_RAW;
	else if (r->chunked)
		c->reply = REPLY_CHUNKED;
	else if (r->content_length < 0)
		c->reply = REPLY_UNTIL_CLOSE;
	else
		c->reply = REPLY_LENGTH;
	call_answer(c, ANSWER_HEADED);
	call_due_in(c, c->reply == REPLY_RAW ? 0 : c->stall_ms);
	if (c->reply == REPLY_LENGTH && c->reply_left == 0)
		call_answer(c, ANSWER_ENDED);
	/* It will not be sent again. A tunnel may live for days. */
	if (c->reply == REPLY_RAW) {
		buf_free(&c->head);
		c->method = STR_NULL;
	}
}

static bool feed_head(struct http_call *c, struct str *in)
{
	struct err e;
	ssize_t n = head_scan(&c->scan, HEAD_RESPONSE, *in, &e);
	if (n == 0)
		return false;
	if (n < 0 || head_parse_response(&c->mem, &c->scan, str_n(in->p, (size_t)n), c->to_head, &c->response, &e) < 0)
		return refuse(c, &e);
	*in = str_skip(*in, (size_t)n);
	c->scan = (struct head_scan){0};
	if (c->response.status == 101 && !c->upgrade) {
		err_set(&e, ERRC_BAD_GATEWAY, "101 without having been asked");
		return refuse(c, &e);
	}
	if (c->response.status < 200 && c->response.status != 101) {
		if (++c->infos > INFOS_MAX) {
			err_set(&e, ERRC_BAD_GATEWAY, "too many interim answers");
			return refuse(c, &e);
		}
		if (c->ops->on_info)
			c->ops->on_info(c, &c->response);
		return true;
	}
	begin_body(c);
	if (c->ops->on_head)
		c->ops->on_head(c, &c->response);
	return true;
}

static bool feed_body(struct http_call *c, struct str *in)
{
	struct str data = {in->p, 0};
	bool end = false;
	if (c->reply == REPLY_CHUNKED) {
		enum chunk_result r = chunk_gather(&c->chunk, in, turn_chunks(&c->chunks, &c->seat), &data);
		end = r == CHUNK_END;
		if (r == CHUNK_BAD) {
			struct err e;
			err_set(&e, ERRC_BAD_GATEWAY, "its chunks are malformed");
			return refuse(c, &e);
		}
	} else {
		size_t n = in->n;
		if (c->reply == REPLY_LENGTH && (int64_t)n > c->reply_left)
			n = (size_t)c->reply_left;
		data = str_n(in->p, n);
		*in = str_skip(*in, n);
		c->reply_left -= c->reply == REPLY_LENGTH ? (int64_t)n : 0;
		end = c->reply == REPLY_LENGTH && c->reply_left == 0;
	}
	call_due_in(c, c->reply == REPLY_RAW ? 0 : c->stall_ms);
	if (end)
		call_answer(c, ANSWER_ENDED);
	if (data.n && c->ops->on_body)
		c->ops->on_body(c, data);
	return !end;
}

/* False: it has read its chunks of this turn. */
static bool has_chunks(struct http_call *c)
{
	if (c->reply != REPLY_CHUNKED || *turn_chunks(&c->chunks, &c->seat))
		return true;
	turn_wait(&c->seat);
	return false;
}

size_t call_feed(struct http_call *c, struct str in)
{
	size_t before = in.n;
	if (c->answer == ANSWER_NONE && in.n) {
		call_answer(c, ANSWER_BEGUN);
		link_answers(c->link);
	}
	bool more = true;
	while (in.n && more && call_wants_input(c) && has_chunks(c))
		more = c->reply == REPLY_HEAD ? feed_head(c, &in) : feed_body(c, &in);
	return before - in.n;
}

void call_eof(struct http_call *c)
{
	c->eof = true;
	if (c->reply == REPLY_RAW || c->reply == REPLY_UNTIL_CLOSE)
		call_answer(c, ANSWER_ENDED);
	else if (c->answer < ANSWER_ENDED)
		call_fail(c, HTTP_FAIL_CLOSED,
			call_has_head(c)	   ? "the connection ended inside the response"
			: c->answer != ANSWER_NONE ? "the connection ended inside the response's head"
						   : "the connection ended before a response came");
}

void call_reply_end(struct http_call *c)
{
	call_answer(c, ANSWER_TOLD);
	if (c->ops->on_body_end)
		c->ops->on_body_end(c);
}
