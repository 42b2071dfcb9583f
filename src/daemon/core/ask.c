/* Questions to the warden about one sandbox. */
#include "daemon/core/sandbox.h"

struct question {
	struct sandbox *sandbox; /* referenced */
	sandbox_on_answer on_answer;
	void *arg;
};

static void on_warden_answer(void *arg, const struct warden_answer *a)
{
	struct question q = *(struct question *)arg;
	free(arg);
	if (q.on_answer)
		q.on_answer(q.sandbox, a, q.arg);
	sandbox_unref(q.sandbox);
}

void sandbox_ask(struct sandbox *s, const struct warden_request *r, sandbox_on_answer on_answer, void *arg)
{
	struct warden_request named = *r;
	memcpy(named.id, s->id, sizeof named.id);
	struct question *q = xmalloc(sizeof *q);
	*q = (struct question){s, on_answer, arg};
	sandbox_ref(s);
	warden_client_call(s->daemon->warden, &named, on_warden_answer, q);
}
