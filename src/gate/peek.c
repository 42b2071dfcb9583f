/*
 * What a client says first. The bytes are looked at and stay in the socket, so whoever moves them afterwards begins at
 * the first one. epoll would report bytes that nobody takes on and on: SO_RCVLOWAT is set to one more than has been
 * seen.
 */
#include <string.h>
#include <sys/socket.h>

#include "gate/gate.h"

enum { METHOD_MAX = 10 };

enum guess { GUESS_MORE, GUESS_HTTP, GUESS_OTHER };

/* A method, a blank, and something that begins a request target. */
static enum guess guess_http(struct str in)
{
	size_t n = 0;
	while (n < in.n && n <= METHOD_MAX && in.p[n] >= 'A' && in.p[n] <= 'Z')
		n++;
	if (n < in.n && (n < 3 || n > METHOD_MAX || in.p[n] != ' '))
		return GUESS_OTHER;
	if (n > METHOD_MAX)
		return GUESS_OTHER;
	if (n + 1 >= in.n)
		return GUESS_MORE;
	struct str target = str_skip(in, n + 1);
	bool connect = str_eq(str_n(in.p, n), STR("CONNECT"));
	return connect || target.p[0] == '/' || target.p[0] == '*' || target.p[0] == 'h' || target.p[0] == 'H'
		       ? GUESS_HTTP
		       : GUESS_OTHER;
}

/* True when it is decided. */
static bool read_bytes(struct str in, enum policy_speech *how, struct hello *h)
{
	switch (hello_read(in, h)) {
	case HELLO_DONE:
	case HELLO_BAD: /* TLS all the same, with no name that could be believed */
		*how = SPEECH_TLS;
		return true;
	case HELLO_MORE:
		return in.n >= GATE_PEEK_MAX;
	case HELLO_NOT_TLS:
		break;
	}
	enum guess g = guess_http(in);
	*how = g == GUESS_HTTP ? SPEECH_HTTP : SPEECH_OTHER;
	return g != GUESS_MORE;
}

static char bytes[GATE_PEEK_MAX];

static void set_lowat(int fd, int n)
{
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof n);
}

static void look(struct passage *c, bool ended)
{
	struct hello h = {0};
	enum policy_speech how = SPEECH_OTHER;
	ssize_t n = recv(c->client, bytes, sizeof bytes, MSG_PEEK);
	if (n < 0 && errno == EAGAIN && !ended)
		return;
	if (n <= 0)
		return passage_silent(c, n < 0 && errno != EAGAIN ? "the client reset" : "the client ended", false);
	if (read_bytes(str_n(bytes, (size_t)n), &how, &h) || ended)
		return passage_spoke(c, how, how == SPEECH_TLS ? h.name : "");
	set_lowat(c->client, (int)n + 1);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct passage *c = container_of(io, struct passage, io);
	look(c, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

static void on_late(struct loop_timer *t)
{
	passage_silent(container_of(t, struct passage, timer), "the client said nothing", true);
}

void peek_start(struct passage *c, uint64_t ms)
{
	c->state = PASSAGE_PEEKING;
	loop_timer_set(c->gate->loop, &c->timer, ms, on_late);
	if (loop_add(c->gate->loop, &c->io, c->client, EPOLLIN | EPOLLRDHUP, on_ready) < 0)
		return passage_silent(c, "cannot be watched", false);
	look(c, false);
}

void peek_stop(struct passage *c)
{
	if (!c->io.loop)
		return;
	loop_del(&c->io);
	loop_timer_stop(&c->timer);
	set_lowat(c->client, 1);
}

enum policy_speech peek_now(struct passage *c)
{
	struct hello h;
	enum policy_speech how = SPEECH_OTHER;
	ssize_t n = recv(c->client, bytes, sizeof bytes, MSG_PEEK);
	if (n <= 0)
		return SPEECH_OTHER;
	read_bytes(str_n(bytes, (size_t)n), &how, &h);
	return how;
}
