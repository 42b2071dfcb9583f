#include <stdio.h>
#include <sys/socket.h>

#include "base/json.h"
#include "base/log.h"
#include "gate/gate.h"

static struct str slot_key(const uint32_t *slot)
{
	return str_n(slot, sizeof *slot);
}

struct gate_box *box_find(struct gate *g, uint32_t slot)
{
	return map_get(&g->boxes, slot_key(&slot));
}

const char *box_id(const struct gate_box *b)
{
	return b->sandbox ? b->sandbox->id : "";
}

const struct policy *box_policy(const struct gate_box *b)
{
	return b->sandbox ? b->sandbox->policy : NULL;
}

/* ---- accepting ---- */

static uint32_t conns_max(const struct gate_box *b)
{
	const struct policy *p = box_policy(b);
	return p ? p->conns : NET_CONNS;
}

static bool has_room(const struct gate_box *b)
{
	return b->conns_n < conns_max(b) && places_has_room(b);
}

/* Not accepting is all that is done: others of this box wait in the kernel's queue, and no other box notices. */
static void note_full(struct gate_box *b)
{
	if (has_room(b))
		return;
	/* Told when others end; the end of one of its own is told anyway. */
	if (!b->waits.next || list_empty(&b->waits))
		list_push(&b->gate->places.waiting, &b->waits);
	if (b->full)
		return;
	b->full = true;
	loop_set_events(&b->tcp, 0);
	log_event(LOG_WARN, "a box has as many connections as it may", "id=%s connections=%zu", LOG_Q(box_id(b)),
		b->conns_n);
}

static void go_on(struct gate_box *b)
{
	if (!b->full || b->gone || !has_room(b))
		return;
	b->full = false;
	list_del(&b->waits);
	loop_set_events(&b->tcp, EPOLLIN);
}

void box_conn_begins(struct gate_box *b)
{
	b->conns_n++;
	b->gate->conns++;
	places_held(b, b->conns_n - 1);
	windows_changed(b);
}

/* Boxes that wait for a place may have no connection of their own to end. */
void box_conn_ends(struct gate_box *b)
{
	b->gate->conns--;
	b->conns_n--;
	places_held(b, b->conns_n + 1);
	windows_changed(b);
	list_each(it, &b->gate->places.waiting) go_on(list_entry(it, struct gate_box, waits));
}

void box_shed(struct gate_box *b)
{
	if (list_empty(&b->conns))
		return dnsd_shed(b);
	passage_shed(list_entry(b->conns.next, struct passage, node), "closed for another sandbox: the gate is full");
}

