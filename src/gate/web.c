/*
 * HTTP that is decided by Host, request by request. The client's connection is relayed to one end of a socket pair,
 * whose other end belongs to src/http's server: strict heads and framing, so that the gate and the server behind cannot
 * disagree on where a request ends. Each request is decided on its own and proxied over a connection that was dialled
 * for its name; a kept connection is used again for the same name only.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "gate/web.h"

enum { TAG_PLAIN, TAG_TLS };

static struct str key_of(const int *fd)
{
	return str_n(fd, sizeof *fd);
}

const struct secrets *web_secrets(const struct web *w)
{
	const struct gate_sandbox *s = w->conn ? w->conn->box->sandbox : NULL;
	return s ? s->secrets : NULL;
}

/* ---- answers of our own ---- */

void web_answer(struct http_exchange *x, int status, const char *fmt, ...)
{
	auto_buf struct buf b = {0};
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	http_respond(x, status, "text/plain; charset=utf-8", buf_str(&b));
}

static void log_denied(struct web *w, const char *host, const char *why)
{
	struct passage *c = w->conn;
	record_send(c->gate, &(struct gate_log){.id = box_id(c->box),
				     .time = clock_wall_ms(),
				     .name = host,
				     .protocol = "http",
				     .decision = "deny",
				     .why = why,
				     .end = "refused",
				     .ip = &c->wanted,
				     .port = c->port});
	c->logged = !c->passed;
	snprintf(c->why, sizeof c->why, "%s", why);
}

static void deny(struct web *w, struct http_exchange *x, const char *host, const char *why)
{
	log_denied(w, host, why);
	web_answer(x, 403, "403 denied: this sandbox may not reach %s port %u (%s)\n", *host ? host : "this address",
		w->conn->port, why);
}

/* A request that the strict parser does not take. */
static void on_refusal(void *arg, int fd, const struct err *e, struct buf *body)
{
	struct gate *g = arg;
	struct web *w = map_get(&g->webs, key_of(&fd));
	char why[GATE_WHY_MAX];
	snprintf(why, sizeof why, "no request that could be read: %.120s", e->msg);
	if (w && w->conn)
		log_denied(w, "", why);
	buf_printf(body, "%d denied: %s\n", errc_info(e->code)->status, why);
}

void web_refuse(struct web *w, const char *why)
{
	struct http_exchange *x = take_ptr(&w->x);
	w->conn->passed &= !w->fresh;
	deny(w, x, w->leg, why);
}

/* ---- one request ---- */

static void forward(struct web *w, struct http_exchange *x);

void web_unreachable(struct web *w, const char *why, bool late)
{
	struct http_exchange *x = w->x;
	w->x = NULL;
	w->lost = true;
	web_answer(x, late ? 504 : 502, "%d %s port %u cannot be reached: %s\n", late ? 504 : 502, w->leg,
		w->conn->port, why);
}

void web_reached(struct web *w, int fd)
{
	struct http_exchange *x = w->x;
	w->x = NULL;
	fd_close(&w->ready);
	w->ready = fd;
	w->server = fd;
	w->server_cookie = tcp_cookie(fd);
	windows_set(w->conn->box, fd);
	w->has_leg = true;
	w->fresh = false;
	forward(w, x);
}

static void on_reached(void *arg, int fd, const struct ip *ip)
{
	struct web *w = arg;
	w->reach = NULL;
	if (fd == REACH_FORBIDDEN)
		return web_refuse(w, reach_why(w->conn->box, ip, w->conn->port));
	if (fd < 0)
		return web_unreachable(w, strerror(-fd), fd == -ETIMEDOUT);
	w->conn->reached = *ip;
	union ip_sockaddr sa;
	w->ep.len = ip_to_sockaddr(ip, w->conn->port, &sa);
	memcpy(&w->ep.sa, &sa, w->ep.len);
	if (w->tls)
		intercept_dial(w, fd);
	else
		web_reached(w, fd);
}

