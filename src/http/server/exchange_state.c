/* The states of an exchange: the allowed moves, and the invariants that hold after each. */
#include "http/server/conn.h"

static const bool input_moves[INPUT_STATES][INPUT_STATES] = {
	[INPUT_OPEN] = {[INPUT_ENDED] = true, [INPUT_TOLD] = true},
	[INPUT_ENDED] = {[INPUT_TOLD] = true},
	[INPUT_TOLD] = {[INPUT_OPEN] = true}, /* an upgrade: raw bytes follow */
};

static const bool collect_moves[COLLECT_STATES][COLLECT_STATES] = {
	[COLLECT_OFF] = {[COLLECT_ON] = true, [COLLECT_DUE] = true, [COLLECT_TOO_LARGE] = true},
	[COLLECT_ON] = {[COLLECT_DUE] = true, [COLLECT_TOO_LARGE] = true},
	[COLLECT_DUE] = {[COLLECT_TOLD] = true},
};

static const bool respond_moves[RESPOND_STATES][RESPOND_STATES] = {
	[RESPOND_NOT] = {[RESPOND_BEGUN] = true},
	[RESPOND_BEGUN] = {[RESPOND_MORE] = true, [RESPOND_ENDED] = true},
	[RESPOND_MORE] = {[RESPOND_BEGUN] = true, [RESPOND_ENDED] = true},
	[RESPOND_ENDED] = {[RESPOND_SHUT] = true},
};

static void exchange_check(const struct http_exchange *x)
{
	bool raw = x->body == BODY_RAW, whole = x->collect == COLLECT_DUE || x->collect == COLLECT_TOLD;
	INVARIANT((x->respond == RESPOND_NOT) == (x->status == 0));
	INVARIANT(raw == (x->out == OUT_RAW));
	INVARIANT(raw || x->respond != RESPOND_SHUT);
	INVARIANT(raw || !whole || exchange_body_ended(x));
}

void exchange_input(struct http_exchange *x, enum input_state to)
{
	INVARIANT(input_moves[x->input][to]);
	x->input = to;
	exchange_check(x);
}

void exchange_collect(struct http_exchange *x, enum collect_state to)
{
	INVARIANT(collect_moves[x->collect][to]);
	x->collect = to;
	exchange_check(x);
}

void exchange_respond(struct http_exchange *x, enum respond_state to)
{
	INVARIANT(respond_moves[x->respond][to]);
	x->respond = to;
	exchange_check(x);
}

void exchange_end_at_least(struct http_exchange *x, enum exchange_end end)
{
	if (x->end < end)
		x->end = end;
}
