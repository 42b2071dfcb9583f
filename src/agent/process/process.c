#include "agent/process/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/proc/children.h"
#include "agent/process/service.h"
#include "base/clock.h"

static struct list all = {&all, &all};
/* The ended ones, in the order of their ends. */
static struct list over = {&over, &over};
static size_t ended, ended_bytes;

struct list *process_all(void)
{
	return &all;
}

struct process *process_find(struct str id)
{
	list_each(it, &all)
	{
		struct process *p = list_entry(it, struct process, node);
		if (str_eq_c(id, p->id))
			return p;
	}
	return NULL;
}

bool process_is_over(const struct process *p)
{
	return p->status > PROCESS_RUNNING;
}

const char *process_status_name(enum process_status s)
{
	static const char *const names[] = {"starting", "running", "completed", "failed", "killed", "error"};
	return names[s];
}

int process_exit_code(const struct process *p)
{
	return p->result.exit_code;
}

static char *new_id(void)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char random[6];
	char tail[7] = {0};
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		memset(random, (int)clock_us(), sizeof random);
	for (size_t i = 0; i < sizeof random; i++)
		tail[i] = letters[random[i] % (sizeof letters - 1)];
	return xasprintf("proc_%lld_%s", (long long)clock_wall_ms(), tail);
}

static void free_process(struct process *p)
{
	loop_timer_stop(&p->kill_timer);
	proclog_free(&p->log);
	proclist_free(&p->tree);
	free(p->id);
	free(p->command);
	free(p->session);
	free(p);
}

void process_forget(struct process *p)
{
	if (process_is_over(p)) {
		ended--;
		ended_bytes -= p->kept_bytes;
	}
	list_del(&p->node);
	list_del(&p->over_node);
	p->forgotten = true;
	if (list_empty(&p->followers))
		free_process(p);
}

void process_unfollow(struct process *p, struct process_follower *f)
{
	list_del(&f->node);
	if (p->forgotten && list_empty(&p->followers))
		free_process(p);
}

bool process_is_idle(const struct process *p)
{
	return process_is_over(p) && !p->kill_due && list_empty(&p->waiters);
}

/* Forgets those that ended first until there is room for one more. */
static void forget_oldest(void)
{
	list_each(it, &over)
	{
		struct process *p = list_entry(it, struct process, over_node);
		if (ended < PROCESSES_MAX && ended_bytes <= PROCESS_COMMANDS_MAX)
			return;
		if (process_is_idle(p))
			process_forget(p);
	}
}

struct process *process_add(struct str id, struct str command, struct str session, struct err *e)
{
	struct process *old = id.n ? process_find(id) : NULL;
	if (old && !process_is_idle(old)) {
		err_set(e, ERRC_PROCESS_ERROR, "a process with the id '%.100s' is there already", old->id);
		return NULL;
	}
	if (old)
		process_forget(old);
	forget_oldest();
	struct process *p = xcalloc(1, sizeof *p);
	p->id = id.n ? str_dup(id) : new_id();
	p->command = str_dup(command);
	p->session = str_dup(session);
	p->start_ms = clock_wall_ms();
	proclog_init(&p->log);
	list_init(&p->followers);
	list_init(&p->waiters);
	list_push(&all, &p->node);
	return p;
}

struct process *process_add_again(struct str id, struct str command, struct str session, struct err *e)
{
	struct process *old = process_find(id);
	struct proclog kept;
	/* Followers read on in the log of the process that they know. */
	bool keep = old && process_is_idle(old) && list_empty(&old->followers);
	if (keep) {
		kept = old->log;
		proclog_init(&old->log);
	}
	struct process *p = process_add(id, command, session, e);
	if (keep)
		(p ? p : old)->log = kept;
	return p;
}

bool process_id_ok(struct str id)
{
	/* Clients put an id into a path as it is. */
	static const char *const taken[] = {".", "..", "list", "start", "kill-all", "cleanup"};
	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (str_eq_c(id, taken[i]))
			return false;
	return id.n <= PROCESS_ID_MAX && (!id.n || (!memchr(id.p, '/', id.n) && !memchr(id.p, 0, id.n)));
}

size_t process_keeping_awake(void)
{
	size_t n = 0;
	list_each(it, &all)
	{
		const struct process *p = list_entry(it, struct process, node);
		n += p->keep_alive && !process_is_over(p);
	}
	return n;
}

void process_started(struct process *p, struct cmd *cmd)
{
	p->cmd = cmd;
	p->pid = cmd_pid(cmd);
	p->status = PROCESS_RUNNING;
	p->give_up = NULL;
}

static void tell_followers(struct process *p)
{
	list_each(it, &p->followers)
	{
		struct process_follower *f = list_entry(it, struct process_follower, node);
		f->on_news(f);
	}
}

static void process_on_output(struct cmd *c, int stream, struct str bytes)
{
	struct process *p = cmd_arg(c);
	proclog_add(&p->log, stream, bytes);
	tell_followers(p);
}

