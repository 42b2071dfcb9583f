/*
 * The life of a worker: start, runs, interrupt, kill and end.
 *
 * A Python worker may come from the zygote (zygote_client.h). There is no process until the answer comes. Until that
 * process has said that it is ready, every failure leads to a plain start of the runtime's program, which the owner
 * does not notice.
 */
#include <signal.h>
#include <stdio.h>

#include "agent/agent.h"
#include "agent/code/nursery.h"
#include "agent/code/spare.h"
#include "agent/code/worker_impl.h"
#include "agent/proc/drain.h"
#include "agent/proc/oom.h"
#include "agent/proc/proctree.h"

/* ---- end ---- */

static void free_worker(struct loop_task *t)
{
	struct worker *w = container_of(t, struct worker, free_task);
	buf_free(&w->in);
	buf_free(&w->out);
	free(w);
}

void worker_finish(struct worker *w)
{
	/* Children of the process that live on may still hold the pipes. */
	for (int i = 0; i < 2; i++) {
		loop_del(&w->pipe[i].io);
		if (w->pipe[i].fd >= 0)
			drain_adopt(agent.loop, take_fd(&w->pipe[i].fd), NULL, NULL);
	}
	worker_read_reset(w);
	worker_move(w, WORKER_ENDED);
	loop_defer(agent.loop, &w->free_task, free_worker);
	w->ops->on_end(w->arg, &w->end);
}

static void worker_on_exit(struct child *child, int wstatus)
{
	struct worker *w = container_of(child, struct worker, child);
	if (w->state == WORKER_JOINING)
		return worker_restart(w);
	struct err broken = w->end.error;
	w->end = cmd_result_of(wstatus, w->oom_before);
	if (broken.code) {
		w->end.outcome = OUTCOME_LOST;
		w->end.error = broken;
	}
	loop_timer_stop(&w->closed_timer);
	proctree_kill(w->pid, SIGKILL); /* its children */
	worker_move(w, WORKER_EXITED);
	worker_read_last(w);
	worker_read(w);
}

void worker_broke(struct worker *w, const char *how)
{
	if (w->end.error.code)
		return;
	if (w->state == WORKER_JOINING)
		return worker_restart(w);
	w->end.outcome = OUTCOME_LOST;
	err_set(&w->end.error, ERRC_CODE_EXECUTION_ERROR, "%s", how);
	buf_clear(&w->in);
	if (w->part > PART_PIPES_SEEN)
		w->part = PART_PIPES_SEEN;
	w->socket_left = 0;
	loop_del(&w->io);
	fd_close(&w->fd);
	if (w->state == WORKER_EXITED)
		return;
	worker_move(w, WORKER_BROKEN);
	worker_kill(w);
}

/* ---- start ---- */

/* A process is there: takes our ends of its descriptors and sends the first frame. */
static void adopt(struct worker *w, enum worker_state to, pid_t pid, const struct worker_fds *fds, bool with_env)
{
	auto_buf struct buf init = {0};
	w->pid = pid;
	w->fd = fds->socket;
	w->interrupt_fd = fds->interrupt;
	w->pipe[0].fd = fds->out;
	w->pipe[1].fd = fds->err;
	child_watch(&w->child, pid, worker_on_exit);
	worker_move(w, to);
	worker_text_init(&init, &w->spec, with_env);
	worker_send(w, 'I', buf_str(&init));
}

static int start_plain(struct worker *w, struct err *e)
{
	struct worker_fds fds;
	pid_t pid;
	w->oom_before = oom_kills();
	bool spared = spare_take(&w->spec, &fds, &pid);
	if (!spared && worker_start_plain(&w->spec, &fds, &pid, e) < 0)
		return -1;
	adopt(w, spared ? WORKER_JOINING : WORKER_RUNNING, pid, &fds, spared);
	spare_want(w->spec.language);
	if (w->spec.language == LANG_PYTHON)
		nursery_want(&w->spec);
	return 0;
}

