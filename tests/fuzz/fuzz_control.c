/*
 * The methods of the 1.0 preview with a hostile client: the input is frames, one a line. Programs, terminals and
 * requests to routes are stand-ins (the linker's --wrap puts them in the place of the agent's own), so that no input
 * runs or changes anything of this machine; they write, end and stop at times that the input's length decides. A first
 * line "0.12" drives the table of 0.12. Nothing may crash or leak; what the session held is gone with it.
 */
#include <unistd.h>

#include "agent/agent.h"
#include "agent/command/run.h"
#include "agent/limits.h"
#include "agent/request/local.h"
#include "agent/rpc/control.h"
#include "agent/term/terminal.h"
#include "fuzz.h"

/* ---- programs ---- */

struct cmd {
	struct list node;
	const struct cmd_ops *ops;
	void *arg;
};

static struct list programs = {&programs, &programs};

int __wrap_run_start_argv(const char *const *argv, const struct run_spec *s, const struct run_place *at,
	struct cmd **ret, enum spawn_step *ret_step, struct err *e);
int __wrap_run_start_argv(const char *const *argv, const struct run_spec *s, const struct run_place *at,
	struct cmd **ret, enum spawn_step *ret_step, struct err *e)
{
	(void)s;
	if (argv[0][0] == '!') {
		*ret_step = argv[0][1] == 'd' ? SPAWN_CHDIR : SPAWN_CLONE;
		return err_set(e, ERRC_COMMAND_NOT_FOUND, "no such program");
	}
	struct cmd *c = xcalloc(1, sizeof *c);
	*c = (struct cmd){.ops = at->ops, .arg = at->arg};
	list_push(&programs, &c->node);
	*ret = c;
	return 0;
}

void *__wrap_cmd_arg(const struct cmd *c);
void *__wrap_cmd_arg(const struct cmd *c)
{
	return c->arg;
}

pid_t __wrap_cmd_pid(const struct cmd *c);
pid_t __wrap_cmd_pid(const struct cmd *c)
{
	(void)c;
	return 1;
}

void __wrap_cmd_hold(struct cmd *c);
void __wrap_cmd_hold(struct cmd *c)
{
	(void)c;
}

bool __wrap_cmd_input(struct cmd *c, struct str bytes);
bool __wrap_cmd_input(struct cmd *c, struct str bytes)
{
	(void)c;
	return bytes.n < 100;
}

void __wrap_cmd_input_end(struct cmd *c);
void __wrap_cmd_input_end(struct cmd *c)
{
	(void)c;
}

void __wrap_proctree_kill(pid_t root, int sig);
void __wrap_proctree_kill(pid_t root, int sig)
{
	(void)root;
	(void)sig;
}

static void end_program(struct cmd *c, int code)
{
	struct cmd_result r = {.outcome = OUTCOME_EXITED, .exit_code = code};
	list_del(&c->node);
	c->ops->on_end(c, &r);
	free(c);
}

/* Of a deadline. */
void __wrap_process_kill(struct process *p, int sig);
void __wrap_process_kill(struct process *p, int sig)
{
	end_program(p->cmd, 128 + sig);
}

/* ---- terminals ---- */

struct terminal {
	struct list node;
	struct terminal_spec spec;
	struct terminal_viewer *viewer;
	bool wanted;
};

static struct list terminals = {&terminals, &terminals};

int __wrap_terminal_start(struct loop *l, const struct terminal_spec *s, struct terminal **ret, struct err *e);
int __wrap_terminal_start(struct loop *l, const struct terminal_spec *s, struct terminal **ret, struct err *e)
{
	(void)l;
	if (s->cols % 7 == 0)
		return err_set(e, ERRC_INTERNAL_ERROR, "no terminal");
	struct terminal *t = xcalloc(1, sizeof *t);
	*t = (struct terminal){.spec = *s, .wanted = true};
	list_push(&terminals, &t->node);
	*ret = t;
	return 0;
}

void __wrap_terminal_attach(struct terminal *t, struct terminal_viewer *v);
void __wrap_terminal_attach(struct terminal *t, struct terminal_viewer *v)
{
	t->viewer = v;
}

int __wrap_terminal_pid(const struct terminal *t);
int __wrap_terminal_pid(const struct terminal *t)
{
	(void)t;
	return 1;
}

void __wrap_terminal_input(struct terminal *t, struct str bytes);
void __wrap_terminal_input(struct terminal *t, struct str bytes)
{
	MUST(t->wanted && bytes.n <= TERMINAL_INPUT_HIGH);
	t->wanted = false;
	t->viewer->on_input_wanted(t->viewer, false);
}

