#include "agent/request/aside.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "agent/proc/children.h"
#include "agent/proc/spawn.h"
#include "base/json.h"
#include "base/sig.h"
#include "http/proxy.h"

struct aside {
	struct child child;
	pid_t pid;
	const struct route *route;
	char *path;
	uint32_t wait;
	size_t *count;	  /* it counts there until it has ended */
	bool over, ended; /* its request; the helper itself */
	struct loop_timer kill;
};

static size_t running, watching; /* a watch lasts: it must not take the place of others */
static bool is_helper;

/* ---- which requests ---- */

bool aside_asks(void)
{
	return !is_helper && fuse_mounts_any();
}

char *aside_path(const struct agent_request *r)
{
	const struct route_aside *a = &r->route->aside;
	return a->waits && aside_asks() ? a->waits(r, a->fields) : NULL;
}

/* ---- the helper ---- */

static void on_helper_signal(void *arg, int sig)
{
	(void)arg;
	(void)sig;
	children_reap();
}

static void on_helper_done(void *arg)
{
	(void)arg;
	loop_stop(agent.loop);
}

static void on_helper_request(struct http_exchange *x, void *arg)
{
	route_request(x, arg);
	http_server_drain(agent.server, UINT32_MAX, on_helper_done, NULL);
}

/* Ends with the agent; ends when its one connection does. */
static void serve(int fd) __attribute__((noreturn));
static void serve(int fd)
{
	sigset_t set;
	struct err e;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	spawn_close_others(&fd, 1);
	is_helper = true;
	children_on_stranger(NULL); /* it would read the reports of shells, whose descriptors are closed */
	children_on_stranger_end(NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_SETMASK, &set, NULL);
	agent.loop = loop_new();
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (!agent.loop || loop_signals(agent.loop, &set, on_helper_signal, NULL) < 0)
		_exit(1);
	agent.server = http_server_new(agent.loop, on_helper_request, NULL);
	if (http_server_adopt(agent.server, fd, 0, NULL, &e) < 0)
		_exit(1);
	loop_run(agent.loop);
	_exit(0);
}

/* ---- the agent's side ---- */

static void maybe_free(struct aside *a)
{
	if (!a->over || !a->ended)
		return;
	loop_timer_stop(&a->kill);
	free(a->path);
	free(a);
}

static void on_helper_end(struct child *c, int wstatus)
{
	struct aside *a = container_of(c, struct aside, child);
	(void)wstatus;
	--*a->count;
	a->ended = true;
	maybe_free(a);
}

static void on_grace_over(struct loop_timer *t)
{
	kill(container_of(t, struct aside, kill)->pid, SIGKILL);
}

static void let_go(struct aside *a)
{
	a->over = true;
	if (!a->ended)
		loop_timer_set(agent.loop, &a->kill, ASIDE_GRACE, on_grace_over);
	maybe_free(a);
}

static void on_done(void *arg, int status, bool complete)
{
	(void)status;
	(void)complete;
	let_go(arg);
}

static void on_fail(void *arg, struct http_exchange *x, const struct http_failure *failure)
{
	static const struct http_exchange_ops no_ops;
	struct aside *a = arg;
	struct agent_request r = {.x = x, .route = a->route};
	struct err e;
	if (!*a->path)
		err_set(&e, ERRC_FILESYSTEM_ERROR, "the write was broken off, or took longer than %u s: ask again",
			a->wait / 1000);
	else if (failure->fail == HTTP_FAIL_TIMEOUT)
		err_set(&e, ERRC_FILESYSTEM_ERROR,
			"'%.100s' is in a FUSE mount whose server has not answered for %u s: end the server or unmount "
			"it",
			a->path, a->wait / 1000);
	else
		err_set(&e, ERRC_FILESYSTEM_ERROR,
			"'%.100s' is in a FUSE mount, and the operation was broken off: ask again", a->path);
	http_exchange_set(x, &no_ops, NULL);
	agent_request_fail_file(&r, &e, a->path, NULL);
	let_go(a);
}

static int check_room(const struct route *r, struct err *e)
{
	if (r->aside.lasts && watching >= ASIDE_WATCHES)
		return err_set(
			e, ERRC_LIMIT_REACHED, "%d watches of directories with FUSE mounts run already", ASIDE_WATCHES);
	if (!r->aside.lasts && running >= ASIDE_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "%d file operations wait for FUSE servers already", ASIDE_MAX);
	return 0;
}

static int start_helper(pid_t *ret_pid, int *ret_fd, struct err *e)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a socket pair");
	*ret_pid = fork();
	if (*ret_pid == 0)
		serve(pair[0]);
	close(pair[0]);
	if (*ret_pid < 0) {
		close(pair[1]);
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "start a process for a file in a FUSE mount");
	}
	*ret_fd = pair[1];
	return 0;
}

/* A request with a time limit of its own answers by itself after that. */
static uint32_t wait_of(const struct agent_request *r)
{
	const struct route_aside *a = &r->route->aside;
	uint64_t ms = a->wait ? a->wait : ASIDE_WAIT;
	struct err e;
	if (!a->own_max)
		return (uint32_t)ms;
	json_read_u64(r->body, "timeoutMs", 1, a->own_max, &ms, &e);
	return (uint32_t)ms + ASIDE_WAIT;
}

void aside_run(const struct agent_request *r, struct str text, const char *path)
{
	static struct http_client *client;
	struct err e;
	pid_t pid = -1;
	int fd = -1;
	if (check_room(r->route, &e) < 0 || start_helper(&pid, &fd, &e) < 0)
		return agent_request_fail_file(r, &e, path, NULL);
	struct aside *a = xcalloc(1, sizeof *a);
	*a = (struct aside){.pid = pid,
		.route = r->route,
		.path = xstrdup(path),
		.wait = wait_of(r),
		.count = r->route->aside.lasts ? &watching : &running};
	child_watch(&a->child, pid, on_helper_end);
	++*a->count;
	if (!client)
		client = http_client_new(agent.loop);
	const struct http_proxy_options o = {.body = text,
		.head_ms = a->wait,
		.stall_ms = a->wait,
		.on_fail = on_fail,
		.on_done = on_done,
		.arg = a};
	http_proxy_fd(r->x, client, fd, &o);
}
