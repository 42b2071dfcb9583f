/*
 * A connection through the host's proxy: resolve the proxy, dial it, shake hands. The handshake reads exactly its own
 * bytes, so what a server says first stays in the socket.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "base/base64.h"
#include "base/log.h"
#include "gate/gate.h"

enum { REPLY_MAX = 8192 };
enum state { HTTP_HEAD, SOCKS_METHOD, SOCKS_AUTH, SOCKS_REPLY, SOCKS_BOUND };

struct tunnel {
	struct gate *gate;
	struct egress_to to;
	char name[NET_NAME_MAX + 1];
	struct resolve_wait wait;
	struct dial *dial;
	struct loop_io io;
	struct loop_timer limit;
	struct loop_task fail_task;
	int fd, failed;
	enum state state;
	size_t need; /* SOCKS: bytes of the message that is awaited */
	struct buf in;
	dial_on_done on_done;
	void *arg;
};

void tunnel_cancel(struct tunnel *t)
{
	resolver_cancel(&t->wait);
	if (t->dial)
		dial_cancel(t->dial);
	loop_del(&t->io);
	loop_timer_stop(&t->limit);
	list_del(&t->fail_task.node);
	fd_close(&t->fd);
	buf_free(&t->in);
	free(t);
}

static void done(struct tunnel *t, int fd)
{
	dial_on_done on_done = t->on_done;
	void *arg = t->arg;
	struct ip ip = t->to.ip;
	tunnel_cancel(t);
	on_done(arg, fd, &ip);
}

static void fail(struct tunnel *t, int os, const char *why)
{
	log_limited(LOG_WARN, "the egress proxy did not connect", "why=%s", LOG_Q(why));
	done(t, -os);
}

static void on_limit(struct loop_timer *timer)
{
	fail(container_of(timer, struct tunnel, limit), ETIMEDOUT, "it took too long");
}

static void on_fail_task(struct loop_task *task)
{
	struct tunnel *t = container_of(task, struct tunnel, fail_task);
	fail(t, t->failed, "its name has no address");
}

static void fail_later(struct tunnel *t, int os)
{
	t->failed = os;
	loop_defer(t->gate->loop, &t->fail_task, on_fail_task);
}

/* A new connection takes that much without waiting. */
static bool put(struct tunnel *t, struct str bytes)
{
	return send(t->fd, bytes.p, bytes.n, MSG_NOSIGNAL) == (ssize_t)bytes.n;
}

/* ---- HTTP ---- */