void __wrap_terminal_resize(struct terminal *t, uint16_t cols, uint16_t rows);
void __wrap_terminal_resize(struct terminal *t, uint16_t cols, uint16_t rows)
{
	(void)t;
	MUST(cols && rows);
}

static void end_terminal(struct terminal *t)
{
	struct terminal_viewer *v = t->viewer;
	list_del(&t->node);
	t->spec.on_over(t->spec.arg);
	v->on_exit(v, 1, 0);
	free(t);
}

/* ---- the session ---- */

struct http_call *__wrap_local_call(
	const struct http_call_options *o, const struct http_call_ops *ops, void *arg, struct err *e);
struct http_call *__wrap_local_call(
	const struct http_call_options *o, const struct http_call_ops *ops, void *arg, struct err *e)
{
	(void)ops;
	(void)arg;
	MUST(o->target.n && o->target.p[0] == '/');
	err_set(e, ERRC_INTERNAL_ERROR, "no routes");
	return NULL;
}

static bool on_send(void *arg, struct str frame)
{
	struct json_parser p;
	(void)arg;
	json_parser_init(&p, NULL, NULL);
	(void)json_feed(&p, frame, NULL);
	return frame.n % 7 != 0;
}

static void on_call(void *arg, struct capnweb_call *call, void *object, const char *name)
{
	struct rpc_object *o = object;
	if (o)
		o->on_call(o, call, name);
	else if (!control_start(arg, call, name))
		rpc_start(arg, call, name);
}

static void on_drop(void *arg, void *object)
{
	struct rpc_object *o = object;
	(void)arg;
	o->on_drop(o);
}

static bool over;

static void on_end(void *arg, const char *reason)
{
	(void)arg;
	MUST(reason[0]);
	over = true;
}

static const struct capnweb_ops ops = {
	.send = on_send, .on_call = on_call, .has_object = rpc_has_object, .on_drop = on_drop, .on_end = on_end};

static void turn_programs(size_t i)
{
	if (list_empty(&programs))
		return;
	struct cmd *first = list_entry(programs.next, struct cmd, node);
	if (i % 2 == 0)
		first->ops->on_output(first, i % 4 ? CMD_STDOUT : CMD_STDERR, STR("some output\xc3\n"));
	if (i % 5 == 0)
		end_program(first, (int)(i % 3));
}

static void turn_terminals(size_t i)
{
	if (list_empty(&terminals))
		return;
	struct terminal *t = list_entry(terminals.next, struct terminal, node);
	if (i % 3 == 0)
		(void)t->viewer->on_output(t->viewer, STR("$ \x1b[1m"));
	if (i % 4 == 0) {
		t->wanted = true;
		t->viewer->on_input_wanted(t->viewer, true);
	}
	if (i % 11 == 0)
		end_terminal(t);
}

static void turn(struct rpc *r, size_t i)
{
	capnweb_writable(r->session);
	turn_programs(i);
	turn_terminals(i);
	loop_turn(agent.loop, 0);
	MUST(r->subs <= CONTROL_SUBS_MAX);
}

/* As the end of a socket. */
static void leave(struct rpc *r)
{
	rpc_tunnels_leave(r);
	control_leave(r);
	MUST(list_empty(&r->calls) && !r->n);
	capnweb_free(take_ptr(&r->session));
	MUST(!r->subs);
	while (!list_empty(&programs))
		end_program(list_entry(programs.next, struct cmd, node), 0);
	while (!list_empty(&terminals))
		end_terminal(list_entry(terminals.next, struct terminal, node));
	loop_turn(agent.loop, 0);
	list_each(it, process_all())
	{
		struct process *p = list_entry(it, struct process, node);
		MUST(process_is_idle(p) && list_empty(&p->followers));
		process_forget(p);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpc r = {.control = true};
	struct str rest = str_n(data, size);
	if (!agent.loop) {
		agent.loop = loop_new();
		agent.workdir = xstrdup("/");
		env_put(&agent.env, STR("PATH"), STR("/usr/bin:/bin"));
	}
	if (str_starts(rest, STR("0.12\n"))) {
		r.control = false;
		rest = str_skip(rest, 5);
	}
	over = false;
	list_init(&r.calls);
	r.session = capnweb_new(&ops, &r);
	for (size_t i = 1; rest.n && !over; i++) {
		capnweb_frame(r.session, str_split(rest, '\n', &rest));
		if (!over)
			turn(&r, i);
	}
	leave(&r);
	return 0;
}
