#include "warden/network.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "cage/fs.h"
#include "cage/sys.h"
#include "proto/gate.h"
#include "warden/warden.h"

#define GATE_SOCKET "/run/gate-w.sock"
enum { BPFFS_MAGIC = (int)0xcafe4a11 };

/* ---- the host ---- */

static bool is_bpffs(const char *path)
{
	struct statfs s;
	return statfs(path, &s) == 0 && (int)s.f_type == BPFFS_MAGIC;
}

/* Mounted in the host's namespace, so that the pins outlive us. */
static int mount_bpffs(const char *path, struct err *e)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "make the directory '%s'", path);
	if (is_bpffs(path))
		return 0;
	const struct fs_option options[] = {{"mode", "0700"}};
	auto_fd int fs = fs_make("bpf", options, ARRAY_LEN(options),
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "mount a bpffs", e);
	auto_fd int at = fs < 0 ? -1 : open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fs < 0)
		return -1;
	return at < 0 || sys_move_mount(fs, at) < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, errno, "mount '%s'", path) : 0;
}

/* A datagram socket that can be connected has a route and a source. Sends nothing. */
static bool has_route6(void)
{
	auto_fd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 far = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	memcpy(&far.sin6_addr, &(uint8_t[16]){0x20, 0x01, 0x0d, 0xb8, [15] = 1}, 16);
	return fd >= 0 && connect(fd, (struct sockaddr *)&far, sizeof far) == 0;
}

void network_prepare_host(struct warden *w, const char *run)
{
	struct network *n = &w->network;
	struct err e;
	list_init(&n->due);
	n->bpf = -1;
	n->v6 = has_route6();
	n->host_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	snprintf(n->mounted, sizeof n->mounted, "%s/bpf", run);
	if (mount_bpffs(n->mounted, &e) < 0)
		log_event(LOG_ERROR, "boxes have no network", "error=%s", LOG_Q(e.msg));
}

static void retry(struct loop_timer *t);

void network_start(struct warden *w)
{
	struct network *n = &w->network;
	struct err e;
	if (!is_bpffs("/run/bpf"))
		return;
	if (steer_check(&e) < 0) {
		log_event(LOG_ERROR, "boxes have no network", "error=%s", LOG_Q(e.msg));
		return;
	}
	n->bpf = open("/run/bpf", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	loop_timer_set(w->loop, &n->retry, 0, retry);
}

void network_retire(struct warden *w)
{
	struct network *n = &w->network;
	fd_close(&n->bpf);
	if (n->host_mounts < 0 || setns(n->host_mounts, CLONE_NEWNS) < 0 || !is_bpffs(n->mounted))
		return;
	sys_umount(n->mounted, MNT_DETACH);
	rmdir(n->mounted);
}

/* ---- records ---- */

static void hang_up(struct warden *w)
{
	int fd = w->network.io.fd;
	if (!w->network.io.loop)
		return;
	loop_del(&w->network.io);
	close(fd);
	loop_timer_set(w->loop, &w->network.retry, NETWORK_RETRY, retry);
}

/* 0, -EAGAIN, or another -errno after which the connection is gone. */
static int send_record(struct warden *w, const struct gate_record *r, const int *fds, size_t n)
{
	ssize_t sent = fd_send(w->network.io.fd, r, sizeof *r, fds, n, MSG_DONTWAIT);
	if (sent >= 0)
		return 0;
	if (sent == -EAGAIN)
		return -EAGAIN;
	hang_up(w);
	return -EPIPE;
}

static struct gate_record record_of(const struct warden_slot *c, enum gate_op op)
{
	struct gate_record r = {
		.magic = GATE_MAGIC, .op = op, .slot = c->slot.number, .generation = c->slot.start_time};
	if (c->box)
		snprintf(r.id, sizeof r.id, "%s", c->box->info.id);
	return r;
}

/* Makes what is missing, inside of the box's namespace. Whoever owns a user namespace may do anything there, and the
 * box's own root does: as that user the warden needs no capability for addresses, low ports and raw sockets. One
 * thread: nothing else happens in between. */
static int make_sockets(struct warden_slot *c, bool addresses, struct err *e)
{
	struct warden *w = c->w;
	bool v6 = w->network.v6;
	if (setns(c->slot.pidfd, CLONE_NEWNET) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "enter the network of slot %u", c->slot.number);
	int r = seteuid(ids_base(c->slot.number)) < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "become the box's root")
						      : 0;
	if (r == 0)
		r = (addresses && steer_addresses(v6, e) < 0) || steer_listen(v6, &c->network.sockets, e) < 0 ? -1 : 0;
	INVARIANT(seteuid(0) == 0);
	INVARIANT(setns(w->own_net, CLONE_NEWNET) == 0);
	return r < 0 ? -1 : steer_put(w->network.bpf, c->slot.number, &c->network.sockets, e);
}

