/*
 * The socket to atolld: JSON objects, one a line. atolld connects; a new connection takes over from the old one (it was
 * restarted) and is told so by "hello", which asks for everything. Policies stay while atolld is away.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "base/json.h"
#include "base/log.h"
#include "gate/gate.h"

static void hang_up(struct gate *g)
{
	int fd = g->control.io.fd;
	if (!g->control.io.loop)
		return;
	loop_del(&g->control.io);
	close(fd);
	buf_free(&g->control.in);
	/* What was cut in the middle of a line would spoil the next connection. */
	struct str s = buf_str(&g->control.out);
	ssize_t cut = str_index(s, '\n');
	if (s.n && s.p[0] != '{')
		buf_consume(&g->control.out, cut < 0 ? s.n : (size_t)cut + 1);
}

static void flush(struct gate *g)
{
	struct buf *b = &g->control.out;
	while (buf_size(b) && g->control.io.loop) {
		struct str s = buf_str(b);
		ssize_t n = send(g->control.io.fd, s.p, s.n, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return hang_up(g);
		buf_consume(b, (size_t)n);
	}
	if (g->control.io.loop)
		loop_set_events(&g->control.io, EPOLLIN | (buf_size(b) ? EPOLLOUT : 0));
}

static void on_flush(struct loop_task *t)
{
	flush(container_of(t, struct gate, control.flush));
}

static bool put(struct gate *g, struct str line)
{
	if (buf_size(&g->control.out) + line.n > GATE_LOG_PENDING)
		return false;
	return buf_add_str(&g->control.out, line);
}

void control_send(struct gate *g, struct str line)
{
	char text[64];
	if (g->control.lost) {
		int n = snprintf(
			text, sizeof text, "{\"op\":\"lost\",\"records\":%llu}\n", (unsigned long long)g->control.lost);
		if (put(g, str_n(text, (size_t)n)))
			g->control.lost = 0;
	}
	if (g->control.lost || !put(g, line))
		g->control.lost++;
	loop_defer_last(g->loop, &g->control.flush, on_flush);
}

/* ---- lines ---- */

/* Says that a line with a number has been acted on, so that atolld can answer its client. */
static void acknowledge(struct gate *g, const struct json *o)
{
	uint64_t seq = 0;
	char line[64];
	if (json_read_u64(o, "seq", 1, UINT64_MAX, &seq, NULL) < 0 || !seq)
		return;
	int n = snprintf(line, sizeof line, "{\"op\":\"done\",\"seq\":%llu}\n", (unsigned long long)seq);
	control_send(g, str_n(line, (size_t)n));
}

static int on_policy(struct gate *g, const struct json *o, const char *id, struct err *e)
{
	struct policy *p = NULL;
	if (policy_read(o, &p, e) < 0)
		return -1;
	sandbox_set_policy(g, id, p);
	acknowledge(g, o);
	return 0;
}

static int on_answer(struct gate *g, const struct json *o, struct err *e)
{
	const char *ask = "", *decision = "";
	if (json_read_cstr(o, "ask", &ask, e) < 0 || json_read_cstr(o, "decision", &decision, e) < 0)
		return -1;
	ask_answered(g, ask, strcmp(decision, "allow") == 0);
	acknowledge(g, o);
	return 0;
}

static int on_secrets(struct gate *g, const struct json *o, const char *id, struct err *e)
{
	struct secrets *s = NULL;
	if (secrets_read(o, &s, e) < 0)
		return -1;
	sandbox_set_secrets(g, id, s);
	acknowledge(g, o);
	return 0;
}

static int on_hooks(struct gate *g, const struct json *o, const char *id, struct err *e)
{
	struct hooks *h = NULL;
	if (hooks_read(o, &h, e) < 0)
		return -1;
	sandbox_set_hooks(g, id, h);
	acknowledge(g, o);
	return 0;
}

static int on_worker(struct gate *g, const struct json *o, const char *id, struct err *e)
{
	struct worker *w = NULL;
	if (worker_read(o, &w, e) < 0)
		return -1;
	sandbox_set_worker(g, id, w);
	acknowledge(g, o);
	return 0;
}

static void on_synced(struct gate *g)
{
	size_t it = 0, n = 0;
	void *v;
	const char **gone = xcalloc(g->sandboxes.count + 1, sizeof *gone);
	while (map_next(&g->sandboxes, &it, &(struct str){0}, &v)) {
		const struct gate_sandbox *s = v;
		/* Without a policy it is new: the warden has named a box of which atolld is about to tell. */
		if (!s->seen && s->policy)
			gone[n++] = s->id;
	}
	for (size_t i = 0; i < n; i++)
		sandbox_forget(g, gone[i]);
	free(gone);
}

static int on_line(struct gate *g, struct str line, struct err *e)
{
	auto_json struct json_doc *d = json_parse(line, e);
	const struct json *o = d ? json_root(d) : NULL;
	const char *op = "", *id = "";
	if (!d || json_read_cstr(o, "op", &op, e) < 0 || json_read_cstr(o, "id", &id, e) < 0)
		return -1;
	if (strcmp(op, "synced") == 0)
		return on_synced(g), 0;
	if (strcmp(op, "answer") == 0)
		return on_answer(g, o, e);
	if (!*id || strlen(id) > BOX_ID_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "field 'id' must be a sandbox id");
	if (strcmp(op, "policy") == 0)
		return on_policy(g, o, id, e);
	if (strcmp(op, "hooks") == 0)
		return on_hooks(g, o, id, e);
	if (strcmp(op, "worker") == 0)
		return on_worker(g, o, id, e);
	if (strcmp(op, "secrets") == 0) {
		int r = on_secrets(g, o, id, e);
		json_wipe(d);
		return r;
	}
	if (strcmp(op, "asleep") == 0)
		return sandbox_set_asleep(g, id, true), 0;
	if (strcmp(op, "awake") == 0)
		return sandbox_set_asleep(g, id, false), 0;
	if (strcmp(op, "forget") == 0)
		return sandbox_forget(g, id), 0;
	return err_set(e, ERRC_VALIDATION_FAILED, "unknown op '%.40s'", op);
}

static void take_lines(struct gate *g)
{
	struct err e;
	for (;;) {
		struct str all = buf_str(&g->control.in);
		ssize_t end = str_index(all, '\n');
		if (end < 0)
			break;
		if (on_line(g, str_n(all.p, (size_t)end), &e) < 0)
			log_event(LOG_ERROR, "a line of the daemon was not understood", "error=%s", LOG_Q(e.msg));
		buf_consume(&g->control.in, (size_t)end + 1);
	}
}

void control_take(struct gate *g)
{
	while (g->control.io.loop) {
		char *p = buf_room(&g->control.in, 65536);
		ssize_t n = p ? recv(g->control.io.fd, p, 65536, 0) : 0;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			log_event(LOG_INFO, "the daemon has hung up; policies stay", "too_long=%d", !p);
			return hang_up(g);
		}
		buf_commit(&g->control.in, (size_t)n);
		take_lines(g);
	}
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct gate *g = container_of(io, struct gate, control.io);
	if (events & EPOLLOUT)
		flush(g);
	control_take(g);
}

