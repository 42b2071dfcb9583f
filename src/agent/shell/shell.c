#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include "agent/limits.h"
#include "agent/proc/cmd.h"
#include "agent/proc/ending.h"
#include "agent/proc/spawn.h"
#include "agent/proc/user.h"
#include "agent/shell/shell_impl.h"

static struct list shells = {&shells, &shells};

static const bool allowed[SHELL_STATES][SHELL_STATES] = {
	[SHELL_IDLE] = {[SHELL_FOREGROUND] = true, [SHELL_BACKGROUND] = true, [SHELL_DEAD] = true},
	[SHELL_FOREGROUND] = {[SHELL_IDLE] = true, [SHELL_SYNC] = true, [SHELL_DEAD] = true},
	[SHELL_BACKGROUND] = {[SHELL_IDLE] = true, [SHELL_DEAD] = true},
	[SHELL_SYNC] = {[SHELL_IDLE] = true, [SHELL_DEAD] = true},
};

void shell_move(struct shell *s, enum shell_state to)
{
	INVARIANT(s->state == to || allowed[s->state][to]);
	s->state = to;
}

/* ---- reports ---- */

static bool parse_report(struct str line, char *letter, uint64_t *seq, int *value)
{
	struct str rest, word = str_split(line, ' ', &rest);
	struct str number = str_split(rest, ' ', &rest);
	uint64_t v;
	if (word.n != 1 || !str_to_u64(number, UINT64_MAX, seq) || !str_to_u64(rest, INT32_MAX, &v))
		return false;
	*letter = word.p[0];
	*value = (int)v;
	return true;
}

static void read_reports(struct shell *s)
{
	char chunk[512];
	ssize_t n;
	while (s->control_fd >= 0 && (n = read(s->control_fd, chunk, sizeof chunk)) > 0) {
		buf_add(&s->report, chunk, (size_t)n);
		for (ssize_t end; (end = str_index(buf_str(&s->report), '\n')) >= 0;) {
			struct str line = str_n(buf_str(&s->report).p, (size_t)end);
			char letter;
			uint64_t seq;
			int value;
			bool ok = parse_report(line, &letter, &seq, &value);
			buf_consume(&s->report, (size_t)end + 1);
			if (ok)
				shell_reported(s, letter, seq, value);
		}
		if (buf_size(&s->report) > SHELL_REPORT_MAX)
			buf_clear(&s->report);
	}
}

static void on_control(struct loop_io *io, uint32_t events)
{
	struct shell *s = container_of(io, struct shell, control);
	read_reports(s);
	/* Its last writer is gone: the shell is ending (SIGCHLD tells how) or has closed it (the watch notices). */
	if (events & EPOLLHUP)
		loop_del(&s->control);
}

void shells_listen(void)
{
	list_each(it, &shells) read_reports(list_entry(it, struct shell, node));
}

/* ---- end ---- */

static void free_shell(struct loop_task *t)
{
	struct shell *s = container_of(t, struct shell, free_task);
	env_free(&s->fg.env);
	free(s->fg.command);
	free(s->fg.cwd);
	buf_free(&s->fg.late);
	proclist_free(&s->fg.spare);
	buf_free(&s->report);
	free(s);
}

static void shell_release(struct shell *s)
{
	loop_timer_stop(&s->limit);
	loop_timer_stop(&s->watch);
	loop_timer_stop(&s->grace);
	loop_del(&s->control);
	fd_close(&s->control_fd);
	fd_close(&s->feed_fd);
	fd_close(&s->script_fd);
	handoff_free(&s->in);
	handoff_free(&s->out);
	handoff_free(&s->err);
	handoff_free(&s->go);
	for (int i = 0; i < 2; i++) {
		fd_close(&s->path_fd[i]);
		if (s->held[i])
			drain_forget(s->held[i]);
	}
	list_del(&s->node);
}

static void shell_on_exit(struct child *c, int wstatus)
{
	struct shell *s = container_of(c, struct shell, child);
	read_reports(s);
	struct cmd_result r = cmd_result_of(wstatus, UINT64_MAX);
	bool told = shell_run_died(s, &r);
	shell_move(s, SHELL_DEAD);
	shell_release(s);
	if (s->ops)
		s->ops->on_gone(s->owner, told ? NULL : &r);
	loop_defer(s->loop, &s->free_task, free_shell);
}

void shell_kill(struct shell *s)
{
	proctree_kill_below(s->pid, SIGKILL, &s->fg.spare);
	kill(s->pid, SIGKILL);
}

static void on_grace_over(struct loop_timer *t)
{
	shell_kill(container_of(t, struct shell, grace));
}

/* The command that runs ends for certain, with everything that it has started: the shell may die of the hang-up before
 * a program that ignores it. */
static void end_command(struct shell *s)
{
	struct ending_spec spec = {.sig = SIGHUP, .grace_ms = CMD_HANGUP_GRACE};
	if (proclist_read(&spec.tree) < 0)
		return;
	proclist_keep_since(&spec.tree, s->pid, s->fg.began);
	ending_begin(s->loop, &spec);
}