static bool was_sent(const struct process *p, int sig)
{
	return sig > 0 && sig <= 64 && (p->sent >> (sig - 1) & 1);
}

static enum process_status status_of(const struct process *p, const struct cmd_result *r)
{
	if (p->kill_asked == SIGTERM || p->kill_asked == SIGKILL || r->outcome == OUTCOME_TIMEOUT ||
		r->exit_code == 128 + SIGTERM || r->exit_code == 128 + SIGKILL)
		return PROCESS_KILLED;
	/* The process may have handled another signal and ended as it liked. */
	if (was_sent(p, r->exit_code - 128))
		return PROCESS_KILLED;
	if (r->outcome == OUTCOME_LOST)
		return PROCESS_ERROR;
	return r->exit_code == 0 ? PROCESS_COMPLETED : PROCESS_FAILED;
}

static void tell_waiters(struct process *p)
{
	while (!list_empty(&p->waiters)) {
		struct process_waiter *w = list_entry(p->waiters.next, struct process_waiter, node);
		list_del(&w->node);
		w->on_end(w, p);
	}
}

static void kill_step(struct loop_timer *t);

/* Looks and signals again until a look finds no new process. */
static void signal_trees(struct process *const *v, size_t n, int sig)
{
	auto_procs struct proclist done = {0};
	for (int i = 0, hit = 1; i < PROCESS_KILL_LOOKS && hit; i++) {
		auto_procs struct proclist look = {0};
		hit = 0;
		if (proclist_read(&look) < 0)
			return;
		for (size_t k = 0; k < n; k++)
			hit += proctree_signal(&look, v[k]->pid, sig, &v[k]->tree, &done);
	}
}

/* Whether the process is a shell of the agent's making that runs the command, and not the command's program: by the
 * arguments with which the agent starts every bash. */
static bool is_own_shell(pid_t pid)
{
	static const char own[] = "bash\0--norc\0--noprofile";
	char path[32], text[sizeof own];
	snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof text) == (ssize_t)sizeof text && memcmp(text, own, sizeof own) == 0;
}

/* The program that a shell waits for is its youngest child: the last part of a pipeline gives the status. A child that
 * the signal can only kill is no heir. When it ends with a code, it did so before the signal came, and the shell, had
 * it lived, would have gone on: a loop around `sleep 0.1` that is killed has not ended with 0. */
static void find_heir(struct process *p)
{
	for (size_t i = 0; i < p->tree.n; i++) {
		const struct proc *c = &p->tree.v[i];
		bool younger = c->start > p->heir.start || (c->start == p->heir.start && c->pid > p->heir.pid);
		if (c->ppid == p->pid && (!p->heir.pid || younger))
			p->heir = *c;
	}
	if (!p->heir.takes)
		p->heir = (struct proc){0};
}

static void on_orphan_end(pid_t pid, int wstatus)
{
	list_each(it, &all)
	{
		struct process *p = list_entry(it, struct process, node);
		if (!p->cmd || p->heir.pid != pid || p->heir_ended)
			continue;
		p->heir_ended = true;
		p->heir_status = wstatus;
		loop_timer_set(agent.loop, &p->kill_timer, 0, kill_step);
	}
}

/* Whether the agent will still reap the heir. Forgets an heir that its shell has reaped: the number may come again. */
static bool heir_is_due(struct process *p)
{
	struct proc now;
	if (!p->heir.pid || p->heir_ended)
		return false;
	if (proc_read(p->heir.pid, &now) && now.start == p->heir.start)
		return true;
	p->heir = (struct proc){0};
	return false;
}

static void kill_step(struct loop_timer *t)
{
	struct process *p = container_of(t, struct process, kill_timer);
	bool heir_due = heir_is_due(p);
	if (cmd_has_ended(p->cmd) && proctree_is_gone(proclist_look_after(p->kill_began), p->pid, &p->tree) &&
		!heir_due) {
		p->kill_due = 0;
		loop_timer_stop(&p->kill_timer);
		proclist_free(&p->tree);
		return cmd_release(p->cmd);
	}
	if (!p->kill_due)
		return loop_timer_set(agent.loop, &p->kill_timer, PROCESS_SIGNAL_POLL, kill_step);
	if (!p->kill_again) {
		p->kill_again = true;
		proctree_kill_young(p->pid, SIGTERM, PROCESS_YOUNG);
	}
	/* While the tree has processes they hold its process group, so the number cannot name another group. */
	if (clock_ms() >= p->kill_due)
		signal_trees(&p, 1, SIGKILL);
	loop_timer_set(agent.loop, &p->kill_timer, PROCESS_KILL_POLL, kill_step);
}

static void process_end(struct process *p, const struct cmd_result *r, enum process_status status)
{
	proclog_end(&p->log);
	p->cmd = NULL;
	p->result = *r;
	p->status = status;
	p->end_ms = clock_wall_ms();
	p->kept_bytes = strlen(p->command);
	ended++;
	ended_bytes += p->kept_bytes;
	list_push(&over, &p->over_node);
	tell_followers(p);
	tell_waiters(p);
}

