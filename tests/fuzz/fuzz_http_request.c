/*
 * A real server on a socket pair gets the input as a client's bytes, once whole and once in pieces: both times the same
 * requests must reach the handler. llhttp reads the same stream as an oracle: whatever our server took for a request,
 * with its body, llhttp must have seen as the same request at the same place. (The other way round does not hold: we
 * refuse more.) The connection must always come to an end once the client has ended.
 */
#include <llhttp.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "fuzz.h"
#include "http/limits.h"
#include "http/server/server.h"

enum { INPUT_MAX = 128 * 1024, TURNS_MAX = 100000 };

struct run {
	struct buf log;
	int active;
};

/* ---- ours ---- */

static void on_whole(struct http_exchange *x, struct str body)
{
	struct run *r = http_exchange_arg(x);
	const struct http_request *q = http_request(x);
	MUST(q->path.n && q->headers.n <= HTTP_HEADERS_MAX && q->target.n <= HTTP_TARGET_MAX);
	MUST(q->minor == 0 || q->host.p);
	buf_printf(&r->log, "%.*s %zu:", STR_ARG(q->method_text), body.n);
	buf_add_str(&r->log, body);
	buf_add_c(&r->log, "\n");
	http_respond(x, 200, "text/plain", STR("ok"));
}

static void on_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	((struct run *)http_exchange_arg(x))->active--;
}

static const struct http_exchange_ops ops = {.on_whole_body = on_whole, .on_close = on_close};

static void on_request(struct http_exchange *x, void *arg)
{
	struct run *r = arg;
	MUST(++r->active == 1);
	http_exchange_set(x, &ops, r);
	http_collect(x, INPUT_MAX);
}

static void drop_answers(int fd)
{
	char trash[4096];
	while (recv(fd, trash, sizeof trash, MSG_DONTWAIT) > 0)
		;
}

static void drive(struct run *r, struct str in, bool pieces)
{
	struct loop *l = loop_new();
	struct http_server *s = http_server_new(l, on_request, r);
	int sv[2];
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) == 0);
	MUST(http_server_adopt(s, sv[1], 0, NULL, NULL) == 0);
	uint32_t seed = (uint32_t)in.n;
	int turns = 0;
	while (http_server_stats(s).conns) {
		send_some(sv[0], &in, pieces, &seed);
		loop_turn(l, 0);
		drop_answers(sv[0]);
		MUST(++turns < TURNS_MAX);
	}
	MUST(r->active == 0);
	close(sv[0]);
	http_server_free(s);
	loop_turn(l, 0);
	loop_free(l);
}

/* ---- the oracle ---- */

struct oracle {
	llhttp_t parser;
	struct buf log, body;
};

static int o_begin(llhttp_t *p)
{
	buf_clear(&container_of(p, struct oracle, parser)->body);
	return 0;
}

static int o_body(llhttp_t *p, const char *at, size_t n)
{
	buf_add(&container_of(p, struct oracle, parser)->body, at, n);
	return 0;
}

static int o_end(llhttp_t *p)
{
	struct oracle *o = container_of(p, struct oracle, parser);
	buf_printf(&o->log, "%s %zu:", llhttp_method_name(p->method), buf_size(&o->body));
	buf_add_str(&o->log, buf_str(&o->body));
	buf_add_c(&o->log, "\n");
	return 0;
}

static void ask_oracle(struct oracle *o, struct str in)
{
	static const llhttp_settings_t settings = {
		.on_message_begin = o_begin, .on_body = o_body, .on_message_complete = o_end};
	llhttp_init(&o->parser, HTTP_REQUEST, &settings);
	llhttp_errno_t r = llhttp_execute(&o->parser, in.p, in.n);
	/* An upgrade that nobody accepts: the next request follows. */
	while (r == HPE_PAUSED_UPGRADE) {
		in = str_skip(in, (size_t)(llhttp_get_error_pos(&o->parser) - in.p));
		llhttp_resume_after_upgrade(&o->parser);
		r = llhttp_execute(&o->parser, in.p, in.n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > INPUT_MAX)
		return 0;
	struct str in = str_n(data, size);
	struct run whole = {0}, pieces = {0};
	struct oracle o = {0};
	drive(&whole, in, false);
	if (size <= 4096) {
		drive(&pieces, in, true);
		must_agree("whole and pieces", buf_str(&whole.log), buf_str(&pieces.log));
	}
	if (!misleads_llhttp(in)) {
		ask_oracle(&o, in);
		if (!str_starts(buf_str(&o.log), buf_str(&whole.log)))
			must_agree("we and llhttp", buf_str(&whole.log), buf_str(&o.log));
	}
	buf_free(&whole.log);
	buf_free(&pieces.log);
	buf_free(&o.log);
	buf_free(&o.body);
	return 0;
}
