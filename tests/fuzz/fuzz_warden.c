/*
 * What the warden is told: records of atolld, notes of half-made boxes, serial numbers of agents, notes of zygotes, in
 * any order, with connections, processes and time coming to their ends in between. Its counters must agree with its
 * lists after every step, and every reply must be a record as proto/warden.h says.
 *
 * The warden's own code, with descriptors to play the kernel: an eventfd for a process (it "ends" when it is written
 * to; signals to it fail), plain directories for cgroups, and slots that were made ahead. No process is ever started:
 * there are no numbers for further slots, and zygote_spawn is here.
 *
 * The input is a row of steps: a byte that says what happens, then the bytes that this takes.
 */
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "cage/init.h"
#include "fuzz.h"
#include "proto/zygote.h"
#include "warden/closing.h"
#include "warden/limits.h"
#include "warden/warden.h"

enum { SLOTS = 3, ZYGOTE_NUMBER = 9 };
enum cgroup_look { LOOK_RUNNING, LOOK_FROZEN, LOOK_NONE, LOOKS };

/* The directories are made once; they are empty before and after every input. */
static char home_path[] = "/tmp/atoll-fuzz-XXXXXX";
static int home_fd = -1, looks[LOOKS];

/* The other ends of what the warden holds. */
struct rig {
	struct warden w;
	int daemon;
	struct warden_slot *slots[SLOTS]; /* NULL when the warden has freed it */
	int control[SLOTS], ask[SLOTS], reply[SLOTS];
	int closer;	 /* the closer's end of its socket */
	uint64_t closed; /* ticket */
	const uint8_t *p;
	size_t left;
};

static int zygote_end = -1; /* our end of the zygote's socket */

int zygote_spawn(
	const struct slot_host *h, uint32_t slot, const struct image *image, struct zygote_process *ret, struct err *e)
{
	(void)h, (void)slot, (void)image, (void)e;
	int ends[2];
	fd_close(&zygote_end);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	zygote_end = ends[1];
	*ret = (struct zygote_process){
		.pid = getpid(), .pidfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .control = ends[0]};
	return 0;
}

/* ---- the place ---- */

static void empty_dir(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	MUST(d);
	for (struct dirent *entry; (entry = readdir(d));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(dir, entry->d_name, 0) == 0)
			continue;
		auto_fd int sub = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		MUST(sub >= 0);
		empty_dir(sub);
		MUST(unlinkat(dir, entry->d_name, AT_REMOVEDIR) == 0);
	}
	closedir(d);
}

static int make_dir(const char *name)
{
	mkdirat(home_fd, name, 0700);
	int fd = openat(home_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0);
	return fd;
}