/* The client went while we were dialling. */
static void on_waiting_close(struct http_exchange *x, bool complete)
{
	struct web *w = http_exchange_arg(x);
	(void)complete;
	if (!w || w->x != x)
		return;
	reach_cancel(w->reach);
	worker_ask_cancel(w->worker_ask);
	ask_cancel(&w->asking);
	w->reach = NULL;
	w->worker_ask = NULL;
	intercept_forget(w);
	w->x = NULL;
}

static const struct http_exchange_ops nothing_ops;
static const struct http_exchange_ops waiting_ops = {.on_close = on_waiting_close};

static void dial(struct web *w, struct http_exchange *x)
{
	struct passage *c = w->conn;
	/* The name that a proxy of the box is asked for is not the proxy's own. */
	bool proxied = !c->by_name && http_request(x)->absolute;
	struct reach_to to = {.name = proxied ? "" : w->leg,
		.wanted = c->wanted,
		.port = c->port,
		.own_only = c->by_name && (*w->leg || c->synthetic)};
	w->tried = true;
	w->x = x;
	http_exchange_set(x, &waiting_ops, w);
	http_pause(x);
	if (c->by_worker)
		return worker_dial(w);
	w->reach = reach_start(c->box, &to, on_reached, w);
}

void web_release(struct web *w)
{
	http_client_forget_dialer(w->gate->http_client, &w->dialer);
	intercept_forget(w);
	free(w->chunked);
	free(w);
}

static void on_fail(void *arg, struct http_exchange *x, const struct http_failure *f)
{
	struct web *w = arg;
	w->proxy = NULL;
	if (!w->conn) {
		http_abort(x);
		return web_release(w);
	}
	if (f->untouched && f->fail == HTTP_FAIL_CONNECT && !w->tried)
		return dial(w, x);
	w->lost = true;
	web_answer(x, f->fail == HTTP_FAIL_TIMEOUT ? 504 : 502, "%d %s port %u: %s\n",
		f->fail == HTTP_FAIL_TIMEOUT ? 504 : 502, w->leg, w->conn->port, f->err.msg);
}

void web_done(struct web *w)
{
	w->proxy = NULL;
	if (!w->conn)
		return web_release(w);
	w->sent = w->conn->relay.up.bytes;
}

static void on_done(void *arg, int status, bool complete)
{
	(void)status;
	(void)complete;
	web_done(arg);
}

/* For a proxy that the box uses: the target stays as it was. */
static void keep_form(
	const struct web *w, const struct http_request *rq, struct buf *room, struct http_proxy_options *o)
{
	if (!rq->absolute || w->tls || w->conn->by_worker)
		return;
	buf_printf(room, "http://%.*s%.*s", STR_ARG(rq->host), STR_ARG(rq->target));
	o->target = buf_str(room);
}

static void forward(struct web *w, struct http_exchange *x)
{
	static struct rewrite rewrite; /* large, and good for one call */
	auto_buf struct buf target = {.max = HTTP_HEAD_MAX};
	struct http_proxy_options o = {.on_fail = on_fail, .on_done = on_done, .arg = w};
	keep_form(w, http_request(x), &target, &o);
	bool rewrites = w->tls && web_secrets(w), ok = !rewrites || rewrite_begin(w, http_request(x), &rewrite, &o);
	if (ok)
		w->proxy = http_proxy(x, w->gate->http_client, &w->ep, &o);
	if (rewrites)
		rewrite_end(w, &rewrite);
	if (!ok && rewrite.full)
		web_answer(x, 431, "431 the head of the request to %s has no room for its secrets\n", w->leg);
	else if (!ok)
		web_answer(x, 502, "502 the request to %s cannot be signed\n", w->leg);
}

/* Hands out what was dialled; the pool asks only when it has none. */
static int take(struct http_dialer *d, int family)
{
	struct web *w = container_of(d, struct web, dialer);
	(void)family;
	return w->ready >= 0 ? take_fd(&w->ready) : -EAGAIN;
}

