/*
 * client_silence.c - gives up on a daemon that answers nothing: stopped, hung, or no daemon at all.
 *
 * A command may be silent for any time, so most streams have no time limit. Instead, when no byte has come for
 * CLIENT_SILENCE_MS, the daemon is asked for its health on a connection of its own. A daemon that does not answer that
 * within CLIENT_HEALTH_MS is lost: all requests of the client end. A connection that fails at once is left to the
 * requests themselves to notice.
 */
#include "cli/client.h"

enum { HEALTH_BODY_MAX = 64 * 1024 };

static void on_due(struct loop_timer *t);

static bool is_silence(const struct http_failure *f)
{
	return f->fail == HTTP_FAIL_TIMEOUT || (f->fail == HTTP_FAIL_CONNECT && f->err.os == 0);
}

static void on_health(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct client *cl = arg;
	(void)r;
	cl->silent = f && is_silence(f) && http_client_heard(cl->http) <= cl->asked;
	if (cl->silent) {
		cli_hint(cl->cli, CLIENT_LOOK_THERE);
		http_client_give_up(cl->http, "it accepts no requests, or answers none");
	}
	/* Requests that follow, to tidy up, do not wait for as long again. */
	loop_timer_set(cl->loop, &cl->watch, cl->silent ? 1 : CLIENT_SILENCE_MS, on_due);
}

static void ask(struct client *cl)
{
	struct http_header room[2];
	struct http_call_options o = client_options(cl, "GET", STR("/v1/health"), room);
	o.fresh = true;
	o.connect_ms = o.head_ms = o.stall_ms = CLIENT_HEALTH_MS;
	struct http_question q = {.options = o, .max = HEALTH_BODY_MAX, .on_reply = on_health, .arg = cl};
	cl->asked = loop_now(cl->loop);
	http_call_whole(cl->http, &cl->endpoint, &q);
}

static void on_due(struct loop_timer *t)
{
	struct client *cl = container_of(t, struct client, watch);
	uint64_t quiet = loop_now(cl->loop) - http_client_heard(cl->http);
	if (quiet < CLIENT_SILENCE_MS)
		loop_timer_set(cl->loop, t, CLIENT_SILENCE_MS - quiet, on_due);
	else
		ask(cl);
}

void client_watch_silence(struct client *cl)
{
	loop_timer_set(cl->loop, &cl->watch, CLIENT_SILENCE_MS, on_due);
}
