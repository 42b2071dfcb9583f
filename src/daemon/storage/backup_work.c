#include "daemon/storage/backup_work.h"

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
#include "daemon/limits.h"

enum { FD_TEXT = 3, FD_STREAM = 4, FD_HIGH = 16, READ = 65536 };

struct backup_work {
	struct daemon *daemon;
	pid_t pid;
	int out;
	struct loop_io io;
	struct loop_task free_task;
	struct buf lines;
	bool done;
	struct err err; /* code 0: it has said nothing of an error */
	void (*on_line)(void *arg, const struct json *line);
	void (*on_end)(void *arg, const struct err *e);
	void *arg;
};

static void work_free(struct loop_task *t)
{
	struct backup_work *w = container_of(t, struct backup_work, free_task);
	buf_free(&w->lines);
	free(w);
}

static void take_error(struct backup_work *w, const struct json *error)
{
	struct str code = STR_NULL;
	const char *message = NULL;
	json_read_str(error, "code", &code, NULL);
	json_read_cstr(error, "message", &message, NULL);
	err_set(&w->err, errc_from_name(code), "%s", message ? message : "the backup failed");
}

static void take_line(struct backup_work *w, struct str line)
{
	auto_json struct json_doc *doc = json_parse(line, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	const struct json *error = json_get(root, "error");
	if (error)
		take_error(w, error);
	else if (json_get(root, "done"))
		w->done = true;
	else if (root && w->on_line)
		w->on_line(w->arg, root);
}

static void work_end(struct backup_work *w)
{
	int status = 0;
	loop_del(&w->io);
	fd_close(&w->out);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!w->done && !w->err.code)
		err_set(&w->err, ERRC_INTERNAL_ERROR, "atoll-backup was %s before it had finished",
			WIFSIGNALED(status) ? "killed" : "gone");
	w->on_end(w->arg, w->err.code ? &w->err : NULL);
	loop_defer(w->daemon->loop, &w->free_task, work_free);
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	struct backup_work *w = container_of(io, struct backup_work, io);
	(void)events;
	char *room = buf_room(&w->lines, READ);
	ssize_t n = room ? read(w->out, room, READ) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (!room)
		backup_work_kill(w); /* a line that has no end */
	if (n <= 0)
		return work_end(w);
	buf_commit(&w->lines, (size_t)n);
	for (ssize_t at; (at = str_index(buf_str(&w->lines), '\n')) >= 0;) {
		take_line(w, str_n(buf_str(&w->lines).p, (size_t)at));
		buf_consume(&w->lines, (size_t)at + 1);
	}
}

void backup_work_kill(struct backup_work *w)
{
	kill(w->pid, SIGKILL);
}

/* ---- start ---- */

static int text_fd(struct str text)
{
	int fd = memfd_create("backup", MFD_CLOEXEC);
	if (fd >= 0 && (fd_write_full(fd, text.p, text.n) < 0 || lseek(fd, 0, SEEK_SET) < 0))
		fd_close(&fd);
	return fd;
}

/* The child's descriptors, in order; sources are moved up so that none is overwritten before it is used. */
static int spawn(const char *program, char **argv, const int fds[FD_STREAM + 1], pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all, none;
	int high[FD_STREAM + 1], r = 0;
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	for (int i = 0; i <= FD_STREAM; i++) {
		high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, FD_HIGH);
		if (high[i] >= 0)
			posix_spawn_file_actions_adddup2(&actions, high[i], i);
		else if (fds[i] >= 0)
			r = errno;
	}
	if (r == 0)
		r = posix_spawn(ret, program, &actions, &attr, argv, environ);
	for (int i = 0; i <= FD_STREAM; i++)
		fd_close(&high[i]);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

static int start(struct backup_work *w, const struct backup_task *t)
{
	char program[BESIDE_PATH], shown[BESIDE_PATH];
	int ends[2];
	auto_fd int in = t->in;
	auto_fd int stream = t->stream;
	auto_fd int text = text_fd(t->text);
	auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	auto_free char **argv = xcalloc(t->args_n + 3, sizeof *argv);
	if (text < 0 || null < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	auto_fd int its_end = ends[1];
	w->out = ends[0];
	beside_path("atoll-backup", program);
	beside_shown("atoll-backup", shown);
	argv[0] = shown;
	argv[1] = (char *)t->verb;
	for (size_t i = 0; i < t->args_n; i++)
		argv[i + 2] = (char *)t->args[i];
	const int fds[FD_STREAM + 1] = {in < 0 ? null : in, its_end, STDERR_FILENO, text, stream};
	return spawn(program, argv, fds, &w->pid);
}

struct backup_work *backup_work_start(struct daemon *d, const struct backup_task *t, struct err *e)
{
	struct backup_work *w = xcalloc(1, sizeof *w);
	*w = (struct backup_work){.daemon = d,
		.out = -1,
		.lines = {.max = BACKUP_LINE_MAX},
		.on_line = t->on_line,
		.on_end = t->on_end,
		.arg = t->arg};
	int r = start(w, t);
	if (r == 0 && fd_set_nonblock(w->out, true) == 0 &&
		loop_add(d->loop, &w->io, w->out, EPOLLIN, on_readable) == 0)
		return w;
	err_os(e, ERRC_INTERNAL_ERROR, r ? r : errno, "start atoll-backup");
	if (r == 0) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
	fd_close(&w->out);
	free(w);
	return NULL;
}
