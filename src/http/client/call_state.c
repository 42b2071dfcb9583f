/* The states of a call: the allowed moves, and the invariants that hold after each. */
#include "http/client/call.h"

enum { ANSWER_STATES = ANSWER_TOLD + 1, REQUEST_STATES = REQUEST_SHUT + 1 };

static const bool answer_moves[ANSWER_STATES][ANSWER_STATES] = {
	[ANSWER_NONE] = {[ANSWER_BEGUN] = true},
	[ANSWER_BEGUN] = {[ANSWER_HEADED] = true},
	[ANSWER_HEADED] = {[ANSWER_ENDED] = true},
	[ANSWER_ENDED] = {[ANSWER_TOLD] = true},
};

static const bool request_moves[REQUEST_STATES][REQUEST_STATES] = {
	[REQUEST_OPEN] = {[REQUEST_ENDED] = true},
	[REQUEST_ENDED] = {[REQUEST_SHUT] = true},
};

static void call_check(const struct http_call *c)
{
	bool closed = c->reply == REPLY_DONE;
	INVARIANT(closed || call_has_head(c) == (c->reply != REPLY_HEAD));
	INVARIANT(closed || c->request != REQUEST_SHUT || c->reply == REPLY_RAW);
	INVARIANT(c->answer == ANSWER_NONE || c->link);
}

void call_answer(struct http_call *c, enum answer_state to)
{
	INVARIANT(answer_moves[c->answer][to]);
	c->answer = to;
	call_check(c);
}

void call_request(struct http_call *c, enum request_state to)
{
	INVARIANT(request_moves[c->request][to]);
	c->request = to;
	call_check(c);
}
