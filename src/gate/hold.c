/*
 * A connection that waits for somebody to approve it. It was accepted and has been looked at; its bytes stay in the
 * socket, so that an approved connection goes on as if nothing had happened.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "gate/gate.h"

const char *passage_host(const struct passage *c, char text[IP_TEXT])
{
	return *c->name ? c->name : ip_format(&c->wanted, text);
}

bool passage_is_approved(const struct passage *c, const char *host)
{
	return c->approved && strcmp(c->approved, host) == 0;
}

void passage_approve(struct passage *c, const char *host)
{
	free(c->approved);
	c->approved = xstrdup(host);
}

static void stop(struct passage *c)
{
	ask_cancel(&c->asking);
	loop_del(&c->io);
}

static void on_answer(struct ask_wait *w, enum ask_answer a)
{
	struct passage *c = container_of(w, struct passage, asking);
	const struct policy *p = box_policy(c->box);
	char text[IP_TEXT], why[GATE_WHY_MAX];
	loop_del(&c->io);
	if (a == ASK_ALLOW && p) {
		passage_approve(c, passage_host(c, text));
		return passage_decide(c);
	}
	if (a == ASK_DENY)
		return passage_deny(c, "ask: somebody denied it");
	snprintf(why, sizeof why, "ask: nobody approved it within %llu s",
		(unsigned long long)(p ? p->ask_ms / 1000 : 0));
	passage_deny(c, why);
}

/* Reset, or, where the other side must speak on before it gets anything, ended. */
static void on_client(struct loop_io *io, uint32_t events)
{
	struct passage *c = container_of(io, struct passage, io);
	(void)events;
	stop(c);
	relay_reset(&c->client);
	passage_end(c, "deny", "the client went while it waited for an approval");
}

/* A client that has said all it wants to say may have shut down its side: that is no reason to give up. In TLS it is,
 * and where nothing has been said. */
static bool ends_by_half(const struct passage *c)
{
	char byte;
	return c->speech == SPEECH_TLS || recv(c->client, &byte, 1, MSG_PEEK) <= 0;
}

void passage_hold(struct passage *c)
{
	char text[IP_TEXT];
	struct ask_what what = {.host = passage_host(c, text),
		.protocol = passage_protocol(c->speech),
		.wanted = &c->wanted,
		.port = c->port};
	peek_stop(c);
	loop_del(&c->server_io);
	fd_close(&c->server);
	reach_cancel(c->reach);
	c->reach = NULL;
	c->state = PASSAGE_HELD;
	snprintf(c->why, sizeof c->why, "ask: somebody has to approve it");
	c->asking.on_answer = on_answer;
	if (!ask_start(c->box, &what, &c->asking))
		return passage_deny(c, "ask: too many connections of this sandbox wait for an approval");
	if (loop_add(c->gate->loop, &c->io, c->client, ends_by_half(c) ? EPOLLRDHUP : 0, on_client) < 0)
		passage_cut(c, "cannot be watched");
}

void passage_held_policy(struct passage *c)
{
	const struct policy *p = box_policy(c->box);
	struct verdict v = policy_by_address(p, gate_host(c->gate), false, &c->wanted, c->port);
	if (*c->name && v.answer != POLICY_ALLOW)
		v = policy_by_name(p, c->name, c->port, c->speech);
	if (v.answer == POLICY_ASK || (!*c->name && p->ask && v.answer == POLICY_NEEDS_NAME))
		return;
	stop(c);
	passage_decide(c);
}
