#include "agent/shell/ahead.h"

#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/fuse/mounts.h"

static struct list wanted = {&wanted, &wanted}, waiting = {&waiting, &waiting};
static size_t waiting_n;
static struct loop_task start_task;

static void forget(struct session *s)
{
	list_del(&s->ahead.node);
	s->ahead.shell = NULL;
	waiting_n--;
}

static void on_gone(void *owner, const struct cmd_result *untold)
{
	(void)untold; /* no command counted on it */
	forget(owner);
}

static const struct shell_owner_ops waiting_ops = {.on_gone = on_gone};

static const char *directory(const struct session *s)
{
	return s->cwd ? s->cwd : agent.workdir;
}

/* False: the shell would begin elsewhere, or the look could wait for a FUSE server. */
static bool look(const struct session *s, struct stat *ret)
{
	const char *dir = directory(s);
	return !fuse_mounts_on(dir) && stat(dir, ret) == 0 && S_ISDIR(ret->st_mode);
}

static void start(struct session *s)
{
	struct stat st;
	struct err e;
	auto_env struct env env = {0};
	if (s->shell || !agent.shell || agent.stopping || waiting_n >= SHELLS_AHEAD_MAX || !look(s, &st))
		return;
	session_env(s, &env);
	struct shell_spec spec = {
		.bash = agent.shell, .env = &env, .cwd = directory(s), .ops = &waiting_ops, .owner = s};
	s->ahead.shell = shell_start(agent.loop, &spec, &e);
	if (!s->ahead.shell)
		return; /* the command that needs it tells why */
	s->ahead.dev = st.st_dev;
	s->ahead.ino = st.st_ino;
	list_push(&waiting, &s->ahead.node);
	waiting_n++;
}

static void start_wanted(struct loop_task *t)
{
	(void)t;
	while (!list_empty(&wanted)) {
		struct session *s = list_entry(list_pop(&wanted), struct session, ahead.node);
		start(s);
	}
}

void session_expect_command(struct session *s)
{
	list_push(&wanted, &s->ahead.node);
	loop_defer_last(agent.loop, &start_task, start_wanted);
}

struct shell *ahead_take(struct session *s, const struct shell_owner_ops *ops)
{
	struct stat st;
	struct shell *shell = s->ahead.shell;
	if (!shell)
		return NULL;
	if (!look(s, &st) || st.st_dev != s->ahead.dev || st.st_ino != s->ahead.ino) {
		ahead_drop(s);
		return NULL;
	}
	forget(s);
	shell_give(shell, ops, s);
	return shell;
}

void ahead_drop(struct session *s)
{
	struct shell *shell = s->ahead.shell;
	if (shell) {
		forget(s);
		shell_close(shell);
	} else {
		list_del(&s->ahead.node);
	}
}

void sessions_env_changed(void)
{
	while (!list_empty(&waiting))
		ahead_drop(list_entry(waiting.next, struct session, ahead.node));
}
