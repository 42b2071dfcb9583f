#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/command/run.h"
#include "agent/limits.h"
#include "agent/rpc/control.h"
#include "agent/shell/session.h"
#include "base/clock.h"
#include "proto/errc.h"

/*
 * processes.*: programs without a shell. They are processes like others (process.h) with a struct launch, and this
 * domain knows only those. Such a process ends when its whole process group has: a program that leaves a child behind
 * is not over. Its result is that of the program. kill() sends what it is told and nothing else.
 */

/* ---- the process group ---- */

static void group_step(struct loop_timer *t)
{
	struct process *p = container_of(t, struct process, kill_timer);
	/* The group's number names nothing else while it has members. */
	if (kill(-p->pid, 0) == 0 || errno != ESRCH)
		loop_timer_set(agent.loop, t, CONTROL_GROUP_POLL, group_step);
	else
		cmd_release(p->cmd);
}

static void on_held(struct cmd *c)
{
	struct process *p = cmd_arg(c);
	/* One that is being killed past its deadline waits for its tree in its own way. */
	if (p->kill_due)
		return process_cmd_ops.on_held(c);
	group_step(&p->kill_timer);
}

static void on_output(struct cmd *c, int stream, struct str bytes)
{
	process_cmd_ops.on_output(c, stream, bytes);
}

static void on_end(struct cmd *c, const struct cmd_result *r)
{
	struct process *p = cmd_arg(c);
	loop_timer_stop(&p->launch->deadline);
	process_cmd_ops.on_end(c, r);
}

static void on_deadline(struct loop_timer *t)
{
	struct launch *l = container_of(t, struct launch, deadline);
	list_each(it, process_all())
	{
		struct process *p = list_entry(it, struct process, node);
		if (p->launch != l)
			continue;
		l->timed_out = true;
		return process_kill(p, SIGTERM);
	}
}

/* ---- what is told of a process ---- */

static void put_end(struct json_writer *w, const void *owner)
{
	const struct process *p = owner;
	bool lost = p->result.outcome == OUTCOME_LOST;
	json_member_cstr(w, "state", lost ? "error" : "exited");
	if (!lost)
		return control_put_exit(w, p->result.exit_code, p->result.signal, p->launch->timed_out);
	json_key(w, "error");
	json_object_begin(w);
	json_member_cstr(w, "code", "EXIT_FAILED");
	json_member_cstr(w, "message", "the end of the process is not known");
	json_object_end(w);
}

static bool is_over(const void *owner)
{
	return process_is_over(owner);
}

static int64_t end_ms(const void *owner)
{
	return ((const struct process *)owner)->end_ms;
}

static void put_status(struct buf *b, const struct process *p)
{
	char iso[CLOCK_ISO_LEN];
	struct json_writer w = json_writer(b);
	json_object_begin(&w);
	json_member_cstr(&w, "id", p->id);
	json_member_i64(&w, "pid", p->pid);
	json_key(&w, "command");
	capnweb_put_json(b, str_of(p->launch->argv));
	w.comma = true;
	json_member_cstr(&w, "cwd", p->launch->cwd);
	json_member_cstr(&w, "startedAt", clock_iso(p->start_ms, iso));
	if (process_is_over(p)) {
		put_end(&w, p);
		json_member_cstr(&w, "endedAt", clock_iso(p->end_ms, iso));
	} else {
		json_member_cstr(&w, "state", "running");
	}
	json_object_end(&w);
}

/* NULL: none, and the call is rejected. */
static struct process *need(struct capnweb_call *call)
{
	const struct json *id = capnweb_call_arg(call, 0);
	struct process *p = id && id->type == JSON_T_STRING ? process_find(id->text) : NULL;
	if (p && p->launch)
		return p;
	auto_free char *name = id && id->type == JSON_T_STRING ? str_dup(id->text) : xstrdup("");
	const char *details[] = {"processId", name, NULL};
	control_reject(call, "PROCESS_NOT_FOUND", "Process not found", details);
	return NULL;
}

/* ---- start ---- */