static void make_file(int dir, const char *name, const char *text)
{
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	MUST(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void make_cgroups(const char *name, const char *events)
{
	static const char *const files[] = {"cgroup.freeze", "cgroup.kill", "memory.max", "memory.swap.max", "pids.max",
		"pids.current", "cpu.max", "memory.current"};
	char path[64];
	for (int i = 0; i < SLOTS; i++) {
		snprintf(path, sizeof path, "%s/%d", name, i);
		auto_fd int dir = make_dir(path);
		for (size_t k = 0; k < ARRAY_LEN(files); k++)
			make_file(dir, files[k], "1\n");
		make_file(dir, "cgroup.events", events);
	}
}

static void leave_home(void)
{
	empty_dir(home_fd);
	rmdir(home_path);
}

static void make_home(void)
{
	setenv("ATOLL_LOG_LEVEL", "error", 1);
	log_init("fuzz");
	signal(SIGPIPE, SIG_IGN);
	MUST(mkdtemp(home_path));
	home_fd = open(home_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(home_fd >= 0);
	atexit(leave_home);
	static const char *const names[LOOKS] = {"running", "frozen", "none"};
	for (int i = 0; i < LOOKS; i++)
		looks[i] = make_dir(names[i]);
	make_cgroups("running", "populated 1\nfrozen 0\n");
	make_cgroups("frozen", "populated 1\nfrozen 1\n");
	close(make_dir("images"));
	auto_fd int image = make_dir("images/default");
	close(make_dir("images/default/rootfs"));
	make_file(image, "image.json", "{}");
}

/* ---- the warden ---- */

static void connect_daemon(struct rig *r)
{
	char path[64];
	fd_close(&r->daemon);
	snprintf(path, sizeof path, "%s/warden.sock", home_path);
	r->daemon = fd_unix_connect(path, SOCK_SEQPACKET);
	MUST(r->daemon >= 0);
	fcntl(r->daemon, F_SETFL, O_NONBLOCK);
}

static void make_slot(struct rig *r, int i)
{
	struct warden *w = &r->w;
	struct warden_slot *c = r->slots[i] = warden_slot_new(w, SLOT_MAKING);
	int ends[2], ask[2], reply[2];
	char layer[32];
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	MUST(pipe2(ask, O_CLOEXEC | O_NONBLOCK) == 0);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, reply) == 0);
	snprintf(layer, sizeof layer, "%d", i);
	MUST(mkdirat(w->host.layers, layer, 0700) == 0);
	c->slot.number = (uint32_t)i;
	c->slot.pid = getpid();
	c->slot.pidfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->slot.overlay = open("/dev/null", O_RDONLY | O_CLOEXEC);
	MUST(image_find(w->host.images, "default", &c->slot.image, NULL) == 0);
	c->slot.control = ends[0];
	c->slot.ask = ask[0];
	c->slot.reply = reply[0];
	r->control[i] = ends[1];
	r->ask[i] = ask[1];
	r->reply[i] = reply[1];
	struct err e;
	MUST(warden_slot_watch(c, &e) == 0);
}

static void fire(struct loop_timer *t)
{
	void (*due)(struct loop_timer *) = t->on_due;
	if (!t->pos)
		return;
	loop_timer_stop(t);
	due(t);
}

static void start(struct rig *r)
{
	struct warden *w = &r->w;
	struct err e;
	char path[64];
	w->loop = loop_new();
	MUST(w->loop);
	list_init(&w->slots);
	list_init(&w->waiting);
	list_init(&w->all);
	list_init(&w->list_mark);
	int ends[2];
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	reaper_init(w);
	storer_init(w);
	list_init(&w->storage_ops);
	pager_init(w);
	w->closer.sock = ends[0];
	r->closer = ends[1];
	w->cgroups = (struct cgroups){.v2 = looks[LOOK_RUNNING], .v1 = {-1, -1, -1}, .private_mount = -1, .version = 2};
	ids_init(&w->ids, -1, "fuzz", NULL, NULL);
	w->host.cgroups = &w->cgroups;
	w->host.images = make_dir("images");
	w->host.layers = make_dir("layers");
	w->host.trash = make_dir("trash");
	w->host.sockets = make_dir("s");
	w->boxes_dir = w->plain_boxes = make_dir("boxes");
	w->plain_trash = w->host.trash;
	w->pool = POOL_CLOSED;
	w->host.pool = &w->pool;
	w->records_dir = make_dir("records");
	w->own_net = -1;
	w->user = getuid();
	w->offer = (struct warden_host){.mem_total = 8192ull * MIB, .cpus_milli = 4000, .pids_max = 30000};
	w->pool_pause_until = UINT64_MAX; /* slots are made for boxes that wait, which fails: there are no numbers */
	struct image own;
	lately_name(w, "default");
	MUST(image_find(w->host.images, "default", &own, &e) == 0);
	w->numbers[0] = ZYGOTE_NUMBER;
	w->numbers_count = 1;
	zygote_want(w, &own);
	fire(&w->zygotes[0].timer);
	snprintf(path, sizeof path, "%s/warden.sock", home_path);
	MUST(server_start(w, path, getgid(), &e) == 0);
	connect_daemon(r);
	for (int i = 0; i < SLOTS; i++)
		make_slot(r, i);
}

static void end(struct rig *r)
{
	struct warden *w = &r->w;
	int conn = w->conn_io.loop ? w->conn_io.fd : -1;
	loop_del(&w->conn_io);
	fd_close(&conn);
	loop_del(&w->listen_io);
	fd_close(&r->daemon);
	close(w->listen_fd);
	list_each(it, &w->all) closing_leave(list_entry(it, struct box, all));
	closing_done_upto(w, w->last_ticket);
	MUST(list_empty(&w->closings) && list_empty(&w->closer.queue));
	fd_close(&w->closer.sock);
	fd_close(&r->closer);
	list_each(it, &w->all) free(list_entry(it, struct box, all));
	for (int i = 0; i < SLOTS; i++) {
		if (r->slots[i])
			slot_close(&r->slots[i]->slot);
		free(r->slots[i]);
		fd_close(&r->control[i]);
		fd_close(&r->ask[i]);
		fd_close(&r->reply[i]);
	}
	fd_close(&w->zygotes[0].p.pidfd);
	fd_close(&w->zygotes[0].p.control);
	const int dirs[] = {w->host.layers, w->host.trash, w->host.sockets, w->boxes_dir, w->records_dir};
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		empty_dir(dirs[i]);
		close(dirs[i]);
	}
	close(w->host.images);
	map_free(&w->boxes);
	free(w->queue.items);
	loop_free(w->loop);
}

