#include "http_rig.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "test.h"

static struct rig *rig_of(struct http_exchange *x)
{
	return http_exchange_arg(x);
}

static void on_body(struct http_exchange *x, struct str chunk)
{
	buf_add_str(&rig_of(x)->body, chunk);
}

static void on_body_end(struct http_exchange *x)
{
	rig_of(x)->body_ended = true;
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct rig *r = rig_of(x);
	r->closes++;
	r->completes += complete;
	if (r->last == x)
		r->last = NULL;
}

static void on_whole(struct http_exchange *x, struct str body)
{
	http_respond(x, 200, "application/octet-stream", body);
}

static const char block[4096];

static void flood(struct http_exchange *x)
{
	rig_of(x)->writables++;
	while (http_respond_write(x, str_n(block, sizeof block)))
		;
}

static const struct http_exchange_ops plain_ops = {.on_close = on_close};
static const struct http_exchange_ops echo_ops = {.on_whole_body = on_whole, .on_close = on_close};
static const struct http_exchange_ops flood_ops = {.on_writable = flood, .on_close = on_close};
static const struct http_exchange_ops hold_ops = {.on_body = on_body, .on_body_end = on_body_end, .on_close = on_close};

static void hold(struct rig *r, struct http_exchange *x)
{
	http_exchange_set(x, &hold_ops, r);
	r->last = x;
}

static void on_request(struct http_exchange *x, void *arg)
{
	struct rig *r = arg;
	struct str path = http_request(x)->path;
	r->requests++;
	http_exchange_set(x, &plain_ops, r);
	if (str_eq_c(path, "/ping")) {
		http_respond(x, 200, "text/plain", STR("pong"));
	} else if (str_eq_c(path, "/echo")) {
		http_exchange_set(x, &echo_ops, r);
		http_collect(x, 65536);
	} else if (str_eq_c(path, "/hold")) {
		hold(r, x);
	} else if (str_eq_c(path, "/pause")) {
		hold(r, x);
		http_pause(x);
	} else if (str_eq_c(path, "/big")) {
		http_respond_begin(x, 200, 1 << 20);
		for (size_t i = 0; i < (1 << 20) / sizeof block; i++)
			http_respond_write(x, str_n(block, sizeof block));
		http_respond_end(x);
	} else if (str_eq_c(path, "/flood")) {
		http_exchange_set(x, &flood_ops, r);
		http_respond_begin(x, 200, HTTP_CHUNKED);
		flood(x);
	} else if (str_eq_c(path, "/null")) {
		http_respond(x, 204, NULL, STR_NULL);
	} else if (r->on_request) {
		r->on_request(x, r);
	} else {
		struct err e;
		err_set(&e, ERRC_NOT_FOUND, "no such route");
		http_respond_error(x, &e);
	}
}

void rig_start(struct rig *r)
{
	struct err e;
	int fd;
	*r = (struct rig){.on_request = r->on_request, .arg = r->arg};
	r->l = loop_new();
	CHECK(r->l);
	r->s = http_server_new(r->l, on_request, r);
	if (http_listen_tcp(STR("127.0.0.1:0"), &fd, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	struct sockaddr_in a = {0};
	socklen_t len = sizeof a;
	CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	r->port = ntohs(a.sin_port);
	CHECK_INT(http_server_listen(r->s, fd, 7, &e), 0);
}

void rig_stop(struct rig *r)
{
	http_server_free(r->s);
	loop_turn(r->l, 0);
	loop_free(r->l);
	buf_free(&r->body);
}

void rig_turn(struct rig *r)
{
	loop_turn(r->l, -1);
}

static void on_peer(struct loop_io *io, uint32_t events)
{
	struct peer *p = container_of(io, struct peer, io);
	(void)events;
	char *room = buf_room(&p->got, 65536);
	CHECK(room);
	ssize_t n = recv(p->fd, room, 65536, MSG_DONTWAIT);
	if (n > 0) {
		buf_commit(&p->got, (size_t)n);
	} else if (n == 0 || errno != EAGAIN) {
		p->error = n < 0 ? errno : 0;
		p->eof = true;
		loop_del(&p->io);
	}
}

static void peer_open(struct peer *p, struct rig *r, int fd)
{
	CHECK(fd >= 0);
	*p = (struct peer){.r = r, .fd = fd};
	fd_set_nonblock(fd, true);
	CHECK_INT(loop_add(r->l, &p->io, fd, EPOLLIN, on_peer), 0);
}

void peer_tcp(struct peer *p, struct rig *r)
{
	peer_tcp_from(p, r, 1);
}

void peer_tcp_from(struct peer *p, struct rig *r, unsigned host)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in from = {.sin_family = AF_INET};
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
	CHECK_INT(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)r->port)};
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_INT(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	peer_open(p, r, fd);
}

void peer_pair(struct peer *p, struct rig *r)
{
	int sv[2];
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	CHECK_INT(http_server_adopt(r->s, sv[1], 9, NULL, NULL), 0);
	peer_open(p, r, sv[0]);
}

void stage_open(struct stage *g)
{
	struct err e;
	if (http_listen_tcp(STR("127.0.0.1:0"), &g->fd, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	struct sockaddr_in a = {0};
	socklen_t len = sizeof a;
	CHECK_INT(getsockname(g->fd, (struct sockaddr *)&a, &len), 0);
	g->port = ntohs(a.sin_port);
}

void stage_accept(struct stage *g, struct peer *p, struct rig *r)
{
	int fd;
	while ((fd = accept4(g->fd, NULL, NULL, SOCK_CLOEXEC)) < 0) {
		CHECK_INT(errno, EAGAIN);
		loop_turn(r->l, 1);
	}
	peer_open(p, r, fd);
}

void stage_close(struct stage *g)
{
	fd_close(&g->fd);
}

void peer_close(struct peer *p)
{
	loop_del(&p->io);
	fd_close(&p->fd);
	buf_free(&p->got);
}

void peer_send(struct peer *p, struct str bytes)
{
	while (bytes.n && !p->error) {
		ssize_t n = send(p->fd, bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			bytes = str_skip(bytes, (size_t)n);
		else if (errno == EAGAIN)
			loop_turn(p->r->l, 1);
		else
			p->error = errno;
	}
}

void peer_half_close(struct peer *p)
{
	shutdown(p->fd, SHUT_WR);
}

void peer_read(struct peer *p, bool on)
{
	if (on && !p->io.loop && !p->eof)
		CHECK_INT(loop_add(p->r->l, &p->io, p->fd, EPOLLIN, on_peer), 0);
	else if (!on)
		loop_del(&p->io);
}

void peer_until_eof(struct peer *p)
{
	while (!p->eof)
		rig_turn(p->r);
}

bool peer_has(const struct peer *p, const char *text)
{
	struct str s = buf_str(&p->got);
	return s.n && memmem(s.p, s.n, text, strlen(text));
}

void peer_until(struct peer *p, const char *text)
{
	while (!peer_has(p, text)) {
		if (p->eof)
			test_fail(__FILE__, __LINE__, "the connection ended before '%s' came: '%.*s'", text,
				STR_ARG(buf_str(&p->got)));
		rig_turn(p->r);
	}
}

int peer_status(const struct peer *p)
{
	struct str s = buf_str(&p->got);
	return s.n >= 12 && str_starts(s, STR("HTTP/1.1 ")) ? atoi(s.p + 9) : 0;
}

int rig_ask(struct rig *r, struct str bytes)
{
	struct peer p;
	peer_tcp(&p, r);
	peer_send(&p, bytes);
	peer_until_eof(&p);
	int status = peer_status(&p);
	peer_close(&p);
	return status;
}