static void refuse_env(struct capnweb_call *call, struct str name, const char *why)
{
	auto_free char *text = str_dup(name);
	const char *details[] = {"name", name.n ? text : NULL, "reason", why, NULL};
	control_reject(call, "INVALID_PROCESS_ENVIRONMENT", why, details);
}

/* False: refused. */
static bool read_env(struct capnweb_call *call, const struct json *o, struct env *env)
{
	size_t n = 0;
	if (!o)
		return true;
	if (o->type != JSON_T_OBJECT)
		return refuse_env(call, STR_NULL, "env must be an object of strings"), false;
	json_each(it, o)
	{
		if (!it->key.n || memchr(it->key.p, '=', it->key.n) || memchr(it->key.p, 0, it->key.n))
			return refuse_env(
				       call, it->key, "the name of a variable must not be empty or contain '=' or NUL"),
			       false;
		if (it->type != JSON_T_STRING || memchr(it->text.p, 0, it->text.n))
			return refuse_env(call, it->key, "the value of a variable must be a string without NUL bytes"),
			       false;
		if (++n > ENV_VARS_MAX)
			return refuse_env(call, it->key, "there are too many variables"), false;
		env_put(env, it->key, it->text);
	}
	return true;
}

static void refuse_cwd(struct capnweb_call *call, const char *cwd, const char *why)
{
	const char *details[] = {"cwd", cwd, "reason", why, NULL};
	control_reject(call, "INVALID_PROCESS_CWD", why, details);
}

/* NULL: refused. */
static char *read_cwd(struct capnweb_call *call, const struct json *cwd)
{
	if (!cwd)
		return xstrdup(agent.workdir);
	if (cwd->type == JSON_T_STRING && cwd->text.n && !memchr(cwd->text.p, 0, cwd->text.n))
		return session_path(NULL, cwd->text.p);
	refuse_cwd(call, cwd->type == JSON_T_STRING ? "" : NULL, "cwd must be a path");
	return NULL;
}

/* False: refused. */
static bool read_timeout(struct capnweb_call *call, const struct json *timeout, uint64_t *ret)
{
	double ms = timeout && timeout->type == JSON_T_NUMBER ? strtod(timeout->text.p, NULL) : 0;
	if (!timeout)
		return true;
	if (!isfinite(ms) || ms < 1) {
		control_reject(call, "INVALID_COMMAND", "timeout must be a number of milliseconds above 0", NULL);
		return false;
	}
	*ret = ms > (double)CMD_TIMEOUT_MAX ? CMD_TIMEOUT_MAX : (uint64_t)ceil(ms);
	return true;
}

struct wish {
	const char **argv;
	char *text, *cwd;
	struct env env;
	uint64_t timeout;
};

static void wish_free(struct wish *w)
{
	free(w->argv);
	free(w->text);
	free(w->cwd);
	env_free(&w->env);
}

/* False: refused. */
static bool read_wish(struct capnweb_call *call, struct wish *w)
{
	const struct json *options = capnweb_call_arg(call, 1);
	w->argv = control_argv(call, capnweb_call_arg(call, 0), &w->text);
	if (!w->argv)
		return false;
	session_env(NULL, &w->env);
	w->cwd = read_cwd(call, control_option(options, "cwd"));
	return w->cwd && read_env(call, control_option(options, "env"), &w->env) &&
	       read_timeout(call, control_option(options, "timeout"), &w->timeout);
}

static void refuse_start(
	struct capnweb_call *call, const struct wish *w, const char *id, enum spawn_step step, const struct err *e)
{
	const char *details[] = {"processId", id, "command", w->text, "cwd", w->cwd, "stderr", e->msg, NULL};
	if (step == SPAWN_CHDIR)
		return refuse_cwd(call, w->cwd, e->msg);
	control_reject(call, "PROCESS_SPAWN_FAILED", e->msg, details);
}

