/*
 * The socket: checks the peer, reads requests, sends replies. The form of a request is checked here, its meaning in the
 * handlers.
 *
 * A daemon that does not read costs at most WARDEN_QUEUE_MAX replies; then it is cut off and finds everything again
 * by WARDEN_LIST. A list is not queued: it goes on from its cursor when the socket has room.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "proto/id.h"
#include "proto/limits.h"
#include "warden/background.h"
#include "warden/control.h"
#include "warden/limits.h"
#include "warden/storage/pager.h"
#include "warden/storage/snapshot.h"
#include "warden/storage/storage.h"
#include "warden/storage/volume.h"
#include "warden/warden.h"

static void hang_up(struct warden *w, const char *why)
{
	if (!w->conn_io.loop)
		return;
	int fd = w->conn_io.fd;
	loop_del(&w->conn_io);
	close(fd);
	w->queue.head = w->queue.count = 0;
	w->listing = false;
	list_del(&w->list_mark);
	log_event(LOG_INFO, "daemon disconnected", "why=%s", LOG_Q(why));
}

/* 0, -EAGAIN, or another error after which the connection is gone. */
static int send_now(struct warden *w, const struct warden_reply *r)
{
	ssize_t n = send(w->conn_io.fd, r, sizeof *r, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n == (ssize_t)sizeof *r)
		return 0;
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	hang_up(w, n < 0 ? strerror(errno) : "short write");
	return -EPIPE;
}

static void server_push(struct warden *w, const struct warden_reply *r)
{
	if (!w->conn_io.loop)
		return;
	if (w->queue.count == 0 && send_now(w, r) != -EAGAIN)
		return;
	if (w->queue.count == WARDEN_QUEUE_MAX) {
		hang_up(w, "it does not read its replies");
		return;
	}
	if (!w->queue.items)
		w->queue.items = xcalloc(WARDEN_QUEUE_MAX, sizeof *w->queue.items);
	w->queue.items[(w->queue.head + w->queue.count++) % WARDEN_QUEUE_MAX] = *r;
	loop_set_events(&w->conn_io, EPOLLOUT);
}

void server_reply(struct warden *w, struct warden_asker *who, const struct err *err, const struct box *b)
{
	if (who->waiting && who->conn == w->conn) {
		struct warden_reply r = {.magic = WARDEN_MAGIC, .op = who->op, .seq = who->seq};
		if (err)
			r.err = *err;
		if (b) {
			r.has_info = 1;
			r.info = b->info;
		}
		server_push(w, &r);
	}
	*who = (struct warden_asker){0};
}

int server_reply_fds(struct warden *w, const struct warden_asker *who, const struct box *b, const int *fds, size_t n)
{
	struct warden_reply r = {.magic = WARDEN_MAGIC, .op = who->op, .seq = who->seq, .has_info = 1, .info = b->info};
	if (!w->conn_io.loop)
		return 0;
	if (w->queue.count || fd_send(w->conn_io.fd, &r, sizeof r, fds, n, MSG_DONTWAIT) == -EAGAIN)
		return -EAGAIN;
	return 0;
}

void server_reply_host(struct warden *w, struct warden_asker *who)
{
	struct warden_reply r = {.magic = WARDEN_MAGIC, .op = who->op, .seq = who->seq};
	w->offer.slots_ready = w->ready;
	w->offer.boxes = (uint32_t)w->boxes.count;
	storage_offer(w);
	struct image own;
	if (image_find(w->host.images, "default", &own, NULL) == 0)
		memcpy(w->offer.image, own.key, sizeof w->offer.image);
	r.host = w->offer;
	server_push(w, &r);
}

void server_event_died(struct warden *w, const struct box *b)
{
	struct warden_reply r = {.magic = WARDEN_MAGIC, .op = WARDEN_BOX_DIED, .has_info = 1, .info = b->info};
	server_push(w, &r);
}

/* The cursor is a node among the boxes: it keeps its place while others come and go. */
static void list_go_on(struct warden *w)
{
	while (w->listing && w->queue.count == 0) {
		struct list *next = w->list_mark.next;
		struct box *b = next == &w->all ? NULL : list_entry(next, struct box, all);
		struct warden_reply r = {.magic = WARDEN_MAGIC, .op = WARDEN_LIST, .seq = w->list_seq, .more = !!b};
		if (b) {
			r.has_info = 1;
			r.info = b->info;
		}
		int sent = send_now(w, &r);
		if (sent == -EAGAIN)
			loop_set_events(&w->conn_io, EPOLLOUT);
		if (sent < 0)
			return;
		list_del(&w->list_mark);
		if (b)
			list_push(b->all.next, &w->list_mark);
		w->listing = !!b;
	}
}

static void server_flush(struct warden *w)
{
	while (w->queue.count) {
		int r = send_now(w, &w->queue.items[w->queue.head]);
		if (r < 0)
			return;
		w->queue.head = (w->queue.head + 1) % WARDEN_QUEUE_MAX;
		w->queue.count--;
	}
	loop_set_events(&w->conn_io, EPOLLIN);
	list_go_on(w);
}