static int accept_one(int listener, struct peer_end *ret)
{
	union ip_sockaddr sa;
	socklen_t n = sizeof sa;
	int fd = accept4(listener, &sa.sa, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		ip_from_sockaddr(&sa, &ret->ip, &ret->port);
	return fd;
}

/* One a turn: the next waits for no more than what the others have ready. A second accept4() that finds nothing costs
 * more than a turn, because the kernel makes the socket first. */
static void on_tcp(struct loop_io *io, uint32_t events)
{
	struct gate_box *b = container_of(io, struct gate_box, tcp);
	struct peer_end from = {0};
	(void)events;
	control_take(b->gate);
	turn_bill(b->bucket.party);
	int fd = has_room(b) ? accept_one(io->fd, &from) : -1;
	if (fd >= 0) {
		places_make_room(b);
		passage_new(b, fd, &from);
	}
	note_full(b);
}

/* ---- activity ---- */

void box_active(struct gate_box *b)
{
	struct gate_sandbox *s = b->sandbox;
	uint64_t now = loop_now(b->gate->loop);
	auto_buf struct buf line = {0};
	struct json_writer w = json_writer(&line);
	if (!s || (!s->asleep && s->told && now - s->told < GATE_ACTIVITY))
		return;
	s->asleep = false;
	s->told = now;
	json_object_begin(&w);
	json_member_cstr(&w, "op", "activity");
	json_member_cstr(&w, "id", s->id);
	json_object_end(&w);
	buf_add_byte(&line, '\n');
	control_send(b->gate, buf_str(&line));
}

static void on_moved(struct relay_bucket *bucket)
{
	box_active(container_of(bucket, struct gate_box, bucket));
}

void sandbox_set_asleep(struct gate *g, const char *id, bool asleep)
{
	struct gate_sandbox *s = sandbox_find(g, id, false);
	if (s)
		s->asleep = asleep;
}

/* ---- life ---- */

struct gate_box *box_new(struct gate *g, uint32_t slot, uint64_t generation, const int fds[])
{
	if (g->boxes.count >= GATE_BOXES_MAX)
		return NULL;
	struct gate_box *b = xcalloc(1, sizeof *b);
	*b = (struct gate_box){.gate = g,
		.slot = slot,
		.generation = generation,
		.tcp_fd = fds[0],
		.udp_fd = fds[1],
		.raw4 = fds[2],
		.diag = fds[3],
		.raw6 = fds[4]};
	list_init(&b->conns);
	list_init(&b->questions);
	list_init(&b->streams);
	list_init(&b->flows);
	list_init(&b->asks);
	names_init(&b->names);
	synth_init(&b->synth);
	relay_bucket_init(&b->bucket, g->loop);
	b->bucket.on_moved = on_moved;
	b->dns.tokens = GATE_DNS_BURST;
	b->dns.filled = loop_now(g->loop);
	if (loop_add(g->loop, &b->tcp, b->tcp_fd, EPOLLIN, on_tcp) < 0 ||
		loop_add(g->loop, &b->udp, b->udp_fd, EPOLLIN, udp_on_ready) < 0) {
		loop_del(&b->tcp);
		free(b);
		return NULL;
	}
	map_put(&g->boxes, slot_key(&slot), b);
	return b;
}

static void free_box(struct loop_task *t)
{
	struct gate_box *b = container_of(t, struct gate_box, free_task);
	relay_bucket_free(&b->bucket);
	names_free(&b->names);
	synth_free(&b->synth);
	free(b);
}

/* An entry lives as long as a box has its name, or atolld has told its policy: the two come and go on different
 * sockets, in any order. */
static void drop_unused(struct gate *g, struct gate_sandbox *s)
{
	if (s->box || s->policy || s->secrets || s->hooks || s->worker)
		return;
	map_del(&g->sandboxes, str_of(s->id));
	free(s);
}

static void detach(struct gate_box *b)
{
	struct gate_sandbox *s = b->sandbox;
	b->sandbox = NULL;
	if (!s)
		return;
	s->box = NULL;
	drop_unused(b->gate, s);
}

void box_drop(struct gate_box *b)
{
	struct gate *g = b->gate;
	b->gone = true;
	list_del(&b->waits);
	loop_del(&b->tcp);
	loop_del(&b->udp);
	list_each(it, &b->conns) passage_cut(list_entry(it, struct passage, node), "the sandbox ended");
	dnsd_drop(b);
	udp_drop_flows(b, false);
	drops_end(b);
	fd_close(&b->tcp_fd);
	fd_close(&b->udp_fd);
	fd_close(&b->raw4);
	fd_close(&b->diag);
	fd_close(&b->raw6);
	map_del(&g->boxes, slot_key(&b->slot));
	detach(b);
	loop_defer(g->loop, &b->free_task, free_box);
}

void box_policy_changed(struct gate_box *b)
{
	const struct policy *p = box_policy(b);
	if (b->gone || !p)
		return;
	relay_bucket_set(&b->bucket, p->rate);
	loop_set_events(&b->udp, EPOLLIN);
	dnsd_policy(b);
	udp_drop_flows(b, true);
	list_each(it, &b->conns) passage_policy(list_entry(it, struct passage, node));
	if (has_room(b))
		go_on(b);
	else
		note_full(b);
}

void box_name(struct gate_box *b, const char *id)
{
	struct gate_sandbox *s = sandbox_find(b->gate, id, true);
	if (!s || b->sandbox == s)
		return;
	/* A sandbox that was started again has another box; the old one's end is still to be told. */
	if (s->box)
		s->box->sandbox = NULL;
	detach(b);
	b->sandbox = s;
	s->box = b;
	box_policy_changed(b);
}

/* ---- sandboxes ---- */

struct gate_sandbox *sandbox_find(struct gate *g, const char *id, bool make)
{
	struct gate_sandbox *s = map_get(&g->sandboxes, str_of(id));
	if (s || !make || g->sandboxes.count >= GATE_POLICIES_MAX)
		return s;
	s = xcalloc(1, sizeof *s);
	snprintf(s->id, sizeof s->id, "%s", id);
	map_put(&g->sandboxes, str_of(id), s);
	return s;
}

void sandbox_set_policy(struct gate *g, const char *id, struct policy *p)
{
	struct gate_sandbox *s = sandbox_find(g, id, true);
	if (!s) {
		policy_unref(p);
		log_event(LOG_ERROR, "too many policies", "id=%s", LOG_Q(id));
		return;
	}
	policy_unref(s->policy);
	s->policy = p;
	s->seen = true;
	if (s->box)
		box_policy_changed(s->box);
}

void sandbox_set_secrets(struct gate *g, const char *id, struct secrets *secrets)
{
	struct gate_sandbox *s = sandbox_find(g, id, true);
	if (!s) {
		secrets_free(secrets);
		return;
	}
	secrets_free(s->secrets);
	s->secrets = secrets;
	/* Connections that were not looked at may carry a placeholder. */
	if (s->box && secrets)
		box_policy_changed(s->box);
}

void sandbox_set_hooks(struct gate *g, const char *id, struct hooks *hooks)
{
	struct gate_sandbox *s = sandbox_find(g, id, true);
	if (!s) {
		hooks_free(hooks);
		return;
	}
	hooks_free(s->hooks);
	s->hooks = hooks;
}

void sandbox_set_worker(struct gate *g, const char *id, struct worker *worker)
{
	struct gate_sandbox *s = sandbox_find(g, id, true);
	if (!s) {
		worker_free(worker);
		return;
	}
	worker_free(s->worker);
	s->worker = worker;
}

void sandbox_forget(struct gate *g, const char *id)
{
	struct gate_sandbox *s = sandbox_find(g, id, false);
	if (!s)
		return;
	if (s->box)
		list_each(it, &s->box->conns) passage_cut(list_entry(it, struct passage, node), "the sandbox is gone");
	policy_unref(s->policy);
	secrets_free(s->secrets);
	hooks_free(s->hooks);
	worker_free(s->worker);
	s->policy = NULL;
	s->secrets = NULL;
	s->hooks = NULL;
	s->worker = NULL;
	drop_unused(g, s);
}