static int send_box(struct warden_slot *c)
{
	struct steer_sockets *s = &c->network.sockets;
	struct gate_record r = record_of(c, GATE_BOX);
	struct err e;
	if (make_sockets(c, false, &e) < 0) {
		log_limited(LOG_ERROR, "a box has no network", "slot=%u error=%s", c->slot.number, LOG_Q(e.msg));
		return 0;
	}
	int sent = send_record(c->w, &r, (int[]){s->tcp, s->udp, s->raw4, s->diag, s->raw6}, s->raw6 < 0 ? 4 : 5);
	if (sent == -EAGAIN)
		return sent;
	/* Those that programs in the box wait at are kept: they outlive a gate that is killed. */
	fd_close(&s->raw4);
	fd_close(&s->diag);
	fd_close(&s->raw6);
	return sent;
}

/* What is due for one slot. 0 when all has gone out. */
static int tell_slot(struct warden_slot *c)
{
	struct slot_network *n = &c->network;
	struct gate_record have = record_of(c, GATE_HAVE), name = record_of(c, GATE_NAME);
	int r = 0;
	if (n->due & NETWORK_HAVE && (r = send_record(c->w, &have, NULL, 0)) == 0)
		n->due &= ~(uint32_t)NETWORK_HAVE;
	if (r == 0 && n->due & NETWORK_BOX && (r = send_box(c)) == 0)
		n->due &= ~(uint32_t)NETWORK_BOX;
	if (r == 0 && n->due & NETWORK_NAME && (r = send_record(c->w, &name, NULL, 0)) == 0)
		n->due &= ~(uint32_t)NETWORK_NAME;
	return r;
}

static int tell_gone(struct warden *w)
{
	struct network *n = &w->network;
	size_t i = 0;
	int r = 0;
	for (; i < n->gone_n && r == 0; i += r == 0) {
		struct gate_record g = {.magic = GATE_MAGIC,
			.op = GATE_GONE,
			.slot = n->gone[i].slot,
			.generation = n->gone[i].generation};
		r = send_record(w, &g, NULL, 0);
	}
	memmove(n->gone, n->gone + i, (n->gone_n - i) * sizeof n->gone[0]);
	n->gone_n -= i;
	return r;
}

