#include "daemon/network/gate_client.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/network/approvals.h"
#include "daemon/network/hooks.h"
#include "daemon/network/net_log.h"
#include "daemon/network/network.h"
#include "daemon/network/secrets.h"
#include "doors/docker/docker.h"

enum { RETRY_MS = 100, OUT_MAX = 8 * 1024 * 1024, IN_MAX = 256 * 1024, READ = 65536 };

struct gate_client {
	struct daemon *daemon;
	char path[108];
	struct loop_io io;
	struct loop_timer retry;
	struct loop_task flush;
	struct buf in, out;
	char ca[WARDEN_PEM_MAX + 1];
	bool complained;
	uint64_t pid; /* of the gate that said hello last; 0: none */
	uint64_t seq;
	struct list acks; /* struct gate_ack, in the order of their lines */
};

static void on_retry(struct loop_timer *t);

/* The gate works through its lines in order. */
static void settle(struct gate_client *g, uint64_t seq)
{
	while (!list_empty(&g->acks)) {
		struct gate_ack *a = list_entry(g->acks.next, struct gate_ack, node);
		if (a->seq > seq)
			return;
		list_del(&a->node);
		a->seq = 0;
		a->on_done(a);
	}
}

static void lose(struct gate_client *g, const char *why)
{
	int fd = g->io.fd;
	if (g->io.loop) {
		loop_del(&g->io);
		close(fd);
	}
	approvals_lost(g->daemon);
	settle(g, UINT64_MAX);
	buf_free(&g->in);
	buf_free(&g->out);
	g->in.max = IN_MAX;
	g->out.max = OUT_MAX;
	g->out.wipe = true; /* secrets pass through it */
	if (!g->complained)
		log_event(LOG_WARN, "gate away: new connections of sandboxes wait", "socket=%s why=%s", g->path,
			LOG_Q(why));
	g->complained = true;
	loop_timer_set(g->daemon->loop, &g->retry, RETRY_MS, on_retry);
}

static void flush(struct loop_task *t)
{
	struct gate_client *g = container_of(t, struct gate_client, flush);
	while (g->io.loop && buf_size(&g->out)) {
		struct str s = buf_str(&g->out);
		ssize_t n = send(g->io.fd, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return lose(g, strerror(errno));
		buf_consume(&g->out, (size_t)n);
	}
	if (g->io.loop)
		loop_set_events(&g->io, EPOLLIN | (buf_size(&g->out) ? EPOLLOUT : 0));
}

static void say(struct gate_client *g, struct buf *line)
{
	buf_add_byte(line, '\n');
	buf_add_str(&g->out, buf_str(line));
	if (g->out.failed)
		return lose(g, "it does not read");
	flush(&g->flush);
}

/* Numbers the line, when somebody waits for it. */
static void expect(struct gate_client *g, struct json_writer *w, struct gate_ack *ack)
{
	if (!ack)
		return;
	ack->seq = ++g->seq;
	list_init(&ack->node);
	list_push(&g->acks, &ack->node);
	json_member_u64(w, "seq", ack->seq);
}

static bool has_box(const struct sandbox *s)
{
	return s->state == SB_CREATING || s->state == SB_RUNNING || s->state == SB_ASLEEP;
}

bool gate_client_is_up(const struct gate_client *g)
{
	return g && g->io.loop;
}

static bool is_away(struct gate_client *g, struct gate_ack *ack)
{
	if (gate_client_is_up(g))
		return false;
	if (ack)
		ack->on_done(ack);
	return true;
}

void gate_client_answer(struct gate_client *g, const char *ask, bool allow, struct gate_ack *ack)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	if (is_away(g, ack))
		return;
	json_object_begin(&w);
	json_member_cstr(&w, "op", "answer");
	json_member_cstr(&w, "ask", ask);
	json_member_cstr(&w, "decision", allow ? "allow" : "deny");
	expect(g, &w, ack);
	json_object_end(&w);
	say(g, &line);
}

