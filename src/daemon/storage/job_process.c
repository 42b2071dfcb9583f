#include "daemon/storage/job_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/beside.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/limits.h"

enum { FD_TEXT = 3, FD_ALSO = 4, FD_WITH = 5, FDS, FD_HIGH = 16, READ = 65536 };

struct job_process {
	struct daemon *daemon;
	const char *program;
	pid_t pid;
	int out;
	struct loop_io io;
	struct loop_timer late_timer;
	struct loop_task free_task, again_task;
	struct buf lines;
	uint64_t bytes; /* that follow and are no line */
	bool done, late, paused;
	struct err err; /* code 0: it has said nothing of an error */
	void (*on_line)(void *arg, const struct json *line);
	void (*on_bytes)(void *arg, struct str bytes);
	void (*on_end)(void *arg, const struct err *e);
	void *arg;
};

static void work_free(struct loop_task *t)
{
	struct job_process *w = container_of(t, struct job_process, free_task);
	buf_free(&w->lines);
	free(w);
}

static void take_error(struct job_process *w, const struct json *error)
{
	struct str code = STR_NULL;
	const char *message = NULL, *field = NULL;
	json_read_str(error, "code", &code, NULL);
	json_read_cstr(error, "message", &message, NULL);
	json_read_cstr(error, "field", &field, NULL);
	err_set(&w->err, errc_from_name(code), "%s", message ? message : "the job failed");
	if (field)
		err_about(&w->err, field);
}

