#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/command/plain.h"
#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "agent/proc/proctree.h"
#include "agent/rpc/control.h"
#include "agent/shell/session.h"
#include "agent/term/terminal.h"
#include "base/clock.h"

/*
 * terminals.*: programs on pseudo-terminals. A terminal (term/terminal.h) has one viewer here, which keeps its output
 * in a log with cursors; readers follow the log at their own pace, so a terminal never waits for them. The log of a
 * terminal that has ended is kept with CONTROL_TERMINALS_KEPT others.
 */

struct control_terminal {
	struct list node;
	char id[40];
	char *argv; /* a JSON array */
	char *cwd;
	pid_t pid;
	struct terminal *terminal; /* NULL: over */
	struct terminal_viewer viewer;
	struct proclog log;
	struct list followers;
	struct buf input; /* that the terminal does not take now */
	bool full;
	bool over, terminating, forgotten;
	int code, signal;
	int64_t end_ms;
	struct loop_timer grace;
	struct list enders; /* calls of terminate() */
};

struct ender {
	struct list node;
	struct control_wait wait;
};

static struct list all = {&all, &all};
static size_t living, kept;

static void free_terminal(struct control_terminal *t)
{
	loop_timer_stop(&t->grace);
	proclog_free(&t->log);
	buf_free(&t->input);
	free(t->argv);
	free(t->cwd);
	free(t);
}

static void forget(struct control_terminal *t)
{
	list_del(&t->node);
	kept--;
	t->forgotten = true;
	if (list_empty(&t->followers))
		free_terminal(t);
}

void control_terminal_unfollow(void *terminal, struct process_follower *f)
{
	struct control_terminal *t = terminal;
	list_del(&f->node);
	if (t->forgotten && list_empty(&t->followers))
		free_terminal(t);
}

void control_terminal_follow(struct control_terminal *t, struct process_follower *f)
{
	list_push(&t->followers, &f->node);
}

static void tell(struct control_terminal *t)
{
	list_each(it, &t->followers)
	{
		struct process_follower *f = list_entry(it, struct process_follower, node);
		f->on_news(f);
	}
}

/* ---- the terminal ---- */

static bool on_output(struct terminal_viewer *v, struct str bytes)
{
	struct control_terminal *t = container_of(v, struct control_terminal, viewer);
	proclog_add(&t->log, CMD_STDOUT, bytes);
	tell(t);
	return true;
}

static void pour_input(struct control_terminal *t)
{
	while (t->terminal && !t->full && buf_size(&t->input)) {
		struct str s = buf_str(&t->input);
		if (s.n > TERMINAL_INPUT_HIGH)
			s.n = TERMINAL_INPUT_HIGH;
		terminal_input(t->terminal, s);
		buf_consume(&t->input, s.n);
	}
}

static void on_input_wanted(struct terminal_viewer *v, bool wanted)
{
	struct control_terminal *t = container_of(v, struct control_terminal, viewer);
	t->full = !wanted;
	/* Inside of pour_input the loop there goes on. */
	if (wanted)
		pour_input(t);
}

static void on_over(void *arg)
{
	((struct control_terminal *)arg)->terminal = NULL;
}

static void forget_first(void)
{
	list_each(it, &all)
	{
		struct control_terminal *t = list_entry(it, struct control_terminal, node);
		if (kept <= CONTROL_TERMINALS_KEPT)
			return;
		if (t->over)
			forget(t);
	}
}

static void on_program_exit(struct terminal_viewer *v, int code, int signal)
{
	struct control_terminal *t = container_of(v, struct control_terminal, viewer);
	t->over = true;
	t->code = code;
	t->signal = signal;
	t->end_ms = clock_wall_ms();
	loop_timer_stop(&t->grace);
	proclog_end(&t->log);
	living--;
	kept++;
	tell(t);
	while (!list_empty(&t->enders)) {
		struct ender *e = list_entry(list_pop(&t->enders), struct ender, node);
		struct capnweb_call *call = control_wait_take(&e->wait);
		free(e);
		if (call)
			capnweb_resolve(call, CAPNWEB_UNDEFINED);
	}
	/* Behind those that ended before it: the first ones are forgotten. */
	list_del(&t->node);
	list_push(&all, &t->node);
	forget_first();
}