static bool http_ask(struct tunnel *t)
{
	const struct egress *x = &t->gate->egress;
	auto_buf struct buf b = {0};
	char where[NET_NAME_MAX + 16], text[IP_TEXT];
	bool six = !*t->name && !ip_is4(&t->to.ip);
	snprintf(where, sizeof where, "%s%s%s:%u", six ? "[" : "", *t->name ? t->name : ip_format(&t->to.ip, text),
		six ? "]" : "", t->to.port);
	buf_printf(&b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", where, where);
	if (x->has_user) {
		auto_buf struct buf both = {0};
		buf_printf(&both, "%s:%s", x->user, x->password);
		buf_add_c(&b, "Proxy-Authorization: Basic ");
		base64_append(&b, buf_str(&both));
		buf_add_c(&b, "\r\n");
	}
	buf_add_c(&b, "\r\n");
	t->state = HTTP_HEAD;
	return put(t, buf_str(&b));
}

static void http_answered(struct tunnel *t)
{
	struct str s = buf_str(&t->in);
	uint64_t status = 0;
	bool known = s.n > 12 && str_starts(s, STR("HTTP/1.")) && s.p[8] == ' ' &&
		     str_to_u64(str_n(s.p + 9, 3), 999, &status);
	if (known && status / 100 == 2)
		return done(t, take_fd(&t->fd));
	char why[64];
	snprintf(why, sizeof why, "it answered %llu", (unsigned long long)status);
	fail(t,
		status == 407	? EACCES
		: status == 504 ? ETIMEDOUT
				: ECONNREFUSED,
		known ? why : "it does not speak HTTP");
}

/* Looks first, and takes what belongs to the head: what follows it is the server's. */
static void http_read(struct tunnel *t)
{
	char piece[2048];
	ssize_t n = recv(t->fd, piece, sizeof piece, MSG_PEEK);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		return fail(t, ECONNRESET, "it hung up");
	size_t before = buf_size(&t->in);
	if (!buf_add(&t->in, piece, (size_t)n))
		return fail(t, ECONNREFUSED, "its answer is too long");
	struct str all = buf_str(&t->in);
	char *end = memmem(all.p, all.n, "\r\n\r\n", 4);
	size_t take = end ? (size_t)(end - all.p) + 4 - before : (size_t)n;
	if (recv(t->fd, piece, take, 0) != (ssize_t)take)
		return fail(t, ECONNRESET, "it hung up");
	if (end)
		http_answered(t);
}

/* ---- SOCKS 5 ---- */

static bool socks_await(struct tunnel *t, enum state s, size_t need)
{
	t->state = s;
	t->need = need;
	buf_clear(&t->in);
	return true;
}

static bool socks_hello(struct tunnel *t)
{
	bool user = t->gate->egress.has_user;
	return put(t, user ? STR("\5\2\0\2") : STR("\5\1\0")) && socks_await(t, SOCKS_METHOD, 2);
}

static bool socks_login(struct tunnel *t)
{
	const struct egress *x = &t->gate->egress;
	auto_buf struct buf b = {0};
	buf_add_byte(&b, 1);
	buf_add_byte(&b, (char)strlen(x->user));
	buf_add_c(&b, x->user);
	buf_add_byte(&b, (char)strlen(x->password));
	buf_add_c(&b, x->password);
	return put(t, buf_str(&b)) && socks_await(t, SOCKS_AUTH, 2);
}

static bool socks_ask(struct tunnel *t)
{
	auto_buf struct buf b = {0};
	bool four = ip_is4(&t->to.ip);
	buf_add_str(&b, STR("\5\1\0"));
	buf_add_byte(&b, *t->name ? 3 : four ? 1 : 4);
	if (*t->name) {
		buf_add_byte(&b, (char)strlen(t->name));
		buf_add_c(&b, t->name);
	} else {
		buf_add(&b, four ? t->to.ip.b + 12 : t->to.ip.b, four ? 4 : 16);
	}
	buf_add_byte(&b, (char)(t->to.port >> 8));
	buf_add_byte(&b, (char)t->to.port);
	/* Version, reply, reserved, kind of address, and the first byte of it. */
	return put(t, buf_str(&b)) && socks_await(t, SOCKS_REPLY, 5);
}

static void socks_replied(struct tunnel *t, const uint8_t *m)
{
	static const int os[] = {0, ECONNREFUSED, EACCES, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED, ETIMEDOUT};
	size_t more = m[3] == 1 ? 5 : m[3] == 4 ? 17 : m[3] == 3 ? (size_t)m[4] + 2 : 0;
	if (m[1])
		return fail(t, m[1] < ARRAY_LEN(os) ? os[m[1]] : ECONNREFUSED, "it refused");
	if (!more)
		return fail(t, ECONNREFUSED, "its answer cannot be read");
	socks_await(t, SOCKS_BOUND, more);
}

static void socks_message(struct tunnel *t)
{
	uint8_t m[8] = {0};
	struct str all = buf_str(&t->in);
	memcpy(m, all.p, all.n < sizeof m ? all.n : sizeof m);
	bool ok = true;
	if (t->state == SOCKS_BOUND)
		return done(t, take_fd(&t->fd));
	if (m[0] != (t->state == SOCKS_AUTH ? 1 : 5))
		return fail(t, ECONNREFUSED, "it does not speak SOCKS 5");
	if (t->state == SOCKS_REPLY)
		return socks_replied(t, m);
	if (t->state == SOCKS_AUTH)
		ok = m[1] == 0 && socks_ask(t);
	else
		ok = m[1] == 0 ? socks_ask(t) : m[1] == 2 && t->gate->egress.has_user && socks_login(t);
	if (!ok)
		fail(t, EACCES, "it did not let us in");
}

static void socks_read(struct tunnel *t)
{
	char piece[512];
	size_t room = t->need - buf_size(&t->in);
	ssize_t n = recv(t->fd, piece, room < sizeof piece ? room : sizeof piece, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		return fail(t, ECONNRESET, "it hung up");
	buf_add(&t->in, piece, (size_t)n);
	if (buf_size(&t->in) == t->need)
		socks_message(t);
}

/* ---- the connection to the proxy ---- */

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct tunnel *t = container_of(io, struct tunnel, io);
	(void)events;
	if (t->state == HTTP_HEAD)
		http_read(t);
	else
		socks_read(t);
}

static void on_dialled(void *arg, int fd, const struct ip *ip)
{
	struct tunnel *t = arg;
	(void)ip;
	t->dial = NULL;
	if (fd < 0)
		return fail(t, -fd, "it cannot be reached");
	t->fd = fd;
	bool asked = t->gate->egress.kind == EGRESS_HTTP ? http_ask(t) : socks_hello(t);
	if (!asked || loop_add(t->gate->loop, &t->io, fd, EPOLLIN, on_ready) < 0)
		fail(t, ECONNRESET, "it does not take the question");
}

static void dial_proxy(struct tunnel *t, const struct dns_answer *a)
{
	struct ip ips[GATE_DIAL_MAX];
	size_t n = 0;
	for (size_t i = 0; a && i < a->n && n < GATE_DIAL_MAX; i++)
		n += dns_record_ip(&a->v[i], &ips[n]);
	if (!a)
		n = ip_parse(str_of(t->gate->egress.host), &ips[0]);
	if (!n)
		return fail_later(t, EHOSTUNREACH);
	t->dial = dial_start(t->gate->loop, ips, n, t->gate->egress.port, on_dialled, t);
}

static void on_address(struct resolve_wait *w, const struct dns_answer *a, uint32_t age)
{
	(void)age;
	dial_proxy(container_of(w, struct tunnel, wait), a);
}

struct tunnel *tunnel_start(struct gate *g, const struct egress_to *to, dial_on_done on_done, void *arg)
{
	struct ip ip;
	struct tunnel *t = xcalloc(1, sizeof *t);
	t->gate = g;
	t->to = *to;
	snprintf(t->name, sizeof t->name, "%s", to->name);
	t->fd = -1;
	t->in.max = REPLY_MAX;
	t->on_done = on_done;
	t->arg = arg;
	loop_timer_set(g->loop, &t->limit, GATE_DIAL_TIMEOUT, on_limit);
	if (ip_parse(str_of(g->egress.host), &ip))
		dial_proxy(t, NULL);
	else
		resolver_ask(g->resolver, g->egress.host, DNS_A, &t->wait, on_address);
	return t;
}