/* ---- what must hold ---- */

static bool terminated(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

static void check_reply(const struct warden_reply *reply)
{
	MUST(reply->magic == WARDEN_MAGIC);
	MUST(terminated(reply->err.field, sizeof reply->err.field));
	MUST(terminated(reply->err.msg, sizeof reply->err.msg));
	MUST(!reply->has_info || reply->err.code == ERRC_OK);
	if (!reply->has_info)
		return;
	MUST(reply->info.id[0] && terminated(reply->info.id, sizeof reply->info.id));
	MUST(terminated(reply->info.image, sizeof reply->info.image));
	MUST(reply->info.state >= BOX_CREATING && reply->info.state <= BOX_DEAD);
}

/* A daemon that got too slow or said something wrong is cut off; it comes again. */
static void read_replies(struct rig *r)
{
	struct warden_reply reply;
	for (ssize_t n; (n = recv(r->daemon, &reply, sizeof reply, MSG_DONTWAIT | MSG_TRUNC));) {
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break;
		MUST(n == (ssize_t)sizeof reply);
		check_reply(&reply);
	}
	connect_daemon(r);
}

static void check_counts(struct rig *r)
{
	struct warden *w = &r->w;
	size_t all = 0, busy = 0, ready = 0, making = 0, waiting = 0, unplaced = 0;
	list_each(it, &w->all)
	{
		if (it == &w->list_mark)
			continue;
		struct box *b = list_entry(it, struct box, all);
		all++;
		busy += b->stage == STAGE_STARTING || b->stage == STAGE_ENDING;
		unplaced += b->stage == STAGE_WAITING && !b->after;
		MUST(!b->after || b->stage == STAGE_WAITING);
		MUST(box_find(w, b->info.id) == b);
		MUST((b->stage == STAGE_WAITING) == !b->place && (!b->place || b->place->box == b));
	}
	list_each(it, &w->slots)
	{
		struct warden_slot *c = list_entry(it, struct warden_slot, node);
		ready += c->stage == SLOT_READY && c->slot.pidfd >= 0;
		making += c->stage == SLOT_MAKING;
		MUST(!c->box || c->box->place == c);
	}
	list_each(it, &w->waiting) waiting++;
	MUST(all == w->boxes.count && waiting == unplaced);
	MUST(busy == w->busy);
	MUST(ready == w->ready && making == w->making);
	MUST(w->queue.count <= WARDEN_QUEUE_MAX);
}

/* ---- steps ---- */

static uint8_t byte(struct rig *r)
{
	if (!r->left)
		return 0;
	r->left--;
	return *r->p++;
}

static size_t bytes(struct rig *r, size_t n, uint8_t *ret)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = byte(r);
	return n;
}

