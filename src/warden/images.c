/*
 * The socket of the image service, and the life of a request. What a child does with the directory is in
 * images_child.c.
 */
#include "warden/images.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "proto/id.h"
#include "warden/control.h"
#include "warden/images_child.h"
#include "warden/limits.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

enum { FDS_MAX = 2 };

struct image_conn {
	struct warden *w;
	struct list node;
	struct loop_io io, pipe_io;
	struct loop_task free_task;
	struct image_request rq;
	int fds[FDS_MAX];
	size_t fds_n;
	bool busy, for_box; /* a request is under way; it waits for the end of its box */
	int pipe, pidfd;
	char staged[BOX_ID_MAX + 1]; /* the box whose layer it has asked for; "": none */
	bool starved;		     /* that box was ended because the image directory is full */
};

static void conn_free(struct loop_task *t)
{
	free(container_of(t, struct image_conn, free_task));
}

static void close_fds(struct image_conn *c)
{
	for (size_t i = 0; i < c->fds_n; i++)
		close(c->fds[i]);
	c->fds_n = 0;
}

static void conn_end(struct image_conn *c)
{
	int fd = c->io.fd;
	loop_del(&c->io);
	loop_del(&c->pipe_io);
	close(fd);
	close_fds(c);
	fd_close(&c->pipe);
	if (c->pidfd >= 0) {
		sys_pidfd_signal(c->pidfd, SIGKILL);
		waitid(P_PIDFD, (id_t)c->pidfd, &(siginfo_t){0}, WEXITED);
	}
	fd_close(&c->pidfd);
	if (*c->staged)
		staging_leave(c->w, c->staged);
	list_del(&c->node);
	c->w->images.conns_n--;
	loop_defer(c->w->loop, &c->free_task, conn_free);
}

static void answer(struct image_conn *c, struct image_reply *r, const int *fds, size_t fds_n)
{
	r->magic = IMAGE_MAGIC;
	r->op = c->rq.op;
	c->busy = c->for_box = false;
	close_fds(c);
	if (fd_send(c->io.fd, r, sizeof *r, fds, fds_n, MSG_DONTWAIT) < 0)
		return conn_end(c);
	loop_set_events(&c->io, EPOLLIN);
}

static void refuse(struct image_conn *c, const struct err *e)
{
	struct image_reply r = {.err = *e};
	answer(c, &r, NULL, 0);
}

/* ---- the child ---- */

static void on_child(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct image_conn *c = container_of(io, struct image_conn, pipe_io);
	struct image_reply r = {0};
	if (read(c->pipe, &r, sizeof r) != (ssize_t)sizeof r)
		err_set(&r.err, ERRC_INTERNAL_ERROR, "the work on the image directory was cut off");
	err_seal(&r.err);
	loop_del(io);
	fd_close(&c->pipe);
	waitid(P_PIDFD, (id_t)c->pidfd, &(siginfo_t){0}, WEXITED); /* it exits right after its answer */
	fd_close(&c->pidfd);
	if (c->rq.op == IMAGE_LINK && !r.err.code && *c->rq.key && !(c->rq.flags & IMAGE_CACHE))
		lately_name(c->w, c->rq.key);
	pool_kick(c->w); /* also for slots of an image that was removed */
	answer(c, &r, NULL, 0);
}

_Noreturn static void child_life(struct image_conn *c, int out)
{
	char layer[BOX_FILENAME_MAX];
	box_id_filename(str_of(c->rq.box), layer);
	const struct images_work work = {.rq = &c->rq,
		.images = &c->w->images,
		.boxes = storage_find(c->w, layer),
		.fds = c->fds,
		.fds_n = c->fds_n};
	struct image_reply r = {0};
	prctl(PR_SET_NAME, "atoll-image");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	images_child(&work, &r);
	if (write(out, &r, sizeof r) < 0)
		_exit(1);
	_exit(0);
}

static void start_child(struct image_conn *c)
{
	struct err e;
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		err_os(&e, ERRC_INTERNAL_ERROR, errno, "make a pipe");
		return refuse(c, &e);
	}
	c->pipe = ends[0];
	struct clone_args a = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&c->pidfd, .exit_signal = SIGCHLD};
	pid_t pid = sys_clone3(&a);
	if (pid == 0)
		child_life(c, ends[1]);
	close(ends[1]);
	if (pid < 0 || loop_add(c->w->loop, &c->pipe_io, c->pipe, EPOLLIN, on_child) < 0) {
		err_os(&e, ERRC_INTERNAL_ERROR, errno, "start the work on the image directory");
		return refuse(c, &e);
	}
}

/* ---- requests ---- */