static void process_on_end(struct cmd *c, const struct cmd_result *r)
{
	struct process *p = cmd_arg(c);
	struct cmd_result own = *r;
	if (r->signal && p->heir_ended) {
		own = cmd_result_of(p->heir_status, UINT64_MAX);
		own.duration = r->duration;
	}
	enum process_status status = status_of(p, &own);
	bool asked = p->kill_asked && status == PROCESS_KILLED;
	process_end(p, &own, status);
	if (p->service && !asked)
		service_ended(p);
}

/* The process itself has ended; what it started may still run. A process that was not killed has ended then, unless it
 * is a shell that died of the signal that was meant for its program. */
static void process_on_held(struct cmd *c)
{
	struct process *p = cmd_arg(c);
	if (!p->kill_due && !was_sent(p, cmd_result(c)->signal))
		return cmd_release(c);
	p->kill_began = clock_ms();
	kill_step(&p->kill_timer);
}

const struct cmd_ops process_cmd_ops = {
	.on_output = process_on_output, .on_held = process_on_held, .on_end = process_on_end};

void process_failed(struct process *p, const struct err *e)
{
	p->give_up = NULL;
	if (list_empty(&p->followers) && list_empty(&p->waiters))
		return process_forget(p);
	process_failed_visibly(p, e);
}

void process_failed_visibly(struct process *p, const struct err *e)
{
	struct cmd_result r = {.outcome = OUTCOME_LOST, .exit_code = 1};
	auto_free char *why = xasprintf("%s\n", e->msg);
	proclog_add(&p->log, CMD_STDERR, str_of(why));
	process_end(p, &r, PROCESS_ERROR);
}

/* Ends a process that still waits for its turn. */
static void forgo(struct process *p, int sig)
{
	struct cmd_result r = {.outcome = OUTCOME_KILLED, .exit_code = 128 + sig, .signal = sig};
	p->give_up(p);
	process_end(p, &r, PROCESS_KILLED);
}

/* Before the signal is sent. SIGKILL leaves no heir: no process ends as it likes. */
static void prepare_kill(struct process *p, int sig, bool *ret_shell)
{
	children_on_stranger_end(on_orphan_end);
	*ret_shell = sig != SIGKILL && !heir_is_due(p) && !p->heir_ended && is_own_shell(p->pid);
	cmd_hold(p->cmd);
}

/* A signal that does not have to end the process. A shell that dies of it may leave the program behind: then the
 * process runs on until nothing of the tree is left. */
static void signal_only(struct process *p, int sig)
{
	bool shell, orphaned = cmd_has_ended(p->cmd);
	if (!orphaned && !is_own_shell(p->pid)) {
		proctree_kill(p->pid, sig);
		return;
	}
	prepare_kill(p, sig, &shell);
	signal_trees(&p, 1, sig);
	if (shell)
		find_heir(p);
}

/* Watches the tree from now on, until no process of it is left. */
static void await_end(struct process *p, int sig, bool shell)
{
	if (shell)
		find_heir(p);
	p->kill_began = clock_ms();
	uint64_t due = p->kill_began + (sig == SIGTERM ? PROCESS_KILL_GRACE : 0);
	if (!p->kill_due || due < p->kill_due)
		p->kill_due = due;
	loop_timer_set(agent.loop, &p->kill_timer, PROCESS_KILL_POLL, kill_step);
}

static bool is_deadly(int sig)
{
	return sig == SIGTERM || sig == SIGKILL;
}

void process_kill(struct process *p, int sig)
{
	if (process_is_over(p))
		return;
	if (p->give_up)
		return forgo(p, sig);
	if (!is_deadly(p->kill_asked))
		p->kill_asked = sig;
	p->sent |= 1ull << (sig - 1);
	if (!is_deadly(sig))
		return signal_only(p, sig);
	bool shell;
	prepare_kill(p, sig, &shell);
	signal_trees(&p, 1, sig);
	await_end(p, sig, shell);
}

void process_kill_all(const char *session)
{
	auto_free struct process **v = NULL;
	auto_free bool *shell = NULL;
	size_t n = 0;
	list_each(it, &all)
	{
		struct process *p = list_entry(it, struct process, node);
		if (session && strcmp(session, p->session) != 0)
			continue;
		if (!process_is_over(p) && p->give_up) {
			forgo(p, SIGTERM);
		} else if (!process_is_over(p)) {
			v = xrealloc(v, (n + 1) * sizeof(struct process *));
			shell = xrealloc(shell, n + 1);
			prepare_kill(p, SIGTERM, &shell[n]);
			v[n++] = p;
		}
	}
	signal_trees(v, n, SIGTERM);
	for (size_t i = 0; i < n; i++) {
		v[i]->kill_asked = SIGTERM;
		await_end(v[i], SIGTERM, shell[i]);
	}
}
