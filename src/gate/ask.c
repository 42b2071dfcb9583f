#include "gate/ask.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/json.h"
#include "gate/gate.h"

enum { ID_BYTES = 12 };

struct ask {
	struct list node, of_box; /* of g->asks, and of b->asks */
	struct gate_box *box;
	struct list waits;
	struct loop_timer timer;
	char id[2 * ID_BYTES + 1];
	char host[NET_NAME_MAX + 1];
	const char *protocol;
	struct ip wanted;
	uint16_t port;
	int64_t since, until; /* wall clock, ms */
};

/* ---- to atolld ---- */

static void tell(const struct ask *q)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	char text[IP_TEXT];
	json_object_begin(&w);
	json_member_cstr(&w, "op", "ask");
	json_member_cstr(&w, "ask", q->id);
	json_member_cstr(&w, "id", box_id(q->box));
	json_member_cstr(&w, "host", q->host);
	json_member_u64(&w, "port", q->port);
	json_member_cstr(&w, "protocol", q->protocol);
	json_member_cstr(&w, "address", synth_is(&q->wanted) ? NULL : ip_format(&q->wanted, text));
	json_member_i64(&w, "time", q->since);
	json_member_i64(&w, "until", q->until);
	json_object_end(&w);
	buf_add_byte(&b, '\n');
	control_send(q->box->gate, buf_str(&b));
}

static void take_back(const struct ask *q, const char *end)
{
	char line[128];
	int n = snprintf(line, sizeof line, "{\"op\":\"unask\",\"ask\":\"%s\",\"end\":\"%s\"}\n", q->id, end);
	control_send(q->box->gate, str_n(line, (size_t)n));
}

void ask_tell_all(struct gate *g)
{
	list_each(it, &g->asks) tell(list_entry(it, struct ask, node));
}

/* ---- life ---- */

static void drop(struct ask *q)
{
	loop_timer_stop(&q->timer);
	list_del(&q->node);
	list_del(&q->of_box);
	q->box->asks_n--;
	free(q);
}

/* What a waiter does may start and cancel other questions; this one is out of the lists before. */
static void finish(struct ask *q, enum ask_answer a)
{
	struct list waits;
	list_init(&waits);
	while (!list_empty(&q->waits)) {
		struct list *node = list_pop(&q->waits);
		list_push(&waits, node);
	}
	drop(q);
	list_each(it, &waits) list_entry(it, struct ask_wait, node)->ask = NULL;
	while (!list_empty(&waits)) {
		struct ask_wait *w = list_entry(list_pop(&waits), struct ask_wait, node);
		w->on_answer(w, a);
	}
}

static void on_late(struct loop_timer *t)
{
	struct ask *q = container_of(t, struct ask, timer);
	take_back(q, "timeout");
	finish(q, ASK_LATE);
}

static struct ask *find(struct gate_box *b, const struct ask_what *what)
{
	list_each(it, &b->asks)
	{
		struct ask *q = list_entry(it, struct ask, of_box);
		if (q->port == what->port && strcmp(q->host, what->host) == 0)
			return q;
	}
	return NULL;
}

static bool make_id(char id[2 * ID_BYTES + 1])
{
	uint8_t bytes[ID_BYTES];
	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		return false;
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

static struct ask *make(struct gate_box *b, const struct ask_what *what)
{
	const struct policy *p = box_policy(b);
	if (!p || b->asks_n >= GATE_ASKS_MAX)
		return NULL;
	struct ask *q = xcalloc(1, sizeof *q);
	if (!make_id(q->id)) {
		free(q);
		return NULL;
	}
	q->box = b;
	q->protocol = what->protocol;
	q->wanted = *what->wanted;
	q->port = what->port;
	snprintf(q->host, sizeof q->host, "%s", what->host);
	q->since = clock_wall_ms();
	q->until = q->since + (int64_t)p->ask_ms;
	list_init(&q->waits);
	list_push(&b->gate->asks, &q->node);
	list_push(&b->asks, &q->of_box);
	b->asks_n++;
	loop_timer_set(b->gate->loop, &q->timer, p->ask_ms, on_late);
	tell(q);
	return q;
}

bool ask_start(struct gate_box *b, const struct ask_what *what, struct ask_wait *w)
{
	struct ask *q = find(b, what);
	q = q ? q : make(b, what);
	if (!q)
		return false;
	w->ask = q;
	list_push(&q->waits, &w->node);
	return true;
}

void ask_cancel(struct ask_wait *w)
{
	struct ask *q = w->ask;
	list_del(&w->node);
	w->ask = NULL;
	if (!q || !list_empty(&q->waits))
		return;
	take_back(q, "gone");
	drop(q);
}

void ask_answered(struct gate *g, const char *id, bool allow)
{
	list_each(it, &g->asks)
	{
		struct ask *q = list_entry(it, struct ask, node);
		if (strcmp(q->id, id) == 0)
			return finish(q, allow ? ASK_ALLOW : ASK_DENY);
	}
}
