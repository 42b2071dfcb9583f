/*
 * A program in a box that uses an HTTP proxy (https_proxy): CONNECT to a name, inside of a connection whose first bytes
 * are looked at. The proxy itself must be reachable by a rule with its port, and so must the name that it is asked for.
 * Only the head of the request is sent; everything else waits until the proxy has said 2xx. After any other answer
 * nothing of the client is passed on, so that no second request can follow the one that was decided.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "gate/connect_head.h"
#include "gate/gate.h"

static char bytes[GATE_PEEK_MAX];

/* The head that waits in the socket, with its empty line. Empty: not complete. */
static struct str peek_head(int fd)
{
	ssize_t n = recv(fd, bytes, sizeof bytes, MSG_PEEK);
	char *end = n > 0 ? memmem(bytes, (size_t)n, "\r\n\r\n", 4) : NULL;
	return end ? str_n(bytes, (size_t)(end - bytes) + 4) : STR("");
}

/* ---- the proxy's answer ---- */

/* As in peek.c: bytes that nobody takes would be reported on and on. */
static void wake_at(int fd, ssize_t n)
{
	int low = n > 0 && n < GATE_PEEK_MAX ? (int)n : 1;
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
}

static void on_server(struct loop_io *io, uint32_t events)
{
	struct passage *c = container_of(io, struct passage, server_io);
	struct str head = peek_head(c->server);
	if (!head.n && !(events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)))
		return wake_at(c->server, recv(c->server, bytes, sizeof bytes, MSG_PEEK) + 1);
	wake_at(c->server, 1);
	bool good = head.n > 12 && memcmp(head.p, "HTTP/1.", 7) == 0 && head.p[8] == ' ' && head.p[9] == '2';
	if (good)
		return passage_move(c);
	if (!head.n)
		return passage_cut(c, "the proxy hung up");
	/* What has come of the answer goes to the client; what the client says now goes nowhere. */
	ssize_t n = recv(c->server, bytes, sizeof bytes, 0);
	c->unreachable = ECONNREFUSED;
	snprintf(c->why, sizeof c->why, "the proxy answered %.3s", head.n > 12 ? head.p + 9 : "nothing");
	loop_timer_stop(&c->timer);
	loop_del(&c->server_io);
	fd_close(&c->server);
	passage_say(c, str_n(bytes, n > 0 ? (size_t)n : 0));
}

static void on_late(struct loop_timer *t)
{
	passage_cut(container_of(t, struct passage, timer), "the proxy did not answer");
}

void connect_reached(struct passage *c)
{
	struct str head = peek_head(c->client);
	char copy[GATE_PEEK_MAX];
	memcpy(copy, head.p, head.n);
	c->connecting = false;
	bool sent = head.n && recv(c->client, bytes, head.n, 0) == (ssize_t)head.n &&
		    send(c->server, copy, head.n, MSG_NOSIGNAL) == (ssize_t)head.n;
	if (!sent || loop_add(c->gate->loop, &c->server_io, c->server, EPOLLIN | EPOLLRDHUP, on_server) < 0)
		return passage_cut(c, "the proxy does not take the request");
	loop_timer_set(c->gate->loop, &c->timer, GATE_DIAL_TIMEOUT, on_late);
}

/* ---- the decision ---- */

bool connect_is(struct passage *c)
{
	char word[8];
	return recv(c->client, word, sizeof word, MSG_PEEK) == (ssize_t)sizeof word && memcmp(word, "CONNECT ", 8) == 0;
}

struct verdict connect_target(const struct passage *c)
{
	const struct policy *p = box_policy(c->box);
	/* Where the proxy is allowed by its address, only `deny` counts. */
	if (!c->by_name && !policy_denies_name(p, c->target, c->target_port, SPEECH_TLS))
		return (struct verdict){.answer = POLICY_ALLOW, .why = c->why};
	return policy_by_name(p, c->target, c->target_port, SPEECH_TLS);
}

struct verdict connect_decide(struct passage *c)
{
	struct str head = peek_head(c->client);
	if (!head.n)
		return (struct verdict){
			.answer = POLICY_DENY, .why = "the head of the CONNECT request is not complete"};
	if (c->box->sandbox->secrets && secrets_in_head(c->box->sandbox->secrets, head))
		return (struct verdict){.answer = POLICY_DENY, .why = "a secret's placeholder may not go to a proxy"};
	bool read = connect_head_read(head, c->target, &c->target_port);
	if (!read)
		*c->target = 0;
	if (c->settled)
		return (struct verdict){.answer = POLICY_ALLOW, .why = c->why};
	if (!read)
		return (struct verdict){
			.answer = POLICY_DENY, .why = "CONNECT needs a name and a port, the same as in Host"};
	struct verdict v = connect_target(c);
	if (v.answer == POLICY_ASK)
		v = (struct verdict){.answer = POLICY_DENY, .why = "CONNECT to a name that no rule allows"};
	return v;
}