static bool text_ok(const char *text, size_t size)
{
	size_t n = strnlen(text, size);
	if (n == size)
		return false;
	for (size_t i = n; i < size; i++)
		if (text[i])
			return false;
	return true;
}

static uint32_t flags_of(uint32_t op)
{
	switch (op) {
	case WARDEN_DESTROY:
		return WARDEN_KEEP_FILES;
	case WARDEN_CREATE:
		return WARDEN_NO_FUSE | WARDEN_VOLATILE;
	case WARDEN_FUSE:
		return WARDEN_NO_FUSE;
	case WARDEN_SET_LIMITS:
		return WARDEN_ONLY_FILES;
	default:
		return 0;
	}
}

static bool is_about_volume(uint32_t op)
{
	return op == WARDEN_VOLUME || op == WARDEN_VOLUME_DISK || op == WARDEN_VOLUME_DROP;
}

/* How many volumes there are, and that all behind them is zero, is the operation's; each one is checked. */
static int check_volumes(const struct warden_request *rq, struct err *e)
{
	static const struct warden_volume none;
	bool one = is_about_volume(rq->op);
	uint32_t max = one ? 1 : rq->op == WARDEN_CREATE ? BOX_VOLUMES_MAX : 0;
	if (rq->volumes_n > max || (one && rq->volumes_n != 1))
		return err_set(e, ERRC_INVALID_REQUEST, "this operation takes no %u volumes", rq->volumes_n);
	for (uint32_t i = 0; i < BOX_VOLUMES_MAX && rq->op != WARDEN_TRUST; i++) {
		const struct warden_volume *v = &rq->volumes[i];
		if (i >= rq->volumes_n ? memcmp(v, &none, sizeof none) != 0
				       : !text_ok(v->name, sizeof v->name) || !text_ok(v->path, sizeof v->path) ||
						 !volume_name_ok(str_of(v->name)) || v->read_only > 1 ||
						 (one ? *v->path : !volume_path_ok(str_of(v->path))))
			return err_set(e, ERRC_INVALID_REQUEST, "volume %u of the record is not valid", i);
	}
	return 0;
}

static int check_form(const struct warden_request *rq, struct err *e)
{
	if (!text_ok(rq->id, sizeof rq->id) || !text_ok(rq->image, sizeof rq->image) ||
		(rq->op == WARDEN_TRUST && !text_ok(rq->pem, sizeof rq->pem)) ||
		!text_ok(rq->snapshot, sizeof rq->snapshot) || !text_ok(rq->parent, sizeof rq->parent))
		return err_set(e, ERRC_INVALID_REQUEST, "a text in the record is not terminated and padded");
	if (rq->flags & ~flags_of(rq->op))
		return err_set(e, ERRC_INVALID_REQUEST, "unknown flags 0x%x", rq->flags);
	if (rq->steer & ~(uint32_t)(rq->op == WARDEN_CREATE || rq->op == WARDEN_NETWORK ? WARDEN_STEER_ALL : 0))
		return err_set(e, ERRC_INVALID_REQUEST, "unknown steering 0x%x", rq->steer);
	if (rq->volume_bytes > (rq->op == WARDEN_CREATE || rq->op == WARDEN_SET_LIMITS ? BOX_DISK_MAX : 0))
		return err_set(
			e, ERRC_INVALID_REQUEST, "no volume has %llu bytes", (unsigned long long)rq->volume_bytes);
	if (check_volumes(rq, e) < 0)
		return -1;
	bool without_id = rq->op == WARDEN_HELLO || rq->op == WARDEN_LIST || rq->op == WARDEN_IMAGES ||
			  rq->op == WARDEN_BACKGROUND || is_about_volume(rq->op);
	bool of_snapshot = rq->op == WARDEN_SNAPSHOT_DROP || rq->op == WARDEN_SEND || rq->op == WARDEN_RECEIVE;
	if (without_id || (of_snapshot && !*rq->id))
		return 0;
	return box_id_check(str_of(rq->id), e);
}

static void start_list(struct warden *w, struct warden_asker who)
{
	struct err e;
	if (w->listing) {
		err_set(&e, ERRC_INVALID_STATE, "a list is under way already");
		server_reply(w, &who, &e, NULL);
		return;
	}
	w->listing = true;
	w->list_seq = who.seq;
	list_push(w->all.next, &w->list_mark);
	list_go_on(w);
}

