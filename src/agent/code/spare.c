#include "agent/code/spare.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/command/plain.h"
#include "agent/limits.h"
#include "agent/proc/children.h"

static struct {
	struct child child; /* watched while there is a spare */
	pid_t pid;
	struct worker_fds fds;
	struct env env;		 /* that it was started with */
	char *path;		 /* of the program */
	bool typescript;	 /* a TypeScript context has been there: the next spare loads the compiler ahead */
	struct loop_timer timer; /* until the spare is started, or ended */
} spare;

/* The runtime or its libraries read this variable before the worker's code runs. */
static bool counts_at_start(const char *entry)
{
	static const char *const prefixes[] = {"NODE_", "UV_", "LD_", "SSL_", "OPENSSL_", "MALLOC_", "GLIBC_", "V8_"};
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (!strncmp(entry, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

/* All variables of `a` that count at the start are in `b` too. */
static bool covered(const struct env *a, const struct env *b)
{
	for (size_t i = 0; i < a->n; i++) {
		if (!counts_at_start(a->v[i]))
			continue;
		bool found = false;
		for (size_t k = 0; k < b->n && !found; k++)
			found = !strcmp(a->v[i], b->v[k]);
		if (!found)
			return false;
	}
	return true;
}

static bool fits(const struct worker_spec *s)
{
	auto_free char *path = plain_find("node", env_get(s->env, "PATH"));
	return path && !strcmp(path, spare.path) && covered(s->env, &spare.env) && covered(&spare.env, s->env);
}

static void spare_forget(void)
{
	child_forget(&spare.child);
	loop_timer_stop(&spare.timer);
	env_free(&spare.env);
	free(take_ptr(&spare.path));
	spare.pid = 0;
}

static void spare_on_exit(struct child *c, int wstatus)
{
	(void)c, (void)wstatus;
	worker_fds_close(&spare.fds);
	spare_forget();
}

static void on_unwanted(struct loop_timer *t)
{
	(void)t;
	kill(-spare.pid, SIGKILL);
}

static void spare_start(struct loop_timer *t)
{
	(void)t;
	struct err e;
	if (spare.pid || agent.stopping)
		return;
	env_apply(&spare.env, &agent.env);
	spare.path = plain_find("node", env_get(&spare.env, "PATH"));
	struct worker_spec s = {.language = LANG_JAVASCRIPT, .cwd = agent.workdir, .context = "", .env = &spare.env};
	/* A failure needs no report: the next context that is created will report it. */
	if (!spare.path || worker_start_plain(&s, &spare.fds, &spare.pid, &e) < 0) {
		spare_forget();
		return;
	}
	child_watch(&spare.child, spare.pid, spare_on_exit);
	static const char warm[] = {3, 0, 0, 0, 'W', '{', '}'};
	if (spare.typescript)
		(void)!send(spare.fds.socket, warm, sizeof warm, MSG_NOSIGNAL);
	loop_timer_set(agent.loop, &spare.timer, CODE_SPARE_KEEP, on_unwanted);
}

bool spare_take(const struct worker_spec *s, struct worker_fds *ret, pid_t *ret_pid)
{
	if (s->language == LANG_PYTHON || !spare.pid || !fits(s))
		return false;
	*ret = spare.fds;
	*ret_pid = spare.pid;
	spare_forget();
	return true;
}

void spare_want(enum language l)
{
	if (l == LANG_PYTHON)
		return;
	spare.typescript |= l == LANG_TYPESCRIPT;
	if (!spare.pid)
		loop_timer_set(agent.loop, &spare.timer, CODE_SPARE_DELAY, spare_start);
}
