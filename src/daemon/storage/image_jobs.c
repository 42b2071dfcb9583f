#include "daemon/storage/image_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "daemon/limits.h"
#include "daemon/listen.h"
#include "daemon/storage/image_job_input.h"
#include "daemon/storage/job_process.h"
#include "http/server/server.h"
#include "proto/image.h"

enum { SERIAL_MAX = 1 << 30 };

struct image_jobs {
	struct daemon *daemon;
	struct list waiting, running; /* struct image_job */
	size_t running_n;
	int serial; /* of the last one that began */
};

struct image_job {
	struct daemon *daemon;
	struct list node;
	struct image_task task; /* its texts are empty but for the caller */
	struct buf text;
	const char *verb;
	struct job_process *process; /* NULL before it begins */
	int serial;
	char digits[IMAGE_BOX_DIGITS + 1];
	int doors; /* it passes connections here */
	struct loop_io doors_io;
	struct job_input input;
	struct loop_task task_fail, task_free;
	struct err err; /* why it could not begin */
	bool left, chore;
};

/* ---- its end ---- */

static void job_free(struct loop_task *t)
{
	struct image_job *j = container_of(t, struct image_job, task_free);
	buf_free(&j->text);
	free(j);
}

static void begin_next(struct image_jobs *k);

static void job_end(struct image_job *j, const struct err *e, bool cut)
{
	struct image_jobs *k = j->daemon->image_jobs;
	list_del(&j->node);
	k->running_n -= !j->chore;
	loop_del(&j->doors_io);
	fd_close(&j->doors);
	job_input_free(&j->input);
	if (!j->left && j->task.on_end)
		j->task.on_end(j->task.arg, e, cut);
	loop_defer(j->daemon->loop, &j->task_free, job_free);
	begin_next(k);
}

static void tidy(struct image_job *j);

static void on_end(void *arg, const struct err *e)
{
	struct image_job *j = arg;
	bool cut = job_process_was_cut_off(j->process);
	if (cut && !j->chore && !j->daemon->stopping)
		tidy(j);
	else if (e && j->chore)
		log_event(LOG_WARN, "what a job of images has left may still be there", "error=%s", LOG_Q(e->msg));
	job_end(j, e, cut);
}

static void on_failed(struct loop_task *t)
{
	struct image_job *j = container_of(t, struct image_job, task_fail);
	job_end(j, &j->err, true);
}

/* ---- its questions ---- */

