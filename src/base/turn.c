#include "base/turn.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"

enum { US = 1000 };

void turns_init(struct turns *t)
{
	*t = (struct turns){.number = 1};
	list_init(&t->parties);
	list_init(&t->strangers);
	list_init(&t->fresh);
}

void turns_begin(struct turns *t)
{
	t->number++;
	t->greedy_before = t->greedy;
	t->greedy = 0;
}

/* ---- parties ---- */

void turn_party_init(struct turn_party *p, struct loop *l, bool strangers)
{
	*p = (struct turn_party){.turns = loop_turns(l), .strangers = strangers, .refs = 1};
	list_init(&p->ahead);
	list_init(&p->seats);
}

static bool has_seats(const struct turn_party *p)
{
	return !list_empty(&p->ahead) || !list_empty(&p->seats);
}

void turn_party_leave(struct turn_party *p)
{
	INVARIANT(!has_seats(p));
	list_del(&p->node);
	if (p->turns->billed == p)
		p->turns->billed = NULL;
}

struct turn_party *turn_party_new(struct loop *l)
{
	struct turn_party *p = xcalloc(1, sizeof *p);
	turn_party_init(p, l, false);
	return p;
}

struct turn_party *turn_party_ref(struct turn_party *p)
{
	if (p)
		p->refs++;
	return p;
}

void turn_party_unref(struct turn_party *p)
{
	if (!p || --p->refs)
		return;
	turn_party_leave(p);
	free(p);
}

/* ---- bills ---- */

static void charge(struct turn_party *p, uint64_t ns)
{
	struct turns *t = p->turns;
	uint64_t before = p->number == t->number ? p->spent : 0;
	p->number = t->number;
	p->spent = before + ns;
	t->greedy += !p->strangers && before < TURN_PART * US && p->spent >= TURN_PART * US;
}

void turn_bill(struct turn_party *p)
{
	struct turns *t = p->turns;
	if (t->billed == p)
		return;
	uint64_t now = clock_ns();
	if (t->billed)
		charge(t->billed, now - t->since);
	t->billed = p;
	t->since = now;
}

void turns_settle(struct turns *t)
{
	if (!t->billed)
		return;
	charge(t->billed, clock_ns() - t->since);
	t->billed = NULL;
}

static uint64_t spent(const struct turn_party *p)
{
	const struct turns *t = p->turns;
	uint64_t before = p->number == t->number ? p->spent : 0;
	return t->billed == p ? before + (clock_ns() - t->since) : before;
}

/* Greedy parties of the last turn are expected again; those of this turn may be more already. */
static uint64_t part(const struct turn_party *p)
{
	const struct turns *t = p->turns;
	if (p->strangers)
		return TURN_STRANGERS * US;
	bool counted = p->number == t->number && p->spent >= TURN_PART * US;
	uint64_t n = t->greedy + !counted;
	if (n < t->greedy_before)
		n = t->greedy_before;
	uint64_t all = TURN_SHARED * US / n;
	return all > TURN_PART * US ? all : TURN_PART * US;
}

static bool has_part(const struct turn_party *p)
{
	uint64_t used = spent(p);
	return used < TURN_PART * US || used < part(p);
}

bool turn_may(struct turn_party *p)
{
	if (p->granted) {
		p->granted = false;
		return true;
	}
	if (p->strangers && !p->turns->serving)
		return false;
	return !has_seats(p) && has_part(p);
}

/* ---- seats ---- */

void turn_wait(struct turn_seat *s)
{
	struct turn_party *p = s->party;
	struct turns *t = p->turns;
	if (turn_waits(s))
		return;
	list_push(s->ahead ? &p->ahead : &p->seats, &s->node);
	list_push(&t->fresh, &s->fresh);
	if (list_empty(&p->node))
		list_push(p->strangers ? &t->strangers : &t->parties, &p->node);
}

void turn_leave(struct turn_seat *s)
{
	list_del(&s->node);
	list_del(&s->fresh);
}

bool turn_go_on(struct turn_seat *s)
{
	if (!turn_waits(s) && turn_may(s->party))
		return true;
	turn_wait(s);
	return false;
}

bool turn_admit(struct turn_seat *s, uint32_t events)
{
	if (turn_go_on(s))
		return true;
	s->events |= events;
	return false;
}

void turn_move(struct turn_seat *s, struct turn_party *to)
{
	struct turn_party *from = s->party;
	bool waits = turn_waits(s);
	if (from == to)
		return;
	turn_leave(s);
	s->party = to;
	if (waits)
		turn_wait(s);
	if (from && to->turns->billed == from)
		turn_bill(to);
}

static void run_seat(struct turn_seat *s)
{
	struct turn_party *p = s->party;
	uint32_t events = s->events;
	turn_leave(s);
	s->events = 0;
	s->served = p->turns->number;
	p->granted = true;
	turn_bill(p);
	s->run(s, events);
	turns_settle(p->turns);
	p->granted = false;
}

/* The first that has not run in this turn, or NULL: those that wait again are after the others of their list. */
static struct turn_seat *next_seat(const struct turn_party *p)
{
	const struct list *lists[] = {&p->ahead, &p->seats};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct turn_seat *s = list_empty(lists[i]) ? NULL : list_entry(lists[i]->next, struct turn_seat, node);
		if (s && s->served != p->turns->number)
			return s;
	}
	return NULL;
}

/* At least one seat, and none twice in a turn. */
static void serve_party(struct turn_party *p)
{
	bool first = true;
	struct turn_seat *s;
	turn_party_ref(p);
	while ((first || has_part(p)) && (s = next_seat(p))) {
		first = false;
		run_seat(s);
	}
	if (has_seats(p) && list_empty(&p->node))
		list_push(p->strangers ? &p->turns->strangers : &p->turns->parties, &p->node);
	turn_party_unref(p);
}

static void serve(struct list *queue)
{
	struct list now;
	list_init(&now);
	while (!list_empty(queue))
		list_push(&now, list_pop(queue));
	while (!list_empty(&now))
		serve_party(list_entry(list_pop(&now), struct turn_party, node));
}

void turns_serve(struct turns *t)
{
	t->serving = true;
	serve(&t->parties);
	serve(&t->strangers);
	t->serving = false;
	while (!list_empty(&t->fresh)) {
		struct turn_seat *s = list_entry(list_pop(&t->fresh), struct turn_seat, fresh);
		loop_set_events(s->io, 0);
	}
}
