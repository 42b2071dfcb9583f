/*
 * http_ask.h - a client call that tells a test everything it was told, and a stage for it to call.
 */
#pragma once

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http/client/client.h"
#include "http_rig.h"
#include "test.h"

/* One call and all that it told. */
struct ask {
	struct rig *r;
	struct http_call *c;
	struct buf body;
	int status, infos, sents, writables, closes;
	bool ended;
	enum http_fail fail;
	bool maybe_processed;
};

static inline void ask_on_sent(struct http_call *c)
{
	((struct ask *)http_call_arg(c))->sents++;
}

static inline void ask_on_info(struct http_call *c, const struct http_response *r)
{
	(void)r;
	((struct ask *)http_call_arg(c))->infos++;
}

static inline void ask_on_head(struct http_call *c, const struct http_response *r)
{
	((struct ask *)http_call_arg(c))->status = r->status;
}

static inline void ask_on_body(struct http_call *c, struct str chunk)
{
	buf_add_str(&((struct ask *)http_call_arg(c))->body, chunk);
}

static inline void ask_on_body_end(struct http_call *c)
{
	((struct ask *)http_call_arg(c))->ended = true;
}

static inline void ask_on_writable(struct http_call *c)
{
	((struct ask *)http_call_arg(c))->writables++;
}

static inline void ask_on_close(struct http_call *c, const struct http_failure *failure)
{
	struct ask *a = http_call_arg(c);
	CHECK_INT(a->closes, 0);
	a->closes++;
	a->c = NULL;
	a->fail = failure ? failure->fail : HTTP_FAIL_NONE;
	a->maybe_processed = failure && failure->maybe_processed;
	CHECK((failure == NULL) == a->ended || failure);
}

static const struct http_call_ops ask_ops = {
	ask_on_sent, ask_on_info, ask_on_head, ask_on_body, ask_on_body_end, ask_on_writable, ask_on_close};

static inline struct http_endpoint port(int n)
{
	struct http_endpoint ep = {.in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)n)}};
	ep.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ep.len = sizeof ep.in;
	return ep;
}

static inline void ask(struct ask *a, struct rig *r, struct http_client *cl, int to, const struct http_call_options *o)
{
	struct http_endpoint ep = port(to);
	*a = (struct ask){.r = r};
	a->c = http_call_start(cl, &ep, o, &ask_ops, a);
}

static inline void ask_end(struct ask *a)
{
	while (!a->closes)
		rig_turn(a->r);
	buf_free(&a->body);
}

/* A client and a server of the test's own. */
struct duo {
	struct rig r;
	struct stage g;
	struct http_client *cl;
	struct peer server;
	struct ask a;
};

static inline void duo_start(struct duo *d)
{
	*d = (struct duo){0};
	rig_start(&d->r);
	stage_open(&d->g);
	d->cl = http_client_new(d->r.l);
}

static inline void duo_ask(struct duo *d, const struct http_call_options *o)
{
	ask(&d->a, &d->r, d->cl, d->g.port, o);
}

static inline void duo_stop(struct duo *d)
{
	http_client_free(d->cl);
	stage_close(&d->g);
	rig_stop(&d->r);
	buf_free(&d->a.body);
}