/* ---- what is told of one ---- */

static void put_exit_state(struct json_writer *w, const void *owner)
{
	const struct control_terminal *t = owner;
	json_member_cstr(w, "state", "exited");
	control_put_exit(w, t->code, t->signal, false);
}

static bool is_over(const void *owner)
{
	return ((const struct control_terminal *)owner)->over;
}

static int64_t end_ms(const void *owner)
{
	return ((const struct control_terminal *)owner)->end_ms;
}

struct control_log control_terminal_log(struct control_terminal *t)
{
	return (struct control_log){.id = t->id,
		.log = &t->log,
		.owner = t,
		.is_over = is_over,
		.put_end = put_exit_state,
		.end_ms = end_ms,
		.terminal = true};
}

static void put_snapshot(struct buf *b, const struct control_terminal *t)
{
	struct json_writer w = json_writer(b);
	json_object_begin(&w);
	json_member_cstr(&w, "id", t->id);
	json_member_i64(&w, "pid", t->pid);
	json_key(&w, "command");
	capnweb_put_json(b, str_of(t->argv));
	w.comma = true;
	json_member_cstr(&w, "cwd", t->cwd);
	json_member_cstr(&w, "status", t->over ? "exited" : "running");
	if (t->over)
		control_put_exit(&w, t->code, t->signal, false);
	json_object_end(&w);
}

struct control_terminal *control_terminal_find(struct str id)
{
	list_each(it, &all)
	{
		struct control_terminal *t = list_entry(it, struct control_terminal, node);
		if (str_eq_c(id, t->id))
			return t;
	}
	return NULL;
}

static struct control_terminal *find(const struct capnweb_call *call)
{
	const struct json *id = capnweb_call_arg(call, 0);
	return id && id->type == JSON_T_STRING ? control_terminal_find(id->text) : NULL;
}

/* NULL: none, and the call is rejected and gone, with its arguments. */
static struct control_terminal *need(struct capnweb_call *call)
{
	const struct json *id = capnweb_call_arg(call, 0);
	struct control_terminal *t = find(call);
	if (t)
		return t;
	auto_free char *name = id && id->type == JSON_T_STRING ? str_dup(id->text) : xstrdup("");
	const char *details[] = {"terminalId", name, NULL};
	control_reject(call, "TERMINAL_NOT_FOUND", "Terminal not found", details);
	return NULL;
}

static void refuse(struct capnweb_call *call, const char *id, const char *operation, const char *why)
{
	const char *details[] = {"terminalId", id, "operation", operation, "reason", why, NULL};
	control_reject(call, "TERMINAL_CONTROL_ERROR", why, details);
}

/* ---- create ---- */

/* False: it is there and no size. */
static bool read_size(const struct json *value, uint64_t max, uint64_t *ret)
{
	return !value || (value->type == JSON_T_NUMBER && str_to_u64(value->text, max, ret) && *ret > 0);
}

static bool read_env(const struct json *o, struct env *env)
{
	if (o && (o->type != JSON_T_OBJECT || o->count > ENV_VARS_MAX))
		return false;
	json_each(it, o)
	{
		bool bad = !it->key.n || memchr(it->key.p, '=', it->key.n) || memchr(it->key.p, 0, it->key.n);
		if (bad || it->type != JSON_T_STRING || memchr(it->text.p, 0, it->text.n))
			return false;
		env_put(env, it->key, it->text);
	}
	env_put(env, STR("TERM"), STR("xterm-256color"));
	return true;
}

static bool check_cwd(struct capnweb_call *call, const char *id, const char *cwd)
{
	struct stat st;
	/* Only the program itself can wait for the answer of a FUSE server. */
	if (fuse_mounts_on(cwd) || (stat(cwd, &st) == 0 && S_ISDIR(st.st_mode)))
		return true;
	const char *details[] = {
		"terminalId", id, "cwd", cwd, "operation", "create", "reason", "it is no directory", NULL};
	control_reject(call, "INVALID_TERMINAL_CWD", "the working directory of the terminal is no directory", details);
	return false;
}

struct wish {
	const char **argv;
	char *text;
	struct env env;
	uint64_t cols, rows, log;
};