static void begin_line(struct json_writer *w, const char *op, const char *id)
{
	json_object_begin(w);
	json_member_cstr(w, "op", op);
	json_member_cstr(w, "id", id);
}

/* False: nobody has to be told, and `ack` is answered. */
static bool begin_told(
	struct gate_client *g, const struct sandbox *s, struct gate_ack *ack, struct json_writer *w, const char *op)
{
	if (!has_box(s) && ack) {
		ack->on_done(ack);
		return false;
	}
	if (is_away(g, ack))
		return false;
	begin_line(w, op, s->id);
	return true;
}

void gate_client_policy(struct gate_client *g, const struct sandbox *s, struct gate_ack *ack)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	if (!begin_told(g, s, ack, &w, "policy"))
		return;
	network_write(&w, &g->daemon->network, s->spec.network, network_missing(s));
	expect(g, &w, ack);
	json_object_end(&w);
	say(g, &line);
}

static void say_hooks(struct gate_client *g, const struct sandbox *s)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	begin_line(&w, "hooks", s->id);
	hooks_write(s, &w);
	json_object_end(&w);
	say(g, &line);
}

void gate_client_worker(struct gate_client *g, const struct sandbox *s, struct gate_ack *ack)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	if (!begin_told(g, s, ack, &w, "worker"))
		return;
	if (!docker_worker_write(g->daemon->docker, s, &w) && !ack)
		return;
	expect(g, &w, ack);
	json_object_end(&w);
	say(g, &line);
}

void gate_client_secrets(struct gate_client *g, const struct sandbox *s)
{
	auto_buf struct buf line = {.wipe = true};
	struct json_writer w = json_writer(&line);
	if (!gate_client_is_up(g) || !has_box(s))
		return;
	begin_line(&w, "secrets", s->id);
	secrets_write(s, &w);
	json_object_end(&w);
	say(g, &line);
	if (gate_client_is_up(g))
		say_hooks(g, s);
	if (gate_client_is_up(g))
		gate_client_worker(g, s, NULL);
}

const char *gate_client_ca(const struct gate_client *g)
{
	return g && *g->ca ? g->ca : NULL;
}

static void say_op(struct gate_client *g, const char *op, const char *id)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	if (!gate_client_is_up(g))
		return;
	begin_line(&w, op, id);
	json_object_end(&w);
	say(g, &line);
}

void gate_client_forget(struct gate_client *g, const char *id)
{
	say_op(g, "forget", id);
}

void gate_client_asleep(struct gate_client *g, const struct sandbox *s, bool asleep)
{
	say_op(g, asleep ? "asleep" : "awake", s->id);
}

void gate_client_all(struct gate_client *g)
{
	size_t it = 0;
	void *v;
	auto_buf struct buf line = {0};
	if (!gate_client_is_up(g))
		return;
	while (g->io.loop && map_next(&g->daemon->boxes, &it, &(struct str){0}, &v)) {
		const struct sandbox *s = v;
		/* The policy last: connections that wait in a new gate are decided when it comes. */
		if (has_box(s))
			gate_client_secrets(g, s);
		if (has_box(s))
			gate_client_policy(g, s, NULL);
		if (s->state == SB_ASLEEP || s->op == OP_SLEEP)
			gate_client_asleep(g, s, true);
	}
	buf_add_c(&line, "{\"op\":\"synced\"}");
	if (g->io.loop)
		say(g, &line);
}

static void on_used(struct gate_client *g, const struct json *o)
{
	const char *name = "";
	uint64_t time = 0;
	json_read_cstr(o, "secret", &name, NULL);
	json_read_u64(o, "time", 0, INT64_MAX, &time, NULL);
	secrets_used(g->daemon, name, (int64_t)time);
}

/* Only the gate knew which connections were open. */
static void note_restart(struct gate_client *g)
{
	size_t it = 0;
	void *v;
	while (map_next(&g->daemon->boxes, &it, &(struct str){0}, &v)) {
		struct sandbox *s = v;
		if (has_box(s) && !network_missing(s) &&
			!str_eq_c(network_mode(&g->daemon->network, s->spec.network), "off"))
			net_log_gate_restarted(&s->net_log, clock_wall_ms());
	}
}

