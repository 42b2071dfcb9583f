#include "agent/code/nursery.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/code/zygote_client.h"
#include "agent/proc/children.h"
#include "agent/proc/plain.h"
#include "base/fd.h"

static struct {
	bool allowed;
	pid_t pid;
	struct child child;
	struct env env; /* that it was started with */
	char *path;	/* of the program */
	int failures;	/* in a row, before it was ready */
} nursery;

void nursery_allow(void)
{
	nursery.allowed = true;
}

bool nursery_allowed(void)
{
	return nursery.allowed;
}

static void nursery_on_exit(struct child *c, int wstatus)
{
	(void)c, (void)wstatus;
	nursery.failures = zygote_own_ready() ? 0 : nursery.failures + 1;
	zygote_own_close();
	env_free(&nursery.env);
	free(take_ptr(&nursery.path));
	nursery.pid = 0;
}

static int start(int reply, int ask, struct err *e)
{
	struct worker_zygote z = {.path = nursery.path, .env = &nursery.env, .reply = reply, .ask = ask};
	return worker_start_zygote(&z, &nursery.pid, e);
}

void nursery_want(const struct worker_spec *s)
{
	int replies[2], asks[2];
	struct err e;
	if (!nursery.allowed || nursery.pid || agent.stopping || nursery.failures >= NURSERY_TRIES)
		return;
	char *path = plain_find("python3", env_get(s->env, "PATH"));
	if (!path || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, replies) < 0) {
		free(path);
		return;
	}
	nursery.path = path;
	env_apply(&nursery.env, s->env);
	bool pipes = pipe2(asks, O_CLOEXEC) == 0;
	if (pipes && start(replies[1], asks[0], &e) == 0) {
		child_watch(&nursery.child, nursery.pid, nursery_on_exit);
		zygote_own_open(replies[0], asks[1]);
	} else {
		nursery.failures++;
		env_free(&nursery.env);
		free(take_ptr(&nursery.path));
		close(replies[0]);
		if (pipes)
			close(asks[1]);
	}
	close(replies[1]);
	if (pipes)
		close(asks[0]);
}

/* All variables of `a` that count at the start of an interpreter are in `b` too. */
static bool covered(const struct env *a, const struct env *b)
{
	for (size_t i = 0; i < a->n; i++) {
		bool found = !worker_env_counts(a->v[i]);
		for (size_t k = 0; k < b->n && !found; k++)
			found = strcmp(a->v[i], b->v[k]) == 0;
		if (!found)
			return false;
	}
	return true;
}

bool nursery_fits(const struct worker_spec *s)
{
	if (s->language != LANG_PYTHON || !nursery.pid || !zygote_own_ready())
		return false;
	auto_free char *path = plain_find("python3", env_get(s->env, "PATH"));
	return path && strcmp(path, nursery.path) == 0 && covered(s->env, &nursery.env) &&
	       covered(&nursery.env, s->env);
}
