#include "http/client.h"

#include <arpa/inet.h>
#include <stdlib.h>

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

static void on_sent(struct http_call *c)
{
	((struct ask *)http_call_arg(c))->sents++;
}

static void on_info(struct http_call *c, const struct http_response *r)
{
	(void)r;
	((struct ask *)http_call_arg(c))->infos++;
}

static void on_head(struct http_call *c, const struct http_response *r)
{
	((struct ask *)http_call_arg(c))->status = r->status;
}

static void on_body(struct http_call *c, struct str chunk)
{
	buf_add_str(&((struct ask *)http_call_arg(c))->body, chunk);
}

static void on_body_end(struct http_call *c)
{
	((struct ask *)http_call_arg(c))->ended = true;
}

static void on_writable(struct http_call *c)
{
	((struct ask *)http_call_arg(c))->writables++;
}

static void on_close(struct http_call *c, const struct http_failure *failure)
{
	struct ask *a = http_call_arg(c);
	CHECK_INT(a->closes, 0);
	a->closes++;
	a->c = NULL;
	a->fail = failure ? failure->fail : HTTP_FAIL_NONE;
	a->maybe_processed = failure && failure->maybe_processed;
	CHECK((failure == NULL) == a->ended || failure);
}

static const struct http_call_ops ops = {on_sent, on_info, on_head, on_body, on_body_end, on_writable, on_close};

static struct http_endpoint port(int n)
{
	struct http_endpoint ep = {.in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)n)}};
	ep.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ep.len = sizeof ep.in;
	return ep;
}

static void ask(struct ask *a, struct rig *r, struct http_client *cl, int to, const struct http_call_options *o)
{
	struct http_endpoint ep = port(to);
	*a = (struct ask){.r = r};
	a->c = http_call_start(cl, &ep, o, &ops, a);
}

static void ask_end(struct ask *a)
{
	while (!a->closes)
		rig_turn(a->r);
	buf_free(&a->body);
}

TEST(client_reuses_one_connection)
{
	struct rig r = {0};
	struct ask a;
	rig_start(&r);
	struct http_client *cl = http_client_new(r.l);
	for (int i = 0; i < 5; i++) {
		ask(&a, &r, cl, r.port, &(struct http_call_options){.target = STR("/ping")});
		while (!a.closes)
			rig_turn(&r);
		CHECK_INT(a.fail, HTTP_FAIL_NONE);
		CHECK_INT(a.status, 200);
		CHECK_INT(a.sents, 1);
		CHECK_STR(buf_str(&a.body), "pong");
		buf_free(&a.body);
	}
	CHECK_INT(http_server_stats(r.s).accepted, 1);
	http_client_free(cl);
	rig_stop(&r);
}

TEST(client_sends_a_body_with_a_length_and_in_chunks)
{
	struct rig r = {0};
	struct ask a;
	rig_start(&r);
	struct http_client *cl = http_client_new(r.l);
	for (int chunked = 0; chunked < 2; chunked++) {
		ask(&a, &r, cl, r.port,
			&(struct http_call_options){.method = STR("POST"),
				.target = STR("/echo"),
				.content_length = chunked ? HTTP_CALL_CHUNKED : 11});
		http_call_write(a.c, STR("hello "));
		rig_turn(&r);
		http_call_write(a.c, STR("world"));
		http_call_end(a.c);
		while (!a.closes)
			rig_turn(&r);
		CHECK_INT(a.status, 200);
		CHECK_STR(buf_str(&a.body), "hello world");
		buf_free(&a.body);
	}
	http_client_free(cl);
	rig_stop(&r);
}

TEST(client_says_that_nobody_listens)
{
	struct rig r = {0};
	struct ask a;
	struct stage g;
	rig_start(&r);
	stage_open(&g);
	stage_close(&g);
	struct http_client *cl = http_client_new(r.l);
	ask(&a, &r, cl, g.port, &(struct http_call_options){0});
	CHECK_INT(a.closes, 0);
	ask_end(&a);
	CHECK_INT(a.fail, HTTP_FAIL_CONNECT);
	CHECK(!a.maybe_processed);
	http_client_free(cl);
	rig_stop(&r);
}

TEST_MAIN()