static void pump(struct warden *w)
{
	struct network *n = &w->network;
	if (!n->io.loop)
		return;
	int r = tell_gone(w);
	while (r == 0 && !list_empty(&n->due)) {
		struct warden_slot *c = list_entry(n->due.next, struct warden_slot, network.node);
		r = tell_slot(c);
		if (r == 0)
			list_del(&c->network.node);
	}
	if (r == 0 && n->sync) {
		struct gate_record g = {.magic = GATE_MAGIC, .op = GATE_SYNC};
		r = send_record(w, &g, NULL, 0);
		n->sync = r != 0;
	}
	if (n->io.loop)
		loop_set_events(&n->io, r == -EAGAIN ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void due(struct warden_slot *c, enum network_due what)
{
	struct slot_network *n = &c->network;
	n->due |= what;
	if (!n->node.next || list_empty(&n->node))
		list_push(&c->w->network.due, &n->node);
}

/* ---- the gate's connection ---- */

static void on_need(struct warden *w, const struct gate_record *r)
{
	list_each(it, &w->slots)
	{
		struct warden_slot *c = list_entry(it, struct warden_slot, node);
		if (c->slot.number == r->slot && c->slot.start_time == r->generation && c->network.steered &&
			c->stage <= SLOT_TAKEN)
			due(c, NETWORK_BOX);
	}
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct warden *w = container_of(io, struct warden, network.io);
	(void)events;
	while (w->network.io.loop) {
		struct gate_record r;
		ssize_t n = recv(io->fd, &r, sizeof r, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n != (ssize_t)sizeof r || r.magic != GATE_MAGIC || r.op != GATE_NEED) {
			log_event(LOG_WARN, "the gate has hung up; new connections of boxes wait", "bytes=%zd", n);
			return hang_up(w);
		}
		on_need(w, &r);
	}
	pump(w);
}

/* Without it refused addresses are in no log: nothing else depends on it. The connection is new and has room. */
static void send_drops(struct warden *w)
{
	struct gate_record r = {.magic = GATE_MAGIC, .op = GATE_DROPS};
	struct err e;
	auto_fd int ring = steer_drops(w->network.bpf, &e);
	if (ring < 0)
		log_limited(LOG_ERROR, "refused addresses are not logged", "error=%s", LOG_Q(e.msg));
	else
		send_record(w, &r, (int[]){ring}, 1);
}

static void retry(struct loop_timer *t)
{
	struct warden *w = container_of(t, struct warden, network.retry);
	struct network *n = &w->network;
	int fd = fd_unix_connect(GATE_SOCKET, SOCK_SEQPACKET);
	if (fd < 0 || loop_add(w->loop, &n->io, fd, EPOLLIN, on_ready) < 0) {
		if (fd >= 0)
			close(fd);
		return loop_timer_set(w->loop, t, NETWORK_RETRY, retry);
	}
	/* It may be another process than before: ask for everything. */
	n->gone_n = 0;
	send_drops(w);
	n->sync = true;
	list_each(it, &w->slots)
	{
		struct warden_slot *c = list_entry(it, struct warden_slot, node);
		if (!c->network.steered || c->stage > SLOT_TAKEN)
			continue;
		c->network.due = 0;
		due(c, NETWORK_HAVE);
	}
	pump(w);
}

/* ---- slots ---- */

void network_steer(struct warden_slot *c)
{
	struct network *n = &c->w->network;
	struct err e;
	c->network.sockets = STEER_NO_SOCKETS;
	if (n->bpf < 0)
		return;
	const struct steer_slot to = {.number = c->slot.number, .generation = c->slot.start_time};
	auto_fd int netns = slot_open_ns(c->slot.pid, "net");
	if (netns < 0 || steer_attach(n->bpf, &to, netns, &e) < 0 || make_sockets(c, true, &e) < 0) {
		if (netns < 0)
			err_os(&e, ERRC_INTERNAL_ERROR, errno, "open the network namespace");
		log_limited(LOG_ERROR, "a slot has no network", "slot=%u error=%s", c->slot.number, LOG_Q(e.msg));
		return network_forget(c);
	}
	c->network.steered = true;
	due(c, NETWORK_BOX);
	pump(c->w);
}

void network_name(struct warden_slot *c, uint32_t flags)
{
	if (!c->network.steered)
		return;
	if (flags)
		steer_flags(c->w->network.bpf, c->slot.number, flags, NULL);
	due(c, NETWORK_NAME);
	pump(c->w);
}

void network_adopt(struct warden_slot *c)
{
	c->network.sockets = STEER_NO_SOCKETS;
	c->network.steered = c->w->network.bpf >= 0 && steer_attached(c->w->network.bpf, c->slot.number);
}

void network_forget(struct warden_slot *c)
{
	struct network *n = &c->w->network;
	list_del(&c->network.node);
	steer_close(&c->network.sockets);
	if (n->bpf >= 0)
		steer_forget(n->bpf, c->slot.number);
	if (!c->network.steered)
		return;
	c->network.steered = false;
	/* With too many to tell, begin anew: what is not told of is gone. */
	if (n->gone_n == NETWORK_GONE_MAX)
		return hang_up(c->w);
	n->gone[n->gone_n].slot = c->slot.number;
	n->gone[n->gone_n++].generation = c->slot.start_time;
	pump(c->w);
}

int network_flags(struct warden_slot *c, uint32_t flags, struct err *e)
{
	if (!c->network.steered)
		return err_set(e, ERRC_INVALID_STATE, "the sandbox has no network; start it again to give it one");
	return steer_flags(c->w->network.bpf, c->slot.number, flags, e);
}