static void take_line(struct job_process *w, struct str line)
{
	auto_json struct json_doc *doc = json_parse(line, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	const struct json *error = json_get(root, "error");
	if (error)
		take_error(w, error);
	else if (w->on_bytes && json_get(root, "bytes"))
		json_read_u64(root, "bytes", 0, INT64_MAX, &w->bytes, NULL);
	else if (json_get(root, "done"))
		w->done = true;
	else if (root && w->on_line)
		w->on_line(w->arg, root);
}

static void work_end(struct job_process *w)
{
	int status = 0;
	loop_del(&w->io);
	loop_timer_stop(&w->late_timer);
	fd_close(&w->out);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	struct err cut = w->err;
	if (job_process_was_cut_off(w) && w->late)
		err_set(&cut, ERRC_GATEWAY_TIMEOUT, "%s took too long", w->program);
	else if (job_process_was_cut_off(w))
		err_set(&cut, ERRC_INTERNAL_ERROR, "%s was %s before it had finished", w->program,
			WIFSIGNALED(status) ? "killed" : "gone");
	w->on_end(w->arg, cut.code ? &cut : NULL);
	loop_defer(w->daemon->loop, &w->free_task, work_free);
}

/* What is left are bytes in the middle of a line, or none. */
static void take_input(struct job_process *w)
{
	while (!w->paused && buf_size(&w->lines)) {
		struct str all = buf_str(&w->lines);
		ssize_t at = w->bytes ? -1 : str_index(all, '\n');
		if (w->bytes) {
			struct str piece = str_n(all.p, all.n < w->bytes ? all.n : (size_t)w->bytes);
			w->bytes -= piece.n;
			w->on_bytes(w->arg, piece);
			buf_consume(&w->lines, piece.n);
		} else if (at >= 0) {
			take_line(w, str_n(all.p, (size_t)at));
			buf_consume(&w->lines, (size_t)at + 1);
		} else {
			return;
		}
	}
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	struct job_process *w = container_of(io, struct job_process, io);
	(void)events;
	char *room = buf_room(&w->lines, READ);
	ssize_t n = room ? read(w->out, room, READ) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (!room)
		job_process_kill(w); /* a line that has no end */
	if (n <= 0)
		return work_end(w);
	buf_commit(&w->lines, (size_t)n);
	take_input(w);
}

void job_process_kill(struct job_process *w)
{
	kill(w->pid, SIGKILL);
}

void job_process_pause(struct job_process *w)
{
	w->paused = true;
	loop_del(&w->io);
}

static void go_on(struct loop_task *t)
{
	struct job_process *w = container_of(t, struct job_process, again_task);
	take_input(w);
	if (!w->paused)
		loop_add(w->daemon->loop, &w->io, w->out, EPOLLIN, on_readable);
}

void job_process_resume(struct job_process *w)
{
	if (!w->paused)
		return;
	w->paused = false;
	loop_defer(w->daemon->loop, &w->again_task, go_on);
}

pid_t job_process_pid(const struct job_process *w)
{
	return w->pid;
}

bool job_process_was_cut_off(const struct job_process *w)
{
	return !w->done && !w->err.code;
}

static void on_late(struct loop_timer *t)
{
	struct job_process *w = container_of(t, struct job_process, late_timer);
	w->late = true;
	job_process_kill(w);
	job_process_resume(w);
}

/* ---- start ---- */

static int text_fd(struct str text)
{
	int fd = memfd_create("job", MFD_CLOEXEC);
	if (fd >= 0 && (fd_write_full(fd, text.p, text.n) < 0 || lseek(fd, 0, SEEK_SET) < 0))
		fd_close(&fd);
	return fd;
}

/* The child's descriptors, in order; sources are moved up so that none is overwritten before it is used. */
static int spawn(const char *program, char **argv, const int fds[FDS], pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all, none;
	int high[FDS], r = 0;
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	for (int i = 0; i < FDS; i++) {
		high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, FD_HIGH);
		if (high[i] >= 0)
			posix_spawn_file_actions_adddup2(&actions, high[i], i);
		else if (fds[i] >= 0)
			r = errno;
	}
	if (r == 0)
		r = posix_spawn(ret, program, &actions, &attr, argv, environ);
	for (int i = 0; i < FDS; i++)
		fd_close(&high[i]);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* -1 for NULL too. */
static int open_program(const char *name)
{
	char path[BESIDE_PATH];
	if (!name)
		return -1;
	beside_path(name, path);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int start(struct job_process *w, const struct job_task *t)
{
	char program[BESIDE_PATH], shown[BESIDE_PATH];
	int ends[2];
	auto_fd int in = t->in;
	auto_fd int also = t->also;
	auto_fd int text = text_fd(t->text);
	auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	auto_fd int with = open_program(t->with);
	auto_free char **argv = xcalloc(t->args_n + 3, sizeof *argv);
	if (text < 0 || null < 0 || (t->with && with < 0) || pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	auto_fd int its_end = ends[1];
	w->out = ends[0];
	beside_path(t->program, program);
	beside_shown(t->program, shown);
	argv[0] = shown;
	argv[1] = (char *)t->verb;
	for (size_t i = 0; i < t->args_n; i++)
		argv[i + 2] = (char *)t->args[i];
	const int fds[FDS] = {in < 0 ? null : in, its_end, STDERR_FILENO, text, also, with};
	return spawn(program, argv, fds, &w->pid);
}

static void on_background(void *arg, const struct warden_answer *a)
{
	(void)arg;
	if (a->err && !a->lost)
		log_limited(LOG_INFO, "a job is not in the background", "error=%s", LOG_Q(a->err->msg));
}

/* What moves files compresses them too, and gets little processor time. */
static void go_to_background(const struct job_process *w)
{
	const struct warden_request q = {.op = WARDEN_BACKGROUND, .count = (uint32_t)w->pid};
	if (warden_client_is_up(w->daemon->warden))
		warden_client_call(w->daemon->warden, &q, on_background, NULL);
}

struct job_process *job_process_start(struct daemon *d, const struct job_task *t, struct err *e)
{
	struct job_process *w = xcalloc(1, sizeof *w);
	*w = (struct job_process){.daemon = d,
		.program = t->program,
		.out = -1,
		.lines = {.max = JOB_LINE_MAX},
		.on_line = t->on_line,
		.on_bytes = t->on_bytes,
		.on_end = t->on_end,
		.arg = t->arg};
	int r = start(w, t);
	if (r == 0 && fd_set_nonblock(w->out, true) == 0 &&
		loop_add(d->loop, &w->io, w->out, EPOLLIN, on_readable) == 0) {
		if (t->background)
			go_to_background(w);
		if (t->max_ms)
			loop_timer_set(d->loop, &w->late_timer, t->max_ms, on_late);
		return w;
	}
	err_os(e, ERRC_INTERNAL_ERROR, r ? r : errno, "start %s", t->program);
	if (r == 0) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
	fd_close(&w->out);
	free(w);
	return NULL;
}
