/*
 * A real client on a socket pair gets the input as a server's bytes. Its first byte chooses the question (GET, HEAD, an
 * upgrade). Whole and in pieces the call must end the same way; a GET that ended well must have the body that llhttp
 * reads from the same bytes. Every call must end once the server has ended.
 */
#include <llhttp.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "http/client/client.h"
#include "http/limits.h"

enum { INPUT_MAX = 128 * 1024, TURNS_MAX = 100000 };

struct run {
	struct http_call *c;
	struct buf body;
	int status, infos, heads, ends, closes;
	bool raw;
	enum http_fail fail;
};

static struct run *run_of(struct http_call *c)
{
	struct run *r = http_call_arg(c);
	MUST(!r->closes);
	return r;
}

static void on_info(struct http_call *c, const struct http_response *q)
{
	MUST(q->status >= 100 && q->status < 200 && q->status != 101);
	run_of(c)->infos++;
}

static void on_head(struct http_call *c, const struct http_response *q)
{
	struct run *r = run_of(c);
	MUST(++r->heads == 1);
	MUST(q->headers.n <= HTTP_HEADERS_MAX && (q->status >= 200 || q->status == 101) && q->status < 600);
	r->status = q->status;
	r->raw = http_call_is_raw(c);
	if (r->raw)
		http_call_end(c);
}

static void on_body(struct http_call *c, struct str chunk)
{
	MUST(chunk.n && run_of(c)->heads == 1 && !run_of(c)->ends);
	buf_add_str(&run_of(c)->body, chunk);
}

static void on_body_end(struct http_call *c)
{
	MUST(run_of(c)->heads == 1);
	run_of(c)->ends++;
}

static void on_close(struct http_call *c, const struct http_failure *f)
{
	struct run *r = run_of(c);
	MUST((f != NULL) || r->ends == 1);
	r->fail = f ? f->fail : HTTP_FAIL_NONE;
	r->closes++;
}

static const struct http_call_ops ops = {
	.on_info = on_info, .on_head = on_head, .on_body = on_body, .on_body_end = on_body_end, .on_close = on_close};

static void drive(struct run *r, unsigned kind, struct str in, bool pieces)
{
	struct loop *l = loop_new();
	struct http_client *cl = http_client_new(l);
	struct http_header upgrade = {STR("Upgrade"), STR("foo")};
	struct http_call_options o = {.method = kind == 1 ? STR("HEAD") : STR("GET"), .upgrade = kind == 2};
	o.headers = &upgrade;
	o.headers_n = kind == 2;
	int sv[2];
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) == 0);
	http_call_start_fd(cl, sv[1], &o, &ops, r);
	uint32_t seed = (uint32_t)in.n;
	for (int turns = 0; !r->closes;) {
		send_some(sv[0], &in, pieces, &seed);
		loop_turn(l, 0);
		MUST(++turns < TURNS_MAX);
	}
	close(sv[0]);
	http_client_free(cl);
	loop_turn(l, 0);
	loop_free(l);
}

/* ---- the oracle: the first final response of the stream ---- */

struct oracle {
	llhttp_t parser;
	struct buf body;
	bool final, done;
};

static int o_headers(llhttp_t *p)
{
	container_of(p, struct oracle, parser)->final = p->status_code >= 200;
	/* llhttp leaves it to its user to know that these have no body, whatever they announce. */
	return p->status_code == 204 || p->status_code == 304;
}

static int o_body(llhttp_t *p, const char *at, size_t n)
{
	buf_add(&container_of(p, struct oracle, parser)->body, at, n);
	return 0;
}

static int o_end(llhttp_t *p)
{
	struct oracle *o = container_of(p, struct oracle, parser);
	o->done = o->final;
	return o->final ? HPE_PAUSED : 0;
}

static void ask_oracle(struct oracle *o, struct str in)
{
	static const llhttp_settings_t settings = {
		.on_headers_complete = o_headers, .on_body = o_body, .on_message_complete = o_end};
	llhttp_init(&o->parser, HTTP_RESPONSE, &settings);
	/* "Connection: close" on an interim answer says nothing about the final one. */
	llhttp_set_lenient_keep_alive(&o->parser, 1);
	if (llhttp_execute(&o->parser, in.p, in.n) == HPE_OK)
		llhttp_finish(&o->parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > INPUT_MAX)
		return 0;
	unsigned kind = data[0] % 3;
	struct str in = str_n(data + 1, size - 1);
	struct run whole = {0}, pieces = {0};
	drive(&whole, kind, in, false);
	if (size <= 4096) {
		drive(&pieces, kind, in, true);
		MUST(whole.status == pieces.status && whole.fail == pieces.fail && whole.infos == pieces.infos);
		must_agree("whole and pieces", buf_str(&whole.body), buf_str(&pieces.body));
	}
	if (kind == 0 && whole.fail == HTTP_FAIL_NONE && !misleads_llhttp(in)) {
		struct oracle o = {0};
		ask_oracle(&o, in);
		MUST(o.done);
		MUST(o.parser.status_code == whole.status);
		must_agree("we and llhttp", buf_str(&whole.body), buf_str(&o.body));
		buf_free(&o.body);
	}
	buf_free(&whole.body);
	buf_free(&pieces.body);
	return 0;
}