static bool text_ok(const char *text, size_t size)
{
	size_t n = strnlen(text, size);
	for (size_t i = n; i < size; i++)
		if (text[i])
			return false;
	return n < size;
}

static bool link_ok(const char *name)
{
	char plain[IMAGE_REF_MAX + 1], again[IMAGE_LINK_MAX + 1];
	if (!*name || *name == '.' || strchr(name, '/') || !image_name_decode(name, plain))
		return false;
	image_name_encode(plain, again);
	return strcmp(again, name) == 0;
}

static int check(const struct image_conn *c, struct err *e)
{
	const struct image_request *q = &c->rq;
	if (q->magic != IMAGE_MAGIC || !text_ok(q->box, sizeof q->box) || !text_ok(q->key, sizeof q->key) ||
		!text_ok(q->layer, sizeof q->layer) || !text_ok(q->name, sizeof q->name) ||
		(q->flags & ~(uint32_t)(IMAGE_CACHE | IMAGE_DRY | IMAGE_READS)))
		return err_set(e, ERRC_INVALID_REQUEST, "a malformed record");
	if (!c->w->images.usable)
		return err_set(e, ERRC_HOST_UNSUPPORTED, "the image directory cannot be written");
	bool key = image_key_made_here(str_of(q->key)) && strcmp(q->key, IMAGE_SCRATCH) != 0;
	switch ((enum image_op)q->op) {
	case IMAGE_META:
	case IMAGE_MEASURE:
	case IMAGE_COLLECT:
		return 0;
	case IMAGE_TAKE:
		return !image_hex_ok(str_of(q->layer)) ? err_set(e, ERRC_INVALID_REQUEST, "a layer's name is 64 digits")
						       : box_id_check(str_of(q->box), e);
	case IMAGE_REACH:
		return box_id_check(str_of(q->box), e);
	case IMAGE_STAGE:
	case IMAGE_ENDED:
		return !str_starts(str_of(q->box), STR(IMAGE_BOX))
			       ? err_set(e, ERRC_INVALID_REQUEST, "a sandbox of the image service is needed")
			       : box_id_check(str_of(q->box), e);
	case IMAGE_PUT:
		return key && c->fds_n == 2 ? 0 : err_set(e, ERRC_INVALID_REQUEST, "a key and two files are needed");
	case IMAGE_PACKAGES:
		return key && c->fds_n == 1 ? 0 : err_set(e, ERRC_INVALID_REQUEST, "a key and a file are needed");
	case IMAGE_LINK:
		return link_ok(q->name) && (!*q->key || box_image_name_ok(str_of(q->key)))
			       ? 0
			       : err_set(e, ERRC_INVALID_REQUEST, "a name and a key are needed");
	case IMAGE_UNUSE:
		return key ? 0 : err_set(e, ERRC_INVALID_REQUEST, "a key is needed");
	}
	return err_set(e, ERRC_INVALID_REQUEST, "unknown operation %u", q->op);
}

static bool in_use(struct warden *w, const char *key)
{
	list_each(it, &w->all) if (strcmp(list_entry(it, struct box, all)->info.image, key) == 0) return true;
	return false;
}

/* The box must have ended before its layer is taken. */
static void take(struct image_conn *c)
{
	struct box *b = box_find(c->w, c->rq.box);
	struct err e;
	if (!b || b->stage == STAGE_DEAD)
		return start_child(c);
	if (b->stage != STAGE_RUNNING && b->stage != STAGE_FROZEN) {
		err_set(&e, ERRC_INVALID_STATE, "sandbox '%s' is being started or destroyed", c->rq.box);
		return refuse(c, &e);
	}
	c->for_box = true;
	warden_slot_kill(b->place);
}

void images_box_died(struct warden *w, const char *id)
{
	if (!w->images.usable)
		return;
	list_each(it, &w->images.conns)
	{
		struct image_conn *c = list_entry(it, struct image_conn, node);
		if (!c->for_box || strcmp(c->rq.box, id) != 0)
			continue;
		c->for_box = false;
		start_child(c);
	}
}

static void make_socket(struct image_conn *c)
{
	struct box *b = box_find(c->w, c->rq.box);
	struct image_reply ok = {0};
	struct err e;
	auto_fd int fd = -1;
	if (!b)
		err_set(&e, ERRC_SANDBOX_NOT_FOUND, "there is no sandbox '%s'", c->rq.box);
	if (!b || sockets_one(c->w, b, &fd, &e) < 0)
		return refuse(c, &e);
	answer(c, &ok, &fd, 1);
}