/* False: rejected. */
static bool read_wish(struct capnweb_call *call, const struct json *o, struct wish *w, struct control_terminal *t)
{
	const struct json *cwd = control_option(o, "cwd");
	w->argv = control_argv(call, control_option(o, "command"), &w->text);
	if (!w->argv)
		return false;
	bool named = cwd && cwd->type == JSON_T_STRING && cwd->text.n && !memchr(cwd->text.p, 0, cwd->text.n);
	t->cwd = named ? session_path(NULL, cwd->text.p) : xstrdup(cwd ? "" : agent.workdir);
	session_env(NULL, &w->env);
	if (!read_size(control_option(o, "cols"), TERMINAL_SIZE_MAX, &w->cols) ||
		!read_size(control_option(o, "rows"), TERMINAL_SIZE_MAX, &w->rows))
		return refuse(call, t->id, "create", "Invalid dimensions"), false;
	if (!read_size(control_option(o, "bufferSize"), PROCESS_LOG_MAX, &w->log))
		return refuse(call, t->id, "create", "bufferSize must be a number of bytes up to 16 MiB"), false;
	if (!read_env(control_option(o, "env"), &w->env))
		return refuse(call, t->id, "create", "env must be an object of strings, and not too many"), false;
	return check_cwd(call, t->id, t->cwd);
}

static bool start(struct capnweb_call *call, const struct wish *w, struct control_terminal *t)
{
	auto_free char *found = plain_program(w->argv[0], &w->env);
	struct err e;
	if (!found)
		return refuse(call, t->id, "create", "the program was not found in PATH"), false;
	struct terminal_spec spec = {.path = found,
		.argv = w->argv,
		.env = &w->env,
		.cwd = t->cwd,
		.cols = (uint16_t)w->cols,
		.rows = (uint16_t)w->rows,
		.on_over = on_over,
		.arg = t};
	if (terminal_start(agent.loop, &spec, &t->terminal, &e) < 0)
		return refuse(call, t->id, "create", e.msg), false;
	return true;
}

static struct control_terminal *new_terminal(void)
{
	static unsigned long long number;
	struct control_terminal *t = xcalloc(1, sizeof *t);
	snprintf(t->id, sizeof t->id, "term_%lld_%llu", (long long)clock_wall_ms(), ++number);
	t->viewer = (struct terminal_viewer){
		.on_output = on_output, .on_input_wanted = on_input_wanted, .on_exit = on_program_exit};
	proclog_init(&t->log);
	list_init(&t->node);
	list_init(&t->followers);
	list_init(&t->enders);
	return t;
}

void control_terminal_create(struct rpc *r, struct capnweb_call *call)
{
	const struct json *o = capnweb_call_arg(call, 0);
	struct wish w = {.cols = 80, .rows = 24, .log = CONTROL_TERMINAL_LOG};
	struct control_terminal *t = new_terminal();
	auto_buf struct buf argv = {0}, b = {0};
	bool ok = true;
	(void)r;
	if (living >= CONTROL_TERMINALS_MAX) {
		refuse(call, t->id, "create", "too many terminals run");
		ok = false;
	}
	ok = ok && read_wish(call, o, &w, t) && start(call, &w, t);
	if (ok) {
		capnweb_plain(&argv, control_option(o, "command"));
		t->argv = str_dup(buf_str(&argv));
		t->pid = terminal_pid(t->terminal);
		t->log.cap = w.log > CONTROL_TERMINAL_LOG_MIN ? w.log : CONTROL_TERMINAL_LOG_MIN;
		list_push(&all, &t->node);
		living++;
		terminal_attach(t->terminal, &t->viewer);
		put_snapshot(&b, t);
		rpc_resolve(call, &b);
	} else {
		free_terminal(t);
	}
	free(w.argv);
	free(w.text);
	env_free(&w.env);
}

/* ---- the others ---- */

void control_terminal_get(struct rpc *r, struct capnweb_call *call)
{
	const struct control_terminal *t = find(call);
	auto_buf struct buf b = {0};
	(void)r;
	if (!t)
		return capnweb_resolve(call, STR("null"));
	put_snapshot(&b, t);
	rpc_resolve(call, &b);
}