static void use_leg(struct web *w, const char *name)
{
	if (w->has_leg && strcmp(w->leg, name) == 0)
		return;
	http_client_forget_dialer(w->gate->http_client, &w->dialer);
	intercept_forget(w);
	w->has_leg = false;
	snprintf(w->leg, sizeof w->leg, "%s", name);
}

int web_server(const struct web *w)
{
	return w->server_cookie && tcp_cookie(w->server) == w->server_cookie ? w->server : -1;
}

void web_leg(const struct web *w, struct passage_leg *ret)
{
	ret->name = w->leg;
	ret->why = w->why;
}

/* The host before has its record now. The head of the request that ended it is counted with those that follow. */
static void end_leg(struct web *w)
{
	struct passage *c = w->conn;
	struct passage_leg leg = {w->leg, w->why, w->sent, c->relay.down.bytes};
	passage_log(c, &leg, "allow", w->lost ? "cannot be reached" : "the next request names another host");
	w->lost = false;
	c->told_sent = leg.sent;
	c->told_received = leg.received;
	c->started = loop_now(c->gate->loop);
	c->wall = clock_wall_ms();
}

void web_begin_leg(struct web *w, const char *name, const char *why)
{
	struct passage *c = w->conn;
	w->fresh = !c->passed || strcmp(w->leg, name) != 0;
	if (c->passed && w->fresh)
		end_leg(w);
	c->passed = true;
	c->logged = false;
	snprintf(c->why, sizeof c->why, "%s", why);
	snprintf(w->why, sizeof w->why, "%s", c->why);
	use_leg(w, name);
}

/* True: a placeholder stands where it may not, and the request is refused. */
static bool deny_secret(struct web *w, struct http_exchange *x, const char *host, const struct secret_way *way)
{
	struct secret_fault f = secrets_misplaced(web_secrets(w), http_request(x), way);
	char why[GATE_WHY_MAX];
	if (!f.secret)
		return false;
	if (*f.member)
		snprintf(why, sizeof why, "a placeholder of secret '%s' there needs \"%s\" in its 'in'", f.secret->name,
			f.member);
	else if (way->name && secret_goes_to(f.secret, way->name, way->port))
		snprintf(why, sizeof why, "the placeholder of secret '%s' may not stand there", f.secret->name);
	else
		snprintf(why, sizeof why, "the placeholder of secret '%s' may go only to its hosts, over TLS",
			f.secret->name);
	deny(w, x, host, why);
	return true;
}

/* A server answers TRACE with the head that it has got. */
static bool deny_trace(struct web *w, struct http_exchange *x, const char *host)
{
	if (!w->tls || !web_secrets(w) || http_request(x)->method != HTTP_M_TRACE)
		return false;
	deny(w, x, host, "TRACE would show the value of a secret");
	return true;
}

static void go_on(struct web *w, struct http_exchange *x)
{
	if (w->has_leg)
		forward(w, x);
	else
		dial(w, x);
}

static void on_collected(struct http_exchange *x, struct str body)
{
	struct web *w = http_exchange_arg(x);
	w->body = body;
	go_on(w, x);
}

static const struct http_exchange_ops collecting_ops = {.on_whole_body = on_collected, .on_close = on_waiting_close};

/* What has to be known of a request's body before its head can go on. */
static void prepare(struct web *w, struct http_exchange *x)
{
	switch (rewrite_need(w, http_request(x))) {
	case REWRITE_TOO_LONG:
		return web_answer(x, 413,
			"413 this service needs the hash of the body before its head: at most %u bytes, with a "
			"Content-Length\n",
			GATE_AWS_BODY_MAX);
	case REWRITE_NO_LENGTH:
		return web_answer(x, 411, "411 a signed upload in chunks needs x-amz-decoded-content-length\n");
	case REWRITE_COLLECT:
		w->x = x;
		http_exchange_set(x, &collecting_ops, w);
		return http_collect(x, GATE_AWS_BODY_MAX);
	case REWRITE_NONE:
	case REWRITE_HEAD:
		return go_on(w, x);
	}
}