/* A request as a daemon would send it, of pieces that mean something, and up to three bytes of it changed. */
static void say_request(struct rig *r)
{
	static const char *const ids[] = {"a", "b", "c%/", "x.y", "", "-", "www", "d"};
	static const char *const images[] = {"default", "", "..", "other"};
	static const uint64_t memory[] = {0, 64 * MIB, 1, UINT64_MAX};
	uint8_t op = byte(r), names = byte(r), numbers = byte(r), changes = byte(r) & 3;
	struct warden_request rq = {.magic = WARDEN_MAGIC, .op = op & 15, .seq = op};
	snprintf(rq.id, sizeof rq.id, "%s", ids[names & 7]);
	snprintf(rq.image, sizeof rq.image, "%s", images[(names >> 3) & 3]);
	rq.limits.mem_bytes = memory[numbers & 3];
	rq.limits.cpu_milli = (uint32_t)(numbers >> 2) * 50;
	rq.signal = numbers;
	rq.flags = op == WARDEN_DESTROY ? names >> 7 : 0;
	rq.family = numbers & 1 ? AF_INET : AF_INET6;
	rq.count = numbers >> 3;
	for (; changes; changes--) {
		size_t at = (size_t)byte(r) << 8 | byte(r);
		((uint8_t *)&rq)[at % sizeof rq] = byte(r);
	}
	size_t cut = op >> 6 == 3 ? byte(r) : 0;
	send(r->daemon, &rq, sizeof rq - cut % sizeof rq, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void say_raw(struct rig *r, int fd)
{
	uint8_t text[256];
	size_t n = bytes(r, byte(r), text);
	send(fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void say_init(struct rig *r, int i)
{
	uint8_t how = byte(r);
	struct init_note note = {.kind = how & 7};
	memset(note.err.field, how, sizeof note.err.field);
	memset(note.err.msg, how, sizeof note.err.msg);
	note.err.code = ERRC_BOX_CREATE_FAILED;
	send(r->control[i], &note, sizeof note - (how >> 7), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void say_ask(struct rig *r, int i)
{
	uint8_t text[64];
	size_t n = bytes(r, byte(r) & 63, text);
	if (r->ask[i] >= 0 && write(r->ask[i], text, n) < 0 && errno == EPIPE)
		fd_close(&r->ask[i]);
	while (recv(r->reply[i], text, sizeof text, MSG_DONTWAIT) > 0)
		;
}

static void say_zygote(struct rig *r)
{
	uint8_t how = byte(r);
	struct zygote_note note = {.magic = ZYGOTE_MAGIC, .serial = how & 1, .error = (int8_t)byte(r)};
	if (how & 2)
		return say_raw(r, zygote_end);
	struct err e = {.code = ERRC_BOX_CREATE_FAILED};
	memset(e.msg, how, sizeof e.msg);
	send(zygote_end, how & 4 ? (void *)&e : &note, how & 4 ? sizeof e : sizeof note, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void process_ends(int pidfd)
{
	if (pidfd >= 0)
		MUST(eventfd_write(pidfd, 1) == 0);
}

/* Slots and boxes that were removed are freed at the end of a turn; the rig forgets them before it looks at them. */
static void forget_freed(struct rig *r)
{
	bool lives[SLOTS] = {0};
	list_each(it, &r->w.slots)
	{
		for (int i = 0; i < SLOTS; i++)
			lives[i] |= it == (r->slots[i] ? &r->slots[i]->node : NULL);
	}
	for (int i = 0; i < SLOTS; i++)
		r->slots[i] = lives[i] ? r->slots[i] : NULL;
}

static void time_passes(struct rig *r)
{
	struct warden *w = &r->w;
	uint8_t which = byte(r);
	struct box *b = box_find(w, which & 1 ? "a" : "b");
	struct warden_slot *c = r->slots[which % SLOTS];
	if (which & 16)
		fire(&w->zygotes[0].timer);
	else if (which & 8)
		fire(&w->pool_timer);
	else if (which & 4 && b)
		fire(&b->timer);
	else if (c)
		fire(&c->timer);
}

static void step(struct rig *r)
{
	uint8_t what = byte(r);
	int i = (what >> 4) % SLOTS;
	switch (what & 15) {
	case 0:
		say_raw(r, r->daemon);
		break;
	case 1:
		connect_daemon(r);
		break;
	case 2:
		say_init(r, i);
		break;
	case 3:
		fd_close(&r->control[i]);
		break;
	case 4:
		process_ends(r->slots[i] ? r->slots[i]->slot.pidfd : -1);
		break;
	case 5:
		say_ask(r, i);
		break;
	case 6:
		fd_close(&r->ask[i]);
		break;
	case 7:
		say_zygote(r);
		break;
	case 8:
		process_ends(r->w.zygotes[0].p.pidfd);
		break;
	case 9:
		time_passes(r);
		break;
	case 10:
		r->w.cgroups.v2 = looks[(what >> 4) % LOOKS];
		break;
	case 11:
		read_replies(r);
		break;
	case 12:
		if (r->closed < r->w.last_ticket)
			closing_done(&r->w, ++r->closed);
		break;
	default:
		say_request(r);
	}
	/* What comes without room for its descriptor is closed by the kernel. */
	for (uint64_t ticket; recv(r->closer, &ticket, sizeof ticket, 0) > 0;)
		;
	loop_turn(r->w.loop, 0);
	forget_freed(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (home_fd < 0)
		make_home();
	struct rig *r = xcalloc(1, sizeof *r);
	*r = (struct rig){.daemon = -1, .p = data, .left = size};
	start(r);
	while (r->left) {
		step(r);
		check_counts(r);
	}
	read_replies(r);
	loop_turn(r->w.loop, 0);
	forget_freed(r);
	end(r);
	free(r);
	return 0;
}