void control_terminal_list(struct rpc *r, struct capnweb_call *call)
{
	auto_buf struct buf b = {0};
	(void)r;
	buf_add_c(&b, "[[");
	list_each(it, &all)
	{
		if (it != all.next)
			buf_add_byte(&b, ',');
		put_snapshot(&b, list_entry(it, struct control_terminal, node));
	}
	buf_add_c(&b, "]]");
	rpc_resolve(call, &b);
}

void control_terminal_output(struct rpc *r, struct capnweb_call *call)
{
	struct control_terminal *t = need(call);
	if (!t)
		return;
	struct control_log log = control_terminal_log(t);
	control_log_open(r, call, &log, &t->followers, control_terminal_unfollow);
}

bool control_terminal_input(struct control_terminal *t, struct str bytes)
{
	if (buf_size(&t->input) + bytes.n > CONTROL_TERMINAL_WRITES)
		return false;
	buf_add_str(&t->input, bytes);
	pour_input(t);
	return true;
}

void control_terminal_write(struct rpc *r, struct capnweb_call *call)
{
	const struct json *data = capnweb_call_arg(call, 1);
	struct control_terminal *t = need(call);
	auto_buf struct buf bytes = {0};
	(void)r;
	if (!t)
		return;
	if (t->over)
		return refuse(call, t->id, "write", "the terminal has ended");
	if (!data || !capnweb_is_bytes(data) || !capnweb_bytes(&bytes, data))
		return refuse(call, t->id, "write", "data must be a Uint8Array");
	if (!control_terminal_input(t, buf_str(&bytes)))
		return refuse(call, t->id, "write", "the program does not read its input; write again when it has");
	capnweb_resolve(call, CAPNWEB_UNDEFINED);
}

void control_terminal_size(struct control_terminal *t, uint16_t cols, uint16_t rows)
{
	if (t->terminal)
		terminal_resize(t->terminal, cols, rows);
}

void control_terminal_resize(struct rpc *r, struct capnweb_call *call)
{
	const struct json *c = capnweb_call_arg(call, 1), *l = capnweb_call_arg(call, 2);
	struct control_terminal *t = need(call);
	uint64_t cols = 0, rows = 0;
	(void)r;
	if (!t)
		return;
	if (t->over)
		return refuse(call, t->id, "resize", "the terminal has ended");
	if (!c || !l || !read_size(c, TERMINAL_SIZE_MAX, &cols) || !read_size(l, TERMINAL_SIZE_MAX, &rows))
		return refuse(call, t->id, "resize", "Invalid dimensions");
	control_terminal_size(t, (uint16_t)cols, (uint16_t)rows);
	capnweb_resolve(call, CAPNWEB_UNDEFINED);
}

static void on_grace(struct loop_timer *timer)
{
	proctree_kill(container_of(timer, struct control_terminal, grace)->pid, SIGKILL);
}

void control_terminal_signal(struct control_terminal *t, bool terminate)
{
	if (t->over || (terminate && t->terminating))
		return;
	proctree_kill(t->pid, terminate ? SIGTERM : SIGINT);
	if (!terminate)
		return;
	t->terminating = true;
	loop_timer_set(agent.loop, &t->grace, CONTROL_TERMINAL_GRACE, on_grace);
}

void control_terminal_interrupt(struct rpc *r, struct capnweb_call *call)
{
	struct control_terminal *t = need(call);
	(void)r;
	if (!t)
		return;
	control_terminal_signal(t, false);
	capnweb_resolve(call, CAPNWEB_UNDEFINED);
}

/* Answered when it has ended. */
void control_terminal_terminate(struct rpc *r, struct capnweb_call *call)
{
	struct control_terminal *t = need(call);
	if (!t)
		return;
	if (t->over)
		return capnweb_resolve(call, CAPNWEB_UNDEFINED);
	struct ender *e = xcalloc(1, sizeof *e);
	control_wait_add(&e->wait, r, call);
	list_push(&t->enders, &e->node);
	control_terminal_signal(t, true);
}

void control_terminal_active(struct rpc *r, struct capnweb_call *call)
{
	(void)r;
	capnweb_resolve(call, living ? STR("true") : STR("false"));
}