static void stage(struct image_conn *c)
{
	struct image_reply ok = {0};
	struct err e;
	if (staging_make(c->w, c->rq.box, c->rq.flags & IMAGE_READS, &e) < 0)
		return refuse(c, &e);
	memcpy(c->staged, c->rq.box, sizeof c->staged);
	c->starved = false;
	answer(c, &ok, NULL, 0);
}

void images_box_starved(struct warden *w, const char *id)
{
	list_each(it, &w->images.conns)
	{
		struct image_conn *c = list_entry(it, struct image_conn, node);
		c->starved = c->starved || strcmp(c->staged, id) == 0;
	}
}

/* Its files may be gone by now, and the disk has room again: only we know. */
static void tell_end(struct image_conn *c)
{
	struct image_reply ok = {0};
	struct err e;
	if (!c->starved || strcmp(c->staged, c->rq.box) != 0)
		return answer(c, &ok, NULL, 0);
	err_os(&e, ERRC_NO_SPACE, ENOSPC, "unpack a layer in the image directory");
	refuse(c, &e);
}

static void handle(struct image_conn *c)
{
	struct err e;
	struct image_reply ok = {0};
	struct image own;
	c->busy = true;
	loop_set_events(&c->io, 0); /* one request at a time; a hang-up is still told */
	if (check(c, &e) < 0)
		return refuse(c, &e);
	switch ((enum image_op)c->rq.op) {
	case IMAGE_META:
		if (image_find(c->w->host.images, "default", &own, NULL) == 0)
			memcpy(ok.own, own.key, sizeof ok.own);
		return answer(c, &ok, &c->w->images.meta, 1);
	case IMAGE_TAKE:
		return take(c);
	case IMAGE_REACH:
		return make_socket(c);
	case IMAGE_STAGE:
		return stage(c);
	case IMAGE_ENDED:
		return tell_end(c);
	case IMAGE_UNUSE:
		if (in_use(c->w, c->rq.key))
			return answer(c, &ok, NULL, 0);
		break;
	case IMAGE_PUT:
		images_use(c->w, c->rq.key);
		break;
	case IMAGE_LINK:
	case IMAGE_MEASURE:
	case IMAGE_PACKAGES:
	case IMAGE_COLLECT:
		break;
	}
	start_child(c);
}

static void on_conn(struct loop_io *io, uint32_t events)
{
	struct image_conn *c = container_of(io, struct image_conn, io);
	if (events & (EPOLLHUP | EPOLLERR))
		return conn_end(c);
	if (c->busy)
		return;
	struct fd_record in = {.data = &c->rq, .size = sizeof c->rq, .fds = c->fds, .fds_max = FDS_MAX};
	ssize_t n = fd_recv(io->fd, &in, MSG_DONTWAIT);
	if (n == -EAGAIN)
		return;
	c->fds_n = in.fds_n;
	if (n != (ssize_t)sizeof c->rq)
		return conn_end(c);
	handle(c);
}

static bool may_connect(const struct warden *w, int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && (who.uid == w->user || who.uid == 0);
}

static void on_listen(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct warden *w = container_of(container_of(io, struct images, listen_io), struct warden, images);
	auto_fd int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 || !may_connect(w, fd) || w->images.conns_n >= IMAGE_CONNS_MAX)
		return;
	struct image_conn *c = xcalloc(1, sizeof *c);
	*c = (struct image_conn){.w = w, .pipe = -1, .pidfd = -1};
	if (loop_add(w->loop, &c->io, fd, EPOLLIN, on_conn) < 0) {
		free(c);
		return;
	}
	take_fd(&fd);
	list_push(&w->images.conns, &c->node);
	w->images.conns_n++;
}

int images_listen(struct warden *w, const char *path, gid_t group, struct err *e)
{
	struct images *i = &w->images;
	i->listen_fd = fd_unix_listen(path, SOCK_SEQPACKET, 0600, 16);
	if (i->listen_fd < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -i->listen_fd, "listen on " IMAGE_SOCKET);
	if (chown(path, w->user, group) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "give " IMAGE_SOCKET " to the daemon's user");
	int r = loop_add(w->loop, &i->listen_io, i->listen_fd, EPOLLIN, on_listen);
	return r < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, -r, "watch " IMAGE_SOCKET) : 0;
}

void images_use(struct warden *w, const char *key)
{
	if (!w->images.usable || !image_key_made_here(str_of(key)))
		return;
	auto_fd int fd = openat(w->images.users, key, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || futimens(fd, NULL) < 0)
		log_limited(LOG_WARN, "cannot note that an image is used", "image=%s error=%s", LOG_Q(key),
			LOG_Q(strerror(errno)));
}