/* The requests about files. False: it is none. */
static bool handle_files(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	static const struct {
		uint32_t op;
		void (*handle)(struct warden *w, const struct warden_request *rq, struct warden_asker who);
	} table[] = {{WARDEN_DISK, storage_disk}, {WARDEN_SNAPSHOT, snapshot_make},
		{WARDEN_SNAPSHOT_DROP, snapshot_drop}, {WARDEN_CLONE, snapshot_clone},
		{WARDEN_REPLACE, snapshot_replace}, {WARDEN_DIFF, snapshot_diff}, {WARDEN_SEND, snapshot_send},
		{WARDEN_RECEIVE, snapshot_receive}, {WARDEN_VOLUME, volume_make}, {WARDEN_VOLUME_DISK, volume_disk},
		{WARDEN_VOLUME_DROP, volume_drop}, {WARDEN_BACKGROUND, background_take}};
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].op == rq->op) {
			table[i].handle(w, rq, who);
			return true;
		}
	return false;
}

static void reply_images(struct warden *w, struct warden_asker *who)
{
	struct warden_reply r = {.magic = WARDEN_MAGIC, .op = who->op, .seq = who->seq};
	struct err e;
	if (w->images.usable && !w->queue.count &&
		fd_send(w->conn_io.fd, &r, sizeof r, &w->images.meta, 1, MSG_DONTWAIT) > 0)
		return;
	err_set(&e, ERRC_RESOURCE_BUSY, "the image directory cannot be handed out");
	server_reply(w, who, &e, NULL);
}

static void server_handle(struct warden *w, const struct warden_request *rq)
{
	struct warden_asker who = {.waiting = true, .conn = w->conn, .seq = rq->seq, .op = rq->op};
	struct err e;
	if (check_form(rq, &e) < 0) {
		server_reply(w, &who, &e, NULL);
		return;
	}
	switch (rq->op) {
	case WARDEN_HELLO:
		server_reply_host(w, &who);
		break;
	case WARDEN_CREATE:
		box_create(w, rq, who);
		break;
	case WARDEN_DESTROY:
		box_destroy(w, rq, who);
		break;
	case WARDEN_SIGNAL:
		control_signal(w, rq, who);
		break;
	case WARDEN_FREEZE:
		control_freeze(w, rq, who);
		break;
	case WARDEN_THAW:
		control_thaw(w, rq, who);
		break;
	case WARDEN_PAGE_OUT:
		pager_page_out(w, rq, who);
		break;
	case WARDEN_INSPECT:
		control_inspect(w, rq, who);
		break;
	case WARDEN_LIST:
		start_list(w, who);
		break;
	case WARDEN_SET_LIMITS:
		control_limits(w, rq, who);
		break;
	case WARDEN_SOCKETS:
		sockets_make(w, rq, who);
		break;
	case WARDEN_NETWORK:
		control_network(w, rq, who);
		break;
	case WARDEN_IMAGES:
		reply_images(w, &who);
		break;
	case WARDEN_TRUST:
		control_trust(w, rq, who);
		break;
	case WARDEN_FUSE:
		fuse_allow(w, rq, who);
		break;
	default:
		if (handle_files(w, rq, who))
			break;
		err_set(&e, ERRC_INVALID_REQUEST, "unknown operation %u", rq->op);
		server_reply(w, &who, &e, NULL);
	}
}

static void on_conn(struct loop_io *io, uint32_t events)
{
	struct warden *w = container_of(io, struct warden, conn_io);
	if (events & EPOLLOUT)
		server_flush(w);
	/* While replies wait no more requests are taken: the daemon's own backlog slows it down. */
	for (int i = 0; i < WARDEN_BURST && io->loop && io->events == EPOLLIN; i++) {
		struct warden_request rq;
		ssize_t n = recv(io->fd, &rq, sizeof rq, MSG_DONTWAIT | MSG_TRUNC);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n == (ssize_t)sizeof rq && rq.magic == WARDEN_MAGIC)
			server_handle(w, &rq);
		else
			hang_up(w, n > 0 ? "a record of the wrong size or magic" : n == 0 ? "closed" : strerror(errno));
	}
}

static bool may_connect(struct warden *w, int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
		return false;
	if (who.uid == w->user || who.uid == 0)
		return true;
	log_limited(LOG_WARN, "connection refused", "uid=%u pid=%d", who.uid, who.pid);
	return false;
}

static void on_listen(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct warden *w = container_of(io, struct warden, listen_io);
	auto_fd int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 || !may_connect(w, fd))
		return;
	fd_refuse_rights(fd);
	hang_up(w, "a new connection takes over");
	if (loop_add(w->loop, &w->conn_io, fd, EPOLLIN, on_conn) < 0)
		return;
	take_fd(&fd);
	w->conn++;
	log_event(LOG_INFO, "daemon connected", "conn=%llu", (unsigned long long)w->conn);
}

int server_start(struct warden *w, const char *path, gid_t group, struct err *e)
{
	w->listen_fd = fd_unix_listen(path, SOCK_SEQPACKET, 0600, 16);
	if (w->listen_fd < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -w->listen_fd, "listen on warden.sock");
	if (chown(path, w->user, group) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "give warden.sock to the daemon's user");
	int r = loop_add(w->loop, &w->listen_io, w->listen_fd, EPOLLIN, on_listen);
	return r < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, -r, "watch warden.sock") : 0;
}
