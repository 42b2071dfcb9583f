/*
 * GET /v1/doctor and POST /v1/selftest: what `atoll doctor` and `atoll selftest` find, run by the daemon as its own
 * user.
 *
 * The program `atoll` beside this one does the work; it reaches this daemon by its socket, as any client does. The
 * doctor answers with its JSON, when it has ended. The self-test is an event stream: an event for each check, as the
 * program prints it, then {"summary"}. One of each runs at a time. A client that leaves ends the program with SIGTERM,
 * which removes its boxes first.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/beside.h"
#include "base/fd.h"
#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/request.h"
#include "http/sse.h"

enum { READ = 16384, ENV_MAX = 512 };

struct check_run {
	struct daemon_request *request; /* held */
	struct http_exchange *x;	/* NULL: the client has left */
	bool streams;
	bool *running;
	pid_t pid;
	int out;
	struct loop_io io;
	struct loop_task free_task;
	struct buf text; /* of the doctor: all; of the self-test: the line that is not complete yet */
};

static void run_free(struct loop_task *t)
{
	struct check_run *c = container_of(t, struct check_run, free_task);
	daemon_request_release(c->request);
	buf_free(&c->text);
	free(c);
}

/* ---- what the program says ---- */

/* "ok   NAME", "FAIL NAME: REASON", "skip NAME: REASON"; the last line has the numbers. */
static void send_line(struct check_run *c, struct str line)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	struct str rest, word = str_split(line, ' ', &rest);
	bool ok = str_eq_c(word, "ok"), verdict = ok || str_eq_c(word, "FAIL") || str_eq_c(word, "skip");
	if (!c->x || !line.n)
		return;
	json_object_begin(&w);
	if (verdict) {
		ssize_t colon = ok ? -1 : str_index(rest, ':');
		struct str name = colon < 0 ? rest : str_n(rest.p, (size_t)colon);
		json_member_str(&w, "result", word);
		json_member_str(&w, "name", str_trim(name));
		if (colon >= 0)
			json_member_str(&w, "reason", str_trim(str_skip(rest, (size_t)colon + 1)));
	} else {
		json_member_str(&w, "summary", line);
	}
	json_object_end(&w);
	sse_send(c->x, NULL, STR_NULL, buf_str(&out));
}

static void send_lines(struct check_run *c)
{
	for (ssize_t at; (at = str_index(buf_str(&c->text), '\n')) >= 0;) {
		send_line(c, str_n(buf_str(&c->text).p, (size_t)at));
		buf_consume(&c->text, (size_t)at + 1);
	}
}

static void answer_doctor(struct check_run *c)
{
	struct err e;
	auto_json struct json_doc *doc = json_parse(buf_str(&c->text), NULL);
	if (doc)
		return daemon_request_json(c->request, 200, buf_str(&c->text));
	err_set(&e, ERRC_INTERNAL_ERROR, "atoll doctor said nothing that can be read; run it on the daemon's machine");
	daemon_request_error(c->request, &e);
}

static void run_end(struct check_run *c)
{
	loop_del(&c->io);
	fd_close(&c->out);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*c->running = false;
	if (c->x)
		daemon_request_retake(c->request);
	if (c->x && c->streams)
		http_respond_end(c->x);
	else if (c->x)
		answer_doctor(c);
	loop_defer(c->request->daemon->loop, &c->free_task, run_free);
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	struct check_run *c = container_of(io, struct check_run, io);
	(void)events;
	char *room = buf_room(&c->text, READ);
	ssize_t n = room ? read(c->out, room, READ) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (!room)
		kill(c->pid, SIGKILL); /* far more than a report */
	if (n <= 0)
		return run_end(c);
	buf_commit(&c->text, (size_t)n);
	if (c->streams)
		send_lines(c);
}

/* ---- start ---- */

/* The variables of the daemon, without those that would lead the program to another daemon. */
static void copy_environment(char *ret[ENV_MAX + 1])
{
	size_t n = 0;
	for (char **v = environ; *v && n < ENV_MAX; v++)
		if (strncmp(*v, "ATOLL_URL=", 10) != 0 && strncmp(*v, "ATOLL_TOKEN=", 12) != 0)
			ret[n++] = *v;
	ret[n] = NULL;
}

static int spawn(struct check_run *c, int out)
{
	char program[BESIDE_PATH], shown[BESIDE_PATH], *envp[ENV_MAX + 1];
	char *doctor[] = {shown, "doctor", "--json", NULL}, *selftest[] = {shown, "selftest", NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	beside_path("atoll", program);
	beside_shown("atoll", shown);
	copy_environment(envp);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	int r = posix_spawn(&c->pid, program, &actions, &attr, c->streams ? selftest : doctor, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* 0 or an errno. */
static int run_start(struct check_run *c)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	auto_fd int its_end = ends[1];
	c->out = ends[0];
	int r = spawn(c, its_end);
	if (r == 0)
		r = -fd_set_nonblock(c->out, true);
	if (r == 0)
		r = -loop_add(c->request->daemon->loop, &c->io, c->out, EPOLLIN, on_readable);
	if (r && c->pid) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
	return r;
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct check_run *c = http_exchange_arg(x);
	c->x = NULL;
	kill(c->pid, SIGTERM);
	daemon_request_retake(c->request);
	daemon_request_closed(x, complete);
}

static void run(struct daemon_request *r, bool streams)
{
	static const struct http_exchange_ops ops = {.on_close = on_close};
	static bool running[2];
	struct err e;
	if (running[streams]) {
		err_set(&e, ERRC_LIMIT_REACHED, "it runs already; wait for its end");
		return daemon_request_error(r, &e);
	}
	struct check_run *c = xcalloc(1, sizeof *c);
	*c = (struct check_run){.request = r,
		.x = r->x,
		.streams = streams,
		.running = &running[streams],
		.out = -1,
		.text = {.max = CHECKS_TEXT_MAX}};
	int failed = run_start(c);
	if (failed) {
		fd_close(&c->out);
		free(c);
		err_os(&e, ERRC_INTERNAL_ERROR, failed, "start the program atoll");
		return daemon_request_error(r, &e);
	}
	*c->running = true;
	daemon_request_hold(r);
	http_exchange_set(r->x, &ops, c);
	if (streams) {
		sse_begin(r->x);
		daemon_request_answered(r, 200);
	}
}

void handle_doctor(struct daemon_request *r)
{
	run(r, false);
}

void handle_selftest(struct daemon_request *r)
{
	run(r, true);
}