/* Allowed. */
static void proceed(struct web *w, struct http_exchange *x, const char *name, const char *why)
{
	web_begin_leg(w, name, why);
	w->tried = w->lost = false;
	w->body = STR_NULL;
	prepare(w, x);
}

/* ---- a request that waits for an approval ---- */

static void on_asked(struct ask_wait *a, enum ask_answer answer)
{
	struct web *w = container_of(a, struct web, asking);
	struct http_exchange *x = w->x;
	struct passage *c = w->conn;
	char text[IP_TEXT], why[GATE_WHY_MAX];
	const struct policy *p = box_policy(c->box);
	w->x = NULL;
	if (answer == ASK_ALLOW && p) {
		passage_approve(c, passage_host(c, text));
		return proceed(w, x, c->name, "approved once");
	}
	snprintf(why, sizeof why, "ask: nobody approved it within %llu s",
		(unsigned long long)(p ? p->ask_ms / 1000 : 0));
	deny(w, x, c->name, answer == ASK_DENY ? "ask: somebody denied it" : why);
}

static void hold(struct web *w, struct http_exchange *x)
{
	struct passage *c = w->conn;
	char text[IP_TEXT];
	struct ask_what what = {
		.host = passage_host(c, text), .protocol = "http", .wanted = &c->wanted, .port = c->port};
	w->asking.on_answer = on_asked;
	if (!ask_start(c->box, &what, &w->asking))
		return deny(w, x, c->name, "ask: too many connections of this sandbox wait for an approval");
	w->x = x;
	http_exchange_set(x, &waiting_ops, w);
	http_pause(x);
}

/* The policy has changed while a request waits: it may be decided now. */
static void settle_held(struct web *w)
{
	struct passage *c = w->conn;
	struct http_exchange *x = w->x;
	struct verdict v = *c->name ? passage_name_ok(c, c->name, SPEECH_HTTP) : web_decide_address(c);
	if (v.answer == POLICY_ASK)
		return;
	ask_cancel(&w->asking);
	w->x = NULL;
	if (v.answer == POLICY_ALLOW)
		proceed(w, x, c->name, v.why);
	else
		deny(w, x, c->name, v.why);
}

/* A handler is none of a secret's hosts, whichever host it answers for. */
static void hand_over(struct web *w, struct http_exchange *x, const char *name)
{
	if (!deny_secret(w, x, name, &(struct secret_way){NULL, 0}))
		handover(w, x, name);
}

/* workerd decides, whatever the policy says of the name. */
static void ask_worker(struct web *w, struct http_exchange *x, const char *name, const struct verdict *v)
{
	if (deny_secret(w, x, name, &(struct secret_way){NULL, 0}))
		return;
	if (http_request(x)->method == HTTP_M_CONNECT)
		return deny(w, x, name, "CONNECT is not passed on where a Worker decides");
	if (*name)
		snprintf(w->conn->name, sizeof w->conn->name, "%s", name);
	w->allowed = v->answer == POLICY_ALLOW;
	web_begin_leg(w, name, "outbound handler");
	w->tried = false;
	go_on(w, x);
}

static void on_request(struct http_exchange *x, void *arg)
{
	struct gate *g = arg;
	int fd = http_exchange_fd(x);
	struct web *w = map_get(&g->webs, key_of(&fd));
	char name[NET_NAME_MAX + 1];
	if (!w)
		return http_abort(x);
	const struct http_request *rq = http_request(x);
	struct verdict v = web_decide(w, rq, name);
	bool bad_host = w->tls && strcmp(name, w->conn->name) != 0;
	if (!bad_host && w->conn->by_worker)
		return ask_worker(w, x, name, &v);
	if (!bad_host && rq->method != HTTP_M_CONNECT && handover_wants(w, name))
		return hand_over(w, x, name);
	if ((*name || v.answer == POLICY_ASK) && !w->tls)
		snprintf(w->conn->name, sizeof w->conn->name, "%s", name);
	if (v.answer == POLICY_DENY)
		return deny(w, x, name, v.why);
	if (deny_secret(w, x, name, &(struct secret_way){w->tls ? name : NULL, w->conn->port}) ||
		deny_trace(w, x, name))
		return;
	if (v.answer == POLICY_ASK)
		return hold(w, x);
	proceed(w, x, name, v.why);
}