static struct process *launch(struct capnweb_call *call, const struct wish *w)
{
	static const struct cmd_ops ops = {.on_output = on_output, .on_held = on_held, .on_end = on_end};
	auto_run struct run_spec none = {0};
	auto_buf struct buf argv = {0};
	enum spawn_step step = SPAWN_CLONE;
	struct cmd *cmd;
	struct err e;
	struct process *p = process_add(STR_NULL, str_of(w->text), STR(""), &e);
	struct run_place at = {.env = &w->env, .cwd = w->cwd, .ops = &ops, .arg = p};
	if (!p)
		return rpc_reject(call, &e), NULL;
	if (run_start_argv(w->argv, &none, &at, &cmd, &step, &e) < 0) {
		refuse_start(call, w, p->id, step, &e);
		process_failed(p, &e);
		return NULL;
	}
	capnweb_plain(&argv, capnweb_call_arg(call, 0));
	p->launch = xcalloc(1, sizeof *p->launch);
	*p->launch = (struct launch){.argv = str_dup(buf_str(&argv)), .cwd = xstrdup(w->cwd)};
	process_started(p, cmd);
	cmd_hold(cmd);
	if (w->timeout)
		loop_timer_set(agent.loop, &p->launch->deadline, w->timeout, on_deadline);
	return p;
}

void control_process_start(struct rpc *r, struct capnweb_call *call)
{
	struct wish w = {0};
	auto_buf struct buf b = {0};
	(void)r;
	const struct process *p = read_wish(call, &w) ? launch(call, &w) : NULL;
	if (p) {
		put_status(&b, p);
		rpc_resolve(call, &b);
	}
	wish_free(&w);
}

/* ---- the others ---- */

void control_process_get(struct rpc *r, struct capnweb_call *call)
{
	const struct json *id = capnweb_call_arg(call, 0);
	const struct process *p = id && id->type == JSON_T_STRING ? process_find(id->text) : NULL;
	auto_buf struct buf b = {0};
	(void)r;
	if (!p || !p->launch)
		return capnweb_resolve(call, STR("null"));
	put_status(&b, p);
	rpc_resolve(call, &b);
}

void control_process_list(struct rpc *r, struct capnweb_call *call)
{
	auto_buf struct buf b = {0};
	(void)r;
	buf_add_c(&b, "[[");
	list_each(it, process_all())
	{
		const struct process *p = list_entry(it, struct process, node);
		if (!p->launch)
			continue;
		if (buf_size(&b) > 2)
			buf_add_byte(&b, ',');
		put_status(&b, p);
	}
	buf_add_c(&b, "]]");
	rpc_resolve(call, &b);
}

static void unfollow(void *owner, struct process_follower *f)
{
	process_unfollow(owner, f);
}

void control_process_logs(struct rpc *r, struct capnweb_call *call)
{
	struct process *p = need(call);
	if (!p)
		return;
	struct control_log log = {
		.id = p->id, .log = &p->log, .owner = p, .is_over = is_over, .put_end = put_end, .end_ms = end_ms};
	control_log_open(r, call, &log, &p->followers, unfollow);
}

void control_process_kill(struct rpc *r, struct capnweb_call *call)
{
	const struct json *arg = capnweb_call_arg(call, 1);
	uint64_t sig = SIGTERM;
	struct process *p = need(call);
	(void)r;
	if (!p)
		return;
	if (arg && (arg->type != JSON_T_NUMBER || !str_to_u64(arg->text, SIGRTMAX, &sig) || !sig)) {
		const char *details[] = {"processId", p->id, NULL};
		return control_reject(call, "PROCESS_ERROR", "a signal must be a number from 1 to 64", details);
	}
	if (!process_is_over(p)) {
		p->kill_asked = (int)sig;
		proctree_kill(p->pid, (int)sig);
	}
	capnweb_resolve(call, CAPNWEB_UNDEFINED);
}

void control_process_active(struct rpc *r, struct capnweb_call *call)
{
	bool active = false;
	(void)r;
	list_each(it, process_all())
	{
		const struct process *p = list_entry(it, struct process, node);
		active = active || (p->launch && !process_is_over(p));
	}
	capnweb_resolve(call, active ? STR("true") : STR("false"));
}
