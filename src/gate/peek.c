/*
 * What a client says first. The bytes are looked at and stay in the socket, so whoever moves them afterwards begins at
 * the first one. epoll would report bytes that nobody takes on and on: SO_RCVLOWAT is set to one more than has been
 * seen, or to the end of the record that TLS has begun. Every look is work of the box, which has its part of each turn:
 * a thousand connections that send a byte at a time delay their own box alone.
 */
#include <string.h>
#include <sys/socket.h>

#include "gate/gate.h"

enum guess { GUESS_MORE, GUESS_HTTP, GUESS_OTHER };

static bool is_in(char c, const char *set)
{
	return c && strchr(set, c);
}

static bool is_token(char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || is_in(c, "!#$%&'*+-.^_`|~");
}

static bool has(struct str in, struct str what)
{
	return memmem(in.p, in.n, what.p, what.n) != NULL;
}

/* What any server might take for a request, however lenient it is: empty lines and blanks, a method, blanks, and a
 * path, or a line with a URL or a version in it. The strict parser decides then. */
static enum guess guess_http(struct str in)
{
	size_t start = 0, n, target;
	while (start < in.n && is_in(in.p[start], "\r\n \t\v\f"))
		start++;
	for (n = start; n < in.n && is_token(in.p[n]);)
		n++;
	if (n < in.n && (n == start || !is_in(in.p[n], " \t\v\f")))
		return GUESS_OTHER;
	for (target = n; target < in.n && is_in(in.p[target], " \t\v\f");)
		target++;
	if (target < in.n && (in.p[target] == '/' || in.p[target] == '*'))
		return GUESS_HTTP;
	struct str rest, line = str_split(str_skip(in, target), '\n', &rest);
	if (str_eq(str_n(in.p + start, n - start), STR("CONNECT")) || has(line, STR("HTTP/")) || has(line, STR("://")))
		return line.n ? GUESS_HTTP : GUESS_MORE;
	return target + line.n < in.n ? GUESS_OTHER : GUESS_MORE;
}

/* "DESCRIBE rtsp://camera.example/1 RTSP/1.0": looks like a request to some servers of HTTP, and is none to us. */
static bool is_rtsp(struct str in)
{
	struct str rest, text = str_trim(in), line = str_split(text, '\n', &rest);
	return has(line, STR(" RTSP/")) && !has(line, STR("HTTP/"));
}

/* True when it is decided; else `*ret_wants` is how many bytes it takes to look again. `*ret_name` is the server's that
 * TLS names, "" when it names none, NULL when the hello cannot be read. What begins like TLS or HTTP and fills all the room is that, so that nobody hides behind its length.
 */
static bool read_bytes(
	struct str in, enum policy_speech *how, struct hello *h, const char **ret_name, size_t *ret_wants)
{
	bool full = in.n >= GATE_PEEK_MAX;
	*how = SPEECH_TLS;
	*ret_name = NULL;
	*ret_wants = in.n + 1;
	switch (hello_read(in, h)) {
	case HELLO_DONE:
		*ret_name = h->name;
		return true;
	case HELLO_BAD:
		return true;
	case HELLO_MORE:
		*ret_wants = hello_wants(in);
		return full;
	case HELLO_NOT_TLS:
		break;
	}
	enum guess g = guess_http(in);
	*ret_name = "";
	*how = g == GUESS_HTTP || (g == GUESS_MORE && full) ? SPEECH_HTTP : SPEECH_OTHER;
	if (*how == SPEECH_HTTP && is_rtsp(in))
		*how = SPEECH_RTSP;
	return g != GUESS_MORE || full;
}

static char bytes[GATE_PEEK_MAX];

static void set_lowat(int fd, size_t wants)
{
	const int n = (int)(wants < GATE_PEEK_MAX ? wants : GATE_PEEK_MAX);
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof n);
}

static void on_late(struct loop_timer *t)
{
	struct passage *c = container_of(t, struct passage, timer);
	passage_silent(c, c->begun ? "the client's first words did not end" : "the client said nothing", true);
}

/* A client may be silent for long while a server may speak first. One that has begun to speak is not: what it has said
 * can be neither decided nor passed on. */
static void begin(struct passage *c)
{
	if (!c->begun && c->timer.due > loop_now(c->gate->loop) + GATE_FIRST_BYTES)
		loop_timer_set(c->gate->loop, &c->timer, GATE_FIRST_BYTES, on_late);
	c->begun = true;
}

static void look(struct passage *c, bool ended)
{
	struct hello h;
	enum policy_speech how;
	const char *name;
	size_t wants;
	ssize_t n = recv(c->client, bytes, sizeof bytes, MSG_PEEK);
	if (n < 0 && errno == EAGAIN && !ended)
		return;
	if (n <= 0)
		return passage_silent(c, n < 0 && errno != EAGAIN ? "the client reset" : "the client ended", false);
	if (read_bytes(str_n(bytes, (size_t)n), &how, &h, &name, &wants) || ended)
		return passage_spoke(c, how, name);
	begin(c);
	set_lowat(c->client, wants);
}

static void run(struct turn_seat *seat, uint32_t events)
{
	struct passage *c = container_of(seat, struct passage, seat);
	loop_set_events(&c->io, EPOLLIN | EPOLLRDHUP);
	look(c, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct passage *c = container_of(io, struct passage, io);
	turn_bill(c->seat.party);
	if (turn_admit(&c->seat, events))
		look(c, events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR));
}

void peek_start(struct passage *c, uint64_t ms)
{
	c->state = PASSAGE_PEEKING;
	c->begun = false;
	c->seat = (struct turn_seat){.party = c->box->bucket.party, .io = &c->io, .run = run};
	loop_timer_set(c->gate->loop, &c->timer, ms, on_late);
	if (loop_add(c->gate->loop, &c->io, c->client, EPOLLIN | EPOLLRDHUP, on_ready) < 0)
		return passage_cut(c, "cannot be watched");
	look(c, false);
}

void peek_stop(struct passage *c)
{
	turn_leave(&c->seat);
	if (!c->io.loop)
		return;
	loop_del(&c->io);
	loop_timer_stop(&c->timer);
	set_lowat(c->client, 1);
}