static void on_door(struct loop_io *io, uint32_t events)
{
	struct image_job *j = container_of(io, struct image_job, doors_io);
	char byte;
	int fd;
	struct err e;
	struct fd_record r = {.data = &byte, .size = 1, .fds = &fd, .fds_max = 1};
	(void)events;
	ssize_t n = fd_recv(j->doors, &r, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return;
	if (n <= 0)
		return loop_del(&j->doors_io);
	if (r.fds_n == 1 && http_server_adopt(j->daemon->server, fd, LISTEN_JOB + j->serial, NULL, &e) < 0)
		log_limited(LOG_WARN, "a connection of a job cannot be served", "error=%s", LOG_Q(e.msg));
}

const struct caller *image_jobs_caller(const struct daemon *d, int tag)
{
	list_each(it, &d->image_jobs->running)
	{
		const struct image_job *j = list_entry(it, struct image_job, node);
		if (LISTEN_JOB + j->serial == tag)
			return &j->task.caller;
	}
	return NULL;
}

/* ---- its begin ---- */

static void on_line(void *arg, const struct json *line)
{
	struct image_job *j = arg;
	if (!j->left && j->task.on_line)
		j->task.on_line(j->task.arg, line);
}

static void on_bytes(void *arg, struct str bytes)
{
	struct image_job *j = arg;
	if (!j->left && j->task.on_bytes)
		j->task.on_bytes(j->task.arg, bytes);
}

static void on_room(struct job_input *in)
{
	struct image_job *j = container_of(in, struct image_job, input);
	if (!j->left && j->task.on_room)
		j->task.on_room(j->task.arg);
}

static int choose_digits(char ret[IMAGE_BOX_DIGITS + 1], struct err *e)
{
	unsigned char raw[IMAGE_BOX_DIGITS / 2];
	if (getrandom(raw, sizeof raw, 0) != sizeof raw)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "random digits");
	for (size_t i = 0; i < sizeof raw; i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

static void describe(struct image_job *j, struct buf *ret)
{
	const struct config *c = &j->daemon->config;
	struct json_writer w = json_writer(ret);
	json_object_begin(&w);
	json_member_cstr(&w, "state", c->state_dir);
	json_member_cstr(&w, "run", c->run);
	json_member_cstr(&w, "digits", j->digits);
	if (buf_size(&j->text)) {
		buf_add_byte(ret, ',');
		buf_add_str(ret, buf_str(&j->text));
	}
	buf_add_byte(ret, '}');
}

static int start(struct image_job *j, struct err *e)
{
	auto_buf struct buf text = {0};
	int ends[2];
	if ((!j->chore && choose_digits(j->digits, e) < 0))
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a socket");
	j->doors = ends[0];
	auto_fd int its_end = ends[1];
	int in = j->task.has_body ? job_input_open(&j->input) : -1;
	if ((j->task.has_body && in < 0) || loop_add(j->daemon->loop, &j->doors_io, j->doors, EPOLLIN, on_door) < 0) {
		fd_close(&in);
		return err_set(e, ERRC_INTERNAL_ERROR, "the job's descriptors cannot be made");
	}
	describe(j, &text);
	const struct job_task t = {.program = "atoll-images",
		.verb = j->verb,
		.in = in,
		.also = take_fd(&its_end),
		.text = buf_str(&text),
		.with = "atoll-mover",
		.max_ms = j->task.max_ms,
		.on_line = on_line,
		.on_bytes = on_bytes,
		.on_end = on_end,
		.arg = j};
	j->process = job_process_start(j->daemon, &t, e);
	return j->process ? 0 : -1;
}

static void begin(struct image_job *j)
{
	struct image_jobs *k = j->daemon->image_jobs;
	list_del(&j->node);
	list_push(&k->running, &j->node);
	k->running_n += !j->chore;
	j->serial = k->serial = k->serial % SERIAL_MAX + 1;
	if (start(j, &j->err) < 0)
		loop_defer(j->daemon->loop, &j->task_fail, on_failed);
}

static void begin_next(struct image_jobs *k)
{
	while (!list_empty(&k->waiting) && k->running_n < IMAGE_JOB_PROCESS_MAX)
		begin(list_entry(k->waiting.next, struct image_job, node));
}

static struct image_job *job_new(struct daemon *d, const struct image_task *t)
{
	struct image_job *j = xcalloc(1, sizeof *j);
	*j = (struct image_job){.daemon = d, .task = *t, .verb = t->verb, .doors = -1};
	job_input_init(&j->input, d->loop, on_room);
	buf_add_str(&j->text, t->members);
	j->task.members = STR_NULL;
	list_push(&d->image_jobs->waiting, &j->node);
	return j;
}

struct image_job *image_job_start(struct daemon *d, const struct image_task *t)
{
	struct image_job *j = job_new(d, t);
	begin_next(d->image_jobs);
	return j;
}

void image_job_leave(struct image_job *j)
{
	j->left = true;
	if (j->process) {
		job_process_kill(j->process);
		job_process_resume(j->process);
	} else if (!j->serial) {
		list_del(&j->node);
		job_input_free(&j->input);
		loop_defer(j->daemon->loop, &j->task_free, job_free);
	}
}

bool image_job_write(struct image_job *j, struct str bytes)
{
	return job_input_write(&j->input, bytes);
}

void image_job_write_end(struct image_job *j)
{
	job_input_end(&j->input);
}

void image_job_pause(struct image_job *j)
{
	if (j->process)
		job_process_pause(j->process);
}

void image_job_resume(struct image_job *j)
{
	if (j->process)
		job_process_resume(j->process);
}

/* ---- what jobs leave ---- */

/* A job that removes what others have left: it waits for no place. */
static void start_chore(struct daemon *d, const char *verb, struct str members, const char *digits)
{
	const struct image_task t = {.verb = verb, .members = members, .caller = caller_daemon};
	struct image_job *j = job_new(d, &t);
	j->chore = true;
	snprintf(j->digits, sizeof j->digits, "%s", digits);
	begin(j);
}

static void tidy(struct image_job *j)
{
	auto_buf struct buf members = {0};
	buf_printf(&members, "\"pid\":%d", (int)job_process_pid(j->process));
	start_chore(j->daemon, "tidy", buf_str(&members), j->digits);
}

void image_jobs_sweep(struct daemon *d)
{
	start_chore(d, "sweep", STR_NULL, "");
}

struct image_jobs *image_jobs_new(struct daemon *d)
{
	struct image_jobs *k = xcalloc(1, sizeof *k);
	k->daemon = d;
	list_init(&k->waiting);
	list_init(&k->running);
	return k;
}