void shell_close(struct shell *s)
{
	s->ops = NULL;
	shell_run_silence(s);
	if (s->state == SHELL_DEAD)
		return;
	if (s->state == SHELL_FOREGROUND)
		end_command(s);
	/* As when a terminal is closed: jobs of earlier commands that did not ask to stay (nohup, disown) end. */
	proctree_kill_below(s->pid, SIGHUP, NULL);
	kill(s->pid, SIGHUP);
	kill(s->pid, SIGCONT);
	fd_close(&s->feed_fd);
	loop_timer_set(s->loop, &s->grace, CMD_HANGUP_GRACE, on_grace_over);
}

void shell_give(struct shell *s, const struct shell_owner_ops *ops, void *owner)
{
	INVARIANT(s->state == SHELL_IDLE);
	s->ops = ops;
	s->owner = owner;
}

void shell_went_idle(struct shell *s)
{
	shell_move(s, SHELL_IDLE);
	if (s->ops)
		s->ops->on_idle(s->owner);
}

bool shell_is_idle(const struct shell *s)
{
	return s->state == SHELL_IDLE;
}

pid_t shell_pid(const struct shell *s)
{
	return s->pid;
}

char *shell_cwd(const struct shell *s)
{
	char link[32], path[AGENT_PATH_MAX];
	snprintf(link, sizeof link, "/proc/%d/cwd", s->pid);
	ssize_t n = box_user_readlink(link, path, sizeof path);
	if (n <= 0 || n >= (ssize_t)sizeof path)
		return NULL;
	return str_dup(str_n(path, (size_t)n));
}

/* ---- start ---- */

struct plumbing {
	int feed[2], control[2], script, path[2];
};

static void plumbing_close(struct plumbing *p)
{
	int *all[] = {&p->feed[0], &p->feed[1], &p->control[0], &p->control[1], &p->script, &p->path[0], &p->path[1]};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		fd_close(all[i]);
}

static int plumbing_open(struct plumbing *p, struct err *e)
{
	*p = (struct plumbing){{-1, -1}, {-1, -1}, -1, {-1, -1}};
	/* Packets: bash reads its input in blocks, and must not take up a line before it is due. */
	if (pipe2(p->feed, O_CLOEXEC | O_DIRECT) < 0 || pipe2(p->control, O_CLOEXEC) < 0 ||
		fcntl(p->feed[1], F_SETFL, O_NONBLOCK | O_DIRECT) < 0 ||
		fcntl(p->control[0], F_SETFL, O_NONBLOCK) < 0 || (p->script = memfd_create("command", MFD_CLOEXEC)) < 0)
		return err_os(e, ERRC_COMMAND_EXECUTION_ERROR, errno, "make pipes for a shell");
	for (int i = 0; i < 2; i++)
		if ((p->path[i] = handoff_nameless(e)) < 0)
			return -1;
	return 0;
}

static int spawn_bash(const struct shell_spec *spec, const struct plumbing *p, pid_t *ret, struct err *e)
{
	/* Interactive, so that an interrupt or an expansion error ends the command and not the shell; without the
	 * habits of a person's shell. Nothing is read from a terminal: there is none. */
	static const char *const argv[] = {"bash", "--norc", "--noprofile", "--noediting", "+H", "+o", "history", "+O",
		"expand_aliases", "-i", "-s", NULL};
	const char *home = env_get(spec->env, "HOME");
	const char *const dirs[] = {spec->cwd, home && *home ? home : "/", "/"};
	struct spawn_spec sp = {.path = spec->bash,
		.argv = argv,
		.envp = env_vector(spec->env),
		.cwd_else = "/",
		.fd = {p->feed[0], -1, -1},
		.extra = {{p->path[0], SHELL_FD_OUT}, {p->path[1], SHELL_FD_ERR}, {p->control[1], SHELL_FD_CONTROL},
			{p->script, SHELL_FD_SCRIPT}},
		.extra_n = 4};
	enum spawn_step step = SPAWN_CHDIR;
	for (size_t i = 0; i < ARRAY_LEN(dirs) && step == SPAWN_CHDIR; i++) {
		sp.cwd = dirs[i];
		if (spawn(&sp, ret, &step, e) == 0)
			return 0;
	}
	return err_wrap(e, "start the session's shell");
}

struct shell *shell_start(struct loop *l, const struct shell_spec *spec, struct err *e)
{
	struct plumbing p;
	pid_t pid;
	if (plumbing_open(&p, e) < 0 || spawn_bash(spec, &p, &pid, e) < 0) {
		plumbing_close(&p);
		return NULL;
	}
	struct shell *s = xcalloc(1, sizeof *s);
	*s = (struct shell){.loop = l,
		.ops = spec->ops,
		.owner = spec->owner,
		.pid = pid,
		.feed_fd = take_fd(&p.feed[1]),
		.script_fd = take_fd(&p.script),
		.path_fd = {take_fd(&p.path[0]), take_fd(&p.path[1])},
		.control_fd = take_fd(&p.control[0]),
		.in = HANDOFF_NONE,
		.out = HANDOFF_NONE,
		.err = HANDOFF_NONE,
		.go = HANDOFF_NONE};
	plumbing_close(&p);
	list_push(&shells, &s->node);
	child_watch(&s->child, pid, shell_on_exit);
	loop_add(l, &s->control, s->control_fd, EPOLLIN, on_control);
	return s;
}
