#include "agent/request/pump.h"

#include "agent/agent.h"
#include "agent/limits.h"
#include "http/sse.h"

static void run(struct pump *p);

static void on_again(struct loop_timer *t)
{
	run(container_of(t, struct pump, again));
}

static void run(struct pump *p)
{
	enum pump_state state;
	p->wrote = 0;
	p->room = true;
	do
		state = p->next(p);
	while (state == PUMP_MORE && p->room && p->wrote < PUMP_TURN);
	if (state == PUMP_END)
		http_respond_end(p->x);
	else if (state == PUMP_BROKEN)
		http_abort(p->x);
	else if (p->room)
		loop_timer_set(agent.loop, &p->again, 0, on_again);
}

static void on_writable(struct http_exchange *x)
{
	run(http_exchange_arg(x));
}

static void on_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct pump *p = http_exchange_arg(x);
	loop_timer_stop(&p->again);
	p->free(p);
}

void pump_start(struct pump *p, struct http_exchange *x, enum pump_state (*next)(struct pump *p),
	void (*free_pump)(struct pump *p))
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = on_close};
	*p = (struct pump){.x = x, .next = next, .free = free_pump};
	http_exchange_set(x, &ops, p);
	run(p);
}

void pump_write(struct pump *p, struct str bytes)
{
	p->wrote += bytes.n;
	p->room &= http_respond_write(p->x, bytes);
}

void pump_event(struct pump *p, struct str json)
{
	p->wrote += json.n;
	p->room &= sse_send(p->x, NULL, STR_NULL, json);
}