static bool is_peer(int fd, uid_t uid)
{
	struct ucred who;
	socklen_t n = sizeof who;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && (who.uid == uid || who.uid == 0);
}

static void say_hello(struct gate *g)
{
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	json_object_begin(&w);
	json_member_cstr(&w, "op", "hello");
	json_member_i64(&w, "pid", getpid());
	json_member_cstr(&w, "ca", ca_pem(g->ca));
	json_object_end(&w);
	buf_add_byte(&line, '\n');
	control_send(g, buf_str(&line));
}

static void on_accept(struct loop_io *io, uint32_t events)
{
	struct gate *g = container_of(io, struct gate, control.listen);
	(void)events;
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	if (!is_peer(fd, g->control.uid)) {
		log_event(LOG_WARN, "a stranger connected to the control socket", "fd=%d", fd);
		close(fd);
		return;
	}
	hang_up(g);
	g->control.in.max = GATE_LINE_MAX + 65536;
	g->control.in.wipe = true;
	if (loop_add(g->loop, &g->control.io, fd, EPOLLIN, on_ready) < 0) {
		close(fd);
		return;
	}
	size_t it = 0;
	void *v;
	while (map_next(&g->sandboxes, &it, &(struct str){0}, &v))
		((struct gate_sandbox *)v)->seen = false;
	say_hello(g);
	ask_tell_all(g);
}

int control_listen(struct gate *g, int fd, uid_t uid, struct err *e)
{
	g->control.uid = uid;
	g->control.out.max = GATE_LOG_PENDING + 4096;
	int r = loop_add(g->loop, &g->control.listen, fd, EPOLLIN, on_accept);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "listen for the daemon") : 0;
}
