/*
 * How a connection ends: refused with a reason in the client's own protocol, leading nowhere, or over.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "gate/gate.h"

static void free_passage(struct loop_task *t)
{
	struct passage *c = container_of(t, struct passage, free_task);
	free(c);
}

const char *passage_protocol(enum policy_speech how)
{
	static const char *const names[] = {[SPEECH_OTHER] = "tcp",
		[SPEECH_HTTP] = "http",
		[SPEECH_TLS] = "tls",
		[SPEECH_DATAGRAM] = "udp",
		[SPEECH_RTSP] = "tcp"};
	return names[how];
}

void passage_log(const struct passage *c, const struct passage_leg *leg, const char *decision, const char *end)
{
	record_send(c->gate, &(struct gate_log){.id = box_id(c->box),
				     .time = c->wall,
				     .name = leg->name,
				     .protocol = c->tls ? "https" : passage_protocol(c->speech),
				     .decision = decision,
				     .why = leg->why,
				     .end = end,
				     .ip = &c->reached,
				     .port = c->port,
				     .sent = leg->sent - c->told_sent,
				     .received = leg->received - c->told_received,
				     .ms = loop_now(c->gate->loop) - c->started});
}

static void log_end(const struct passage *c, const char *decision, const char *end)
{
	struct passage_leg leg = {c->name, c->why, c->relay.up.bytes, c->relay.down.bytes};
	if (c->web && c->passed)
		web_leg(c->web, &leg);
	/* Cut: the reason is the connection's, not the rule that had allowed the host. */
	if (strcmp(decision, "allow") != 0)
		leg.why = c->why;
	passage_log(c, &leg, decision, end);
}

void passage_end(struct passage *c, const char *decision, const char *end)
{
	if (c->state == PASSAGE_DEAD)
		return;
	c->state = PASSAGE_DEAD;
	if (!c->logged)
		log_end(c, decision, end);
	ask_cancel(&c->asking);
	free(c->approved);
	c->approved = NULL;
	relay_stop(&c->relay);
	if (c->web)
		web_free(c->web);
	reach_cancel(c->reach);
	worker_ask_cancel(c->worker_ask);
	turn_leave(&c->seat);
	loop_del(&c->io);
	loop_del(&c->server_io);
	loop_timer_stop(&c->timer);
	fd_close(&c->client);
	fd_close(&c->server);
	list_del(&c->node);
	box_conn_ends(c->box);
	loop_defer(c->gate->loop, &c->free_task, free_passage);
}

/* ---- lingering: what the client still sends is thrown away, or the kernel would reset before it has read why ---- */

static void say_end(struct passage *c)
{
	passage_end(c, c->unreachable ? "allow" : "deny", c->unreachable ? "cannot be reached" : "refused");
}

static void on_linger_over(struct loop_timer *t)
{
	say_end(container_of(t, struct passage, timer));
}

static void on_linger(struct loop_io *io, uint32_t events)
{
	struct passage *c = container_of(io, struct passage, io);
	static char nothing[16384];
	(void)events;
	ssize_t n = recv(io->fd, nothing, sizeof nothing, 0);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		say_end(c);
}

void passage_say(struct passage *c, struct str text)
{
	loop_del(&c->io);
	loop_del(&c->server_io);
	c->state = PASSAGE_REFUSING;
	/* A new connection takes that much without waiting. */
	if (send(c->client, text.p, text.n, MSG_NOSIGNAL) != (ssize_t)text.n ||
		loop_add(c->gate->loop, &c->io, c->client, EPOLLIN, on_linger) < 0) {
		relay_reset(&c->client);
		return say_end(c);
	}
	shutdown(c->client, SHUT_WR);
	loop_timer_set(c->gate->loop, &c->timer, GATE_REFUSAL_LINGER, on_linger_over);
}

static void say_http(struct passage *c, int status, const char *text)
{
	char all[1024];
	int n = snprintf(all, sizeof all,
		"HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n%s",
		status, http_status_text(status), strlen(text), text);
	passage_say(c, str_n(all, (size_t)n));
}

/* A fatal alert in a record of its own: access_denied (49) or internal_error (80). */
static void say_tls(struct passage *c, char alert)
{
	char record[] = {21, 3, 3, 0, 2, 2, alert};
	passage_say(c, str_n(record, sizeof record));
}

static void let_go(struct passage *c)
{
	loop_timer_stop(&c->timer);
	loop_del(&c->server_io);
	fd_close(&c->server);
	reach_cancel(c->reach);
	c->reach = NULL;
}

static void say_unreachable(struct passage *c);

void passage_refuse(struct passage *c)
{
	char text[GATE_WHY_MAX + NET_NAME_MAX + 160], address[IP_TEXT];
	let_go(c);
	if (c->unreachable)
		return say_unreachable(c);
	if (c->speech == SPEECH_TLS)
		return say_tls(c, 49);
	if (c->speech != SPEECH_HTTP) {
		relay_reset(&c->client);
		return passage_end(c, "deny", "refused");
	}
	snprintf(text, sizeof text, "403 denied: this sandbox may not reach %s port %u (%s)\n",
		*c->name ? c->name : ip_format(&c->wanted, address), c->port, c->why);
	say_http(c, 403, text);
}

static void say_unreachable(struct passage *c)
{
	char text[NET_NAME_MAX + 160], address[IP_TEXT];
	int status = c->unreachable == ETIMEDOUT ? 504 : 502;
	if (c->speech != SPEECH_HTTP) {
		relay_reset(&c->client);
		return say_end(c);
	}
	snprintf(text, sizeof text, "%d %s port %u cannot be reached: %s\n", status,
		*c->name ? c->name : ip_format(&c->wanted, address), c->port, strerror(c->unreachable));
	say_http(c, status, text);
}

void passage_unreachable(struct passage *c, int os)
{
	peek_stop(c);
	let_go(c);
	c->unreachable = os;
	snprintf(c->why, sizeof c->why, "cannot be reached: %s", strerror(os));
	if (c->speech == SPEECH_OTHER) {
		/* A client that speaks first does so at once: HTTP gets an answer that it can show. */
		c->refuse = true;
		return peek_start(c, GATE_UNREACHABLE_WAIT);
	}
	say_unreachable(c);
}

void passage_forbidden(struct passage *c, const char *why)
{
	peek_stop(c);
	let_go(c);
	snprintf(c->why, sizeof c->why, "%s", why);
	if (c->speech == SPEECH_OTHER) {
		c->refuse = true;
		return peek_start(c, GATE_REFUSAL_WAIT);
	}
	passage_refuse(c);
}