static void start_plain_later(struct loop_task *t)
{
	struct worker *w = container_of(t, struct worker, plain_task);
	struct err e;
	if (w->state != WORKER_STARTING || start_plain(w, &e) == 0)
		return;
	w->end = (struct cmd_result){.outcome = OUTCOME_LOST, .exit_code = 1};
	err_set(&w->end.error, ERRC_CODE_EXECUTION_ERROR, "it could not be started");
	worker_move(w, WORKER_EXITED);
	worker_finish(w);
}

void worker_restart(struct worker *w)
{
	if (w->child.pid)
		proctree_kill(w->pid, SIGKILL);
	child_forget(&w->child);
	worker_read_reset(w);
	w->preloaded = false;
	worker_move(w, WORKER_STARTING);
	loop_defer(agent.loop, &w->plain_task, start_plain_later);
}

static void on_zygote(struct zygote_call *c, pid_t pid, struct worker_fds fds)
{
	struct worker *w = container_of(c, struct worker, call);
	if (!pid)
		return worker_restart(w);
	w->preloaded = true;
	adopt(w, WORKER_JOINING, pid, &fds, true);
}

int worker_start(
	const struct worker_spec *s, const struct worker_ops *ops, void *arg, struct worker **ret, struct err *e)
{
	struct worker *w = xcalloc(1, sizeof *w);
	*w = (struct worker){.ops = ops,
		.arg = arg,
		.spec = *s,
		.fd = -1,
		.interrupt_fd = -1,
		.oom_before = oom_kills(),
		.in = {.max = CODE_ERROR_MAX + 2 * CMD_READ_CHUNK},
		.out = {.max = AGENT_BODY_MAX * 2},
		.pipe = {{.fd = -1, .w = w}, {.fd = -1, .w = w}}};
	*ret = w;
	bool own = nursery_fits(s) && zygote_ask_own(&w->call, on_zygote);
	if (own || (!nursery_allowed() && worker_may_join(s) && zygote_ask(&w->call, on_zygote))) {
		worker_move(w, WORKER_ASKING);
		return 0;
	}
	if (start_plain(w, e) == 0)
		return 0;
	free(w);
	return -1;
}

/* ---- run, stop ---- */

void worker_run(struct worker *w, uint64_t id, struct str code, const struct env *env)
{
	auto_buf struct buf b = {.max = AGENT_BODY_MAX * 2};
	worker_text_run(&b, id, code, env);
	w->oom_before = oom_kills();
	w->run = id;
	worker_send(w, 'R', buf_str(&b));
}

pid_t worker_pid(const struct worker *w)
{
	return w->pid;
}

bool worker_preloaded(const struct worker *w)
{
	return w->preloaded;
}

void worker_interrupt(struct worker *w)
{
	if (!w->child.pid)
		return;
	if (w->interrupt_fd >= 0) {
		char text[24];
		int n = snprintf(text, sizeof text, "%llu\n", (unsigned long long)w->run);
		/* The pipe is full only if the worker does not read it: the kill that follows needs no pipe. */
		(void)!write(w->interrupt_fd, text, (size_t)n);
	}
	kill(-w->pid, SIGINT);
}

static void end_cancelled(struct loop_task *t)
{
	struct worker *w = container_of(t, struct worker, cancel_task);
	w->end = (struct cmd_result){.outcome = OUTCOME_KILLED, .exit_code = 128 + SIGKILL, .signal = SIGKILL};
	worker_move(w, WORKER_EXITED);
	worker_finish(w);
}

/* Nobody wants it any more, and there is no process yet. */
static void cancel(struct worker *w)
{
	zygote_forget(&w->call);
	worker_move(w, WORKER_CANCELLED);
	loop_defer(agent.loop, &w->cancel_task, end_cancelled);
}

void worker_kill(struct worker *w)
{
	if (w->state == WORKER_JOINING)
		worker_move(w, WORKER_RUNNING); /* its end is now the worker's end */
	if (w->child.pid)
		proctree_kill(w->pid, SIGKILL);
	else if (w->state == WORKER_STARTING || w->state == WORKER_ASKING)
		cancel(w);
}
