/*
 * When a box falls asleep, and when its memory goes to swap. docs/lifecycle.md says what counts as activity.
 *
 * A timer looks at a running box when it may be due. A box whose sleepAfter nobody chose is looked at twice in each
 * interval: it counts as idle only if it used at most IDLE_CPU_PERCENT of a core between the two looks. Then its agent
 * is asked for work that no connection shows: commands whose client is gone, background processes that keep it awake.
 * Requests are served all the time; one that comes meanwhile is seen when the answers are there.
 */
#include "base/json.h"
#include "daemon/core/sandbox.h"
#include "daemon/limits.h"

static bool is_chosen(const struct sandbox *s)
{
	return s->spec.sleep_after_ms != SLEEP_DEFAULT;
}

uint64_t sandbox_sleep_after(const struct sandbox *s)
{
	if (s->spec.keep_alive)
		return 0;
	return is_chosen(s) ? s->spec.sleep_after_ms : s->daemon->config.sleep_after_ms;
}

static uint64_t now_of(const struct sandbox *s)
{
	return loop_now(s->daemon->loop);
}

static bool is_due(const struct sandbox *s)
{
	uint64_t after = sandbox_sleep_after(s);
	return after && now_of(s) >= s->last_used + after;
}

static bool is_quiet(const struct sandbox *s)
{
	return sandbox_is_ready(s) && s->exchanges == s->tunnels && list_empty(&s->waiters) &&
	       warden_client_is_up(s->daemon->warden);
}

void sandbox_enter(struct sandbox *s)
{
	s->exchanges++;
	sandbox_ref(s);
}

void sandbox_leave(struct sandbox *s)
{
	s->exchanges--;
	s->last_used = now_of(s);
	sandbox_unref(s);
}

void sandbox_touch(struct sandbox *s)
{
	s->last_used = now_of(s);
	if (s->state == SB_ASLEEP)
		sandbox_wake(s);
	else if (s->op == OP_SLEEP)
		s->nudged = true;
}

/* ---- the looks ---- */

static void look_end(struct sandbox *s, bool busy)
{
	s->look.under_way = false;
	if (busy)
		s->last_used = now_of(s);
	if (!busy && is_quiet(s) && is_due(s))
		sandbox_sleep(s);
	else
		sandbox_set_idle(s);
}

static bool says_busy(const struct http_reply *r)
{
	uint64_t commands = 0, kept = 0;
	auto_json struct json_doc *doc = r && r->status == 200 ? json_parse(r->body, NULL) : NULL;
	const struct json *o = doc ? json_root(doc) : NULL;
	if (!o || o->type != JSON_T_OBJECT)
		return false;
	json_read_u64(o, "commands", 0, UINT32_MAX, &commands, NULL);
	json_read_u64(o, "keepAlive", 0, UINT32_MAX, &kept, NULL);
	return commands || kept;
}

static void on_agent(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct sandbox *s = arg;
	(void)f; /* an agent that does not answer in time keeps nothing awake */
	look_end(s, says_busy(r));
	sandbox_unref(s);
}

static void ask_agent(struct sandbox *s)
{
	struct http_call_options o = {
		.method = STR("GET"),
		.target = STR("/internal/activity"),
		.head_ms = AGENT_LOOK_TIMEOUT,
		.stall_ms = AGENT_LOOK_TIMEOUT,
	};
	struct http_question q = {.options = o, .max = AGENT_ENV_REPLY_MAX, .on_reply = on_agent, .arg = s};
	s->look.under_way = true;
	sandbox_ref(s);
	http_call_whole(s->daemon->client, &s->agent, &q);
}

/* True if the box used more CPU time since the last look than an idle box does. */
static bool has_worked(struct sandbox *s, uint64_t cpu_usec)
{
	uint64_t ms = now_of(s) - s->look.at;
	uint64_t usec = cpu_usec > s->look.cpu_usec ? cpu_usec - s->look.cpu_usec : 0;
	return usec * 100 > ms * 1000 * IDLE_CPU_PERCENT;
}

static void on_cpu(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)arg;
	s->look.under_way = false;
	if (a->err || !a->info)
		return sandbox_set_idle(s);
	bool first = s->look.at < s->last_used || !s->look.at;
	bool worked = !first && has_worked(s, a->info->cpu_usec);
	s->look.at = now_of(s);
	s->look.cpu_usec = a->info->cpu_usec;
	if (worked)
		s->last_used = s->look.at;
	if (!first && !worked && is_quiet(s) && is_due(s))
		ask_agent(s);
	else
		sandbox_set_idle(s);
}

static void on_look(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, idle);
	if (s->look.under_way)
		return;
	if (!is_quiet(s))
		return sandbox_set_idle(s);
	if (is_chosen(s) && is_due(s))
		return ask_agent(s);
	if (is_chosen(s) || now_of(s) < s->last_used + sandbox_sleep_after(s) / 2)
		return sandbox_set_idle(s);
	s->look.under_way = true;
	sandbox_ask(s, &(struct warden_request){.op = WARDEN_INSPECT}, on_cpu, NULL);
}

static void set_look(struct sandbox *s, uint64_t after)
{
	uint64_t now = now_of(s), at = s->last_used + after;
	/* The first of two looks, unless it was taken. */
	if (!is_chosen(s) && (!s->look.at || s->look.at < s->last_used))
		at = s->last_used + after / 2;
	/* A request is inside, or the warden is away: look again later. */
	loop_timer_set(s->daemon->loop, &s->idle, at > now ? at - now : BOX_SLEEP_MIN, on_look);
}

/* ---- asleep ---- */

static void on_page_out(struct loop_timer *t)
{
	struct sandbox *s = container_of(t, struct sandbox, idle);
	if (s->state == SB_ASLEEP && s->op == OP_NONE && warden_client_is_up(s->daemon->warden))
		sandbox_ask(s, &(struct warden_request){.op = WARDEN_PAGE_OUT}, NULL, NULL);
}

void sandbox_set_idle(struct sandbox *s)
{
	uint64_t after = sandbox_sleep_after(s), out = s->daemon->config.page_out_after_ms;
	if (s->state == SB_RUNNING && after)
		set_look(s, after);
	else if (s->state == SB_ASLEEP && out)
		loop_timer_set(s->daemon->loop, &s->idle, out, on_page_out);
	else
		loop_timer_stop(&s->idle);
}