/* ---- life ---- */

static void on_relay_end(struct relay *r, enum relay_end how)
{
	static const char *const text[] = {[RELAY_CLOSED] = "closed",
		[RELAY_CLIENT_RESET] = "the client reset",
		[RELAY_SERVER_RESET] = "broken off",
		[RELAY_IDLE] = "idle too long",
		[RELAY_UNWATCHED] = "cannot be watched"};
	struct passage *c = container_of(r, struct passage, relay);
	if (how != RELAY_CLOSED)
		relay_reset(&c->client);
	bool unread = !c->passed && !c->tls;
	if (unread && !c->logged)
		snprintf(c->why, sizeof c->why, "no request that could be read");
	bool lost = how == RELAY_CLOSED && c->web && c->web->lost;
	passage_end(c, unread ? "deny" : "allow", lost ? "cannot be reached" : text[how]);
}

int web_start(struct passage *c)
{
	struct gate *g = c->gate;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	c->server = pair[0];
	struct web *w = xcalloc(1, sizeof *w);
	w->dialer = (struct http_dialer){.take = take, .idle_max = 1, .idle_ms = GATE_WEB_IDLE};
	w->tls = c->tls;
	if (w->tls && !c->by_worker)
		w->dialer.layer = intercept_layer;
	w->gate = g;
	w->conn = c;
	w->inner = pair[1];
	w->ready = w->server = -1;
	w->ep.dialer = &w->dialer;
	w->ep.party = c->box->bucket.party;
	c->web = w;
	map_put(&g->webs, key_of(&w->inner), w);
	if (http_server_adopt(g->http, pair[1], c->tls ? TAG_TLS : TAG_PLAIN, c->box->bucket.party, NULL) < 0)
		return -ENOMEM;
	windows_set(c->box, c->client);
	relay_start(&c->relay, g->loop, c->client, c->server, &c->box->bucket, on_relay_end);
	c->relay.order = &c->box->conns;
	c->relay.place = &c->node;
	return 0;
}

void web_free(struct web *w)
{
	struct gate *g = w->gate;
	/* The number may belong to another connection by now. */
	if (map_get(&g->webs, key_of(&w->inner)) == w)
		map_del(&g->webs, key_of(&w->inner));
	if (w->x)
		http_exchange_set(w->x, &nothing_ops, NULL);
	reach_cancel(w->reach);
	worker_ask_cancel(w->worker_ask);
	intercept_forget(w);
	ask_cancel(&w->asking);
	w->conn->web = NULL;
	w->conn = NULL;
	if (w->proxy)
		http_proxy_abort(w->proxy);
	else
		web_release(w);
}

bool web_is_held(const struct web *w)
{
	return w->asking.ask != NULL;
}

bool web_policy(struct web *w)
{
	struct passage *c = w->conn;
	if (web_is_held(w)) {
		settle_held(w);
		return true;
	}
	if (!w->has_leg && !w->x)
		return true; /* no request yet, or it was refused: the next one is decided by itself */
	if (!*w->leg)
		return web_decide_address(c).answer == POLICY_ALLOW;
	return passage_name_ok(c, w->leg, w->tls ? SPEECH_TLS : SPEECH_HTTP).answer == POLICY_ALLOW;
}

int web_init(struct gate *g, struct err *e)
{
	g->http = http_server_new(g->loop, on_request, g);
	g->http_client = http_client_new(g->loop);
	if (!g->http || !g->http_client)
		return err_set(e, ERRC_INTERNAL_ERROR, "no HTTP server");
	http_server_config(g->http)->conns_max = GATE_CONNS_MAX;
	http_server_set_refusal(g->http, on_refusal, g);
	http_server_set_layer(g->http, TAG_TLS, intercept_accept, g);
	return 0;
}