static void on_hello(struct gate_client *g, const struct json *o)
{
	const char *ca = "";
	uint64_t pid = 0;
	json_read_u64(o, "pid", 0, INT32_MAX, &pid, NULL);
	json_read_cstr(o, "ca", &ca, NULL);
	if (strlen(ca) < sizeof g->ca)
		snprintf(g->ca, sizeof g->ca, "%s", ca);
	if (g->pid && g->pid != pid)
		note_restart(g);
	g->pid = pid;
	/* Before that, "synced" would make the gate forget boxes whose rows are not up to date. */
	if (g->daemon->recovered)
		gate_client_all(g);
}

static void on_line(struct gate_client *g, struct str line)
{
	struct err e;
	const char *op = "", *id = "";
	auto_json struct json_doc *d = json_parse(line, &e);
	const struct json *o = d ? json_root(d) : NULL;
	if (!o || json_read_cstr(o, "op", &op, &e) < 0 || json_read_cstr(o, "id", &id, &e) < 0) {
		log_limited(LOG_ERROR, "a line of the gate was not understood", "error=%s", LOG_Q(e.msg));
		return;
	}
	if (strcmp(op, "hello") == 0)
		return on_hello(g, o);
	if (strcmp(op, "used") == 0)
		return on_used(g, o);
	if (strcmp(op, "ask") == 0)
		return approvals_asked(g->daemon, o);
	if (strcmp(op, "unask") == 0)
		return approvals_unasked(g->daemon, o);
	if (strcmp(op, "done") == 0) {
		uint64_t seq = 0;
		json_read_u64(o, "seq", 0, UINT64_MAX, &seq, NULL);
		return settle(g, seq);
	}
	struct sandbox *s = sandbox_find(g->daemon, id);
	if (s && strcmp(op, "activity") == 0)
		sandbox_touch(s);
	if (strcmp(op, "log") != 0)
		return;
	if (s)
		net_log_add(&s->net_log, o);
	net_totals_add(&g->daemon->metrics.network, o);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct gate_client *g = container_of(io, struct gate_client, io);
	if (events & EPOLLOUT)
		flush(&g->flush);
	while (g->io.loop) {
		char *p = buf_room(&g->in, READ);
		ssize_t n = p ? recv(io->fd, p, READ, MSG_DONTWAIT) : -1;
		if (!p)
			return lose(g, "a line without end");
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			return lose(g, n < 0 ? strerror(errno) : "closed");
		buf_commit(&g->in, (size_t)n);
		ssize_t end;
		while (g->io.loop && (end = str_index(buf_str(&g->in), '\n')) >= 0) {
			on_line(g, str_n(buf_str(&g->in).p, (size_t)end));
			if (g->io.loop)
				buf_consume(&g->in, (size_t)end + 1);
		}
	}
}

static void on_retry(struct loop_timer *t)
{
	struct gate_client *g = container_of(t, struct gate_client, retry);
	int fd = fd_unix_connect(g->path, SOCK_STREAM);
	if (fd >= 0 && loop_add(g->daemon->loop, &g->io, fd, EPOLLIN, on_ready) == 0) {
		log_event(LOG_INFO, "gate up", "socket=%s", g->path);
		g->complained = false;
		return;
	}
	if (fd >= 0)
		close(fd);
	lose(g, "nobody listens");
}

struct gate_client *gate_client_new(struct daemon *d)
{
	struct gate_client *g = xcalloc(1, sizeof *g);
	g->daemon = d;
	list_init(&g->acks);
	g->in.max = IN_MAX;
	g->out.max = OUT_MAX;
	g->out.wipe = true; /* secrets pass through it */
	snprintf(g->path, sizeof g->path, "%s/gate.sock", d->config.run);
	loop_timer_set(d->loop, &g->retry, 0, on_retry);
	return g;
}
