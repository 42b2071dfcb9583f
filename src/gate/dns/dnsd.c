/*
 * The resolver of every box, at every address, over UDP and TCP. A name that the policy does not let be reached is
 * refused before anything leaves the host; addresses that the box may not reach are left out of answers.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "gate/gate.h"

/* A TCP connection to port 53. */
struct dns_stream {
	struct gate_box *box;
	struct list node; /* of box->streams */
	struct loop_io io;
	struct loop_timer timer;
	struct loop_task free_task;
	struct buf in, out;
	int fd;
	size_t pending; /* questions that wait */
	bool dead, ended;
	bool taking; /* messages are being taken: answers do not settle it again */
};

/* A question that waits for the resolver. */
struct question {
	struct list node;
	struct resolve_wait wait;
	struct gate_box *box;
	struct dns_question q;
	struct dns_stream *stream; /* NULL: a datagram, to be answered to … from … */
	struct ip from, to;
	uint16_t from_port;
};

static void stream_write(struct dns_stream *s, const uint8_t *p, size_t n);
static void stream_settle(struct dns_stream *s);

/* ---- answers ---- */

static void reply(const struct question *q, const struct dns_answer *a, uint32_t age, int ede, const char *text)
{
	static uint8_t out[GATE_DNS_MAX];
	const struct dns_reason why = {ede, text};
	size_t n = dns_write(&q->q, a, age, &why, out, q->stream ? sizeof out : q->q.room);
	if (q->stream)
		stream_write(q->stream, out, n);
	else
		udp_send(q->box, &q->to, 53, &q->from, q->from_port, str_n(out, n));
}

static void reply_code(const struct question *q, enum dns_rcode code)
{
	reply(q, &(struct dns_answer){.rcode = code}, 0, 0, NULL);
}

static void refuse(const struct question *q, const char *why)
{
	record_send(q->box->gate, &(struct gate_log){.id = box_id(q->box),
					  .time = clock_wall_ms(),
					  .name = q->q.name,
					  .protocol = "dns",
					  .decision = "deny",
					  .why = why,
					  .end = "refused",
					  .port = 53});
	reply(q, &(struct dns_answer){.rcode = DNS_NXDOMAIN}, 0, DNS_EDE_BLOCKED, why);
}

static bool has_ech(const struct dns_record *r)
{
	return r->type == DNS_HTTPS || r->type == DNS_SVCB;
}

/* The cached record is shared with other boxes: a copy loses its `ech`. */
static void strip(struct dns_record *r, struct buf *room)
{
	char *p = buf_room(room, r->data_n);
	if (!p) {
		r->data_n = 0;
		return;
	}
	memcpy(p, r->data, r->data_n);
	buf_commit(room, r->data_n);
	r->data = (uint8_t *)p;
	dns_strip_ech(r);
}

/* Without the addresses that the box may not reach. The rest is told, and remembered as told. */
static void tell(const struct question *q, const struct dns_answer *a, uint32_t age)
{
	struct gate *g = q->box->gate;
	const struct policy *p = box_policy(q->box);
	struct ip_host *host = gate_host(g);
	struct dns_record shown[GATE_DNS_RECORDS_MAX];
	struct dns_answer out = {.rcode = a->rcode, .v = shown};
	auto_buf struct buf stripped = {.max = GATE_DNS_MAX};
	bool hidden = false, strips = q->box->sandbox &&
				      (q->box->sandbox->secrets || q->box->sandbox->hooks || q->box->sandbox->worker);
	/* Never moves while records point into it. */
	if (strips)
		buf_room(&stripped, GATE_DNS_MAX);
	for (size_t i = 0; i < a->n; i++) {
		struct ip ip;
		bool is_ip = dns_record_ip(&a->v[i], &ip);
		if (is_ip && (!p || !policy_may_show(p, host, &ip))) {
			hidden = true;
			continue;
		}
		if (is_ip)
			names_add(&q->box->names, &ip, q->q.name, (uint64_t)a->v[i].ttl * 1000, loop_now(g->loop));
		shown[out.n++] = a->v[i];
		/* An encrypted hello would hide the name that tells what is to be intercepted. */
		if (strips && has_ech(&a->v[i]))
			strip(&shown[out.n - 1], &stripped);
	}
	reply(q, &out, age, hidden && !out.n ? DNS_EDE_BLOCKED : 0, "the name's addresses are never reachable");
}

/* ---- questions ---- */

static bool is_known_type(uint16_t type)
{
	return type == DNS_A || type == DNS_AAAA || type == DNS_CNAME || type == DNS_HTTPS || type == DNS_SVCB ||
	       type == DNS_MX || type == DNS_TXT || type == DNS_SRV || type == DNS_PTR;
}

static bool take_token(struct gate_box *b)
{
	uint64_t now = loop_now(b->gate->loop), more = (now - b->dns.filled) * GATE_DNS_RATE / 1000;
	if (more) {
		b->dns.filled = now;
		b->dns.tokens = b->dns.tokens + more > GATE_DNS_BURST ? GATE_DNS_BURST : b->dns.tokens + (uint32_t)more;
	}
	if (!b->dns.tokens)
		return false;
	b->dns.tokens--;
	return true;
}

static void free_question(struct question *q)
{
	resolver_cancel(&q->wait);
	list_del(&q->node);
	q->box->dns.pending--;
	if (q->stream) {
		q->stream->pending--;
		stream_settle(q->stream);
	}
	free(q);
}

static bool is_hooked(const struct question *q, const struct policy *p, bool refused);
static void tell_synthetic(const struct question *q);

static void on_answer(struct resolve_wait *w, const struct dns_answer *a, uint32_t age)
{
	struct question *q = container_of(w, struct question, wait);
	turn_bill(q->box->bucket.party);
	const struct policy *p = box_policy(q->box);
	if (a->rcode == DNS_NXDOMAIN && p && is_hooked(q, p, true))
		tell_synthetic(q);
	else
		tell(q, a, age);
	free_question(q);
}

/* A reverse name is as reachable as its address; in list mode it must be an address that the box was told of. */
static const char *refuse_reverse(const struct question *q, const struct policy *p)
{
	struct ip ip;
	if (!dns_reverse_ip(q->q.name, &ip))
		return p->mode == POLICY_LIST ? "mode list: not a reverse name" : NULL;
	struct verdict v = policy_address_ok(p, gate_host(q->box->gate), false, &ip, 0, NULL);
	if (v.answer != POLICY_ALLOW)
		return v.why;
	bool told = names_get(&q->box->names, &ip, 0, loop_now(q->box->gate->loop)) != NULL;
	return p->mode == POLICY_LIST && !told ? "mode list: no name is known for this address" : NULL;
}

/* A placeholder in a name would carry it out of here. Names are in lower case, and so are placeholders. */
static const char *refuse_placeholder(const struct question *q)
{
	static char why[GATE_WHY_MAX];
	const struct gate_sandbox *box = q->box->sandbox;
	const struct secret *s = box ? secrets_find(box->secrets, str_of(q->q.name)) : NULL;
	if (!s)
		return NULL;
	snprintf(why, sizeof why, "the placeholder of secret '%s' may go only to its hosts, over TLS", s->name);
	return why;
}

static const char *refusal(const struct question *q, const struct policy *p)
{
	const char *leaks = refuse_placeholder(q);
	if (leaks)
		return leaks;
	if (q->q.type == DNS_PTR && p->mode != POLICY_OFF)
		return refuse_reverse(q, p);
	struct verdict v = policy_may_resolve(p, q->q.name);
	return v.answer == POLICY_DENY ? v.why : NULL;
}

/* Nothing about the name leaves the host: an address of ours stands for it. There are no other records. */
static void tell_synthetic(const struct question *q)
{
	struct dns_answer out = {.rcode = DNS_OK};
	struct ip ip = synth_address(&q->box->synth, q->q.name);
	if (q->q.type == DNS_A)
		dns_answer_add_ip(&out, q->q.name, &ip, GATE_SYNTH_TTL);
	reply(q, &out, 0, 0, NULL);
	dns_answer_free(&out);
}

/* Whether the name is not asked of the host's servers: somebody has to approve it first, or only the host's proxy looks
 * names up. */
static bool is_withheld(const struct question *q, const struct policy *p)
{
	if (q->box->gate->egress.names)
		return true;
	return q->q.type != DNS_PTR && policy_may_resolve(p, q->q.name).answer == POLICY_ASK;
}

/* A name that an outbound handler answers for need not exist, and need not be allowed. */
static bool is_hooked(const struct question *q, const struct policy *p, bool refused)
{
	const struct hooks *h = q->box->sandbox ? q->box->sandbox->hooks : NULL;
	const struct worker *w = q->box->sandbox ? q->box->sandbox->worker : NULL;
	if ((!h && !w) || q->q.type == DNS_PTR || p->mode == POLICY_OFF || refuse_placeholder(q))
		return false;
	return hooks_name(h, q->q.name) || (refused && (hooks_any(h) || worker_names(w, q->q.name)));
}

static void wait_for(const struct question *found)
{
	struct gate_box *b = found->box;
	if (b->dns.pending >= GATE_DNS_PENDING)
		return reply_code(found, DNS_SERVFAIL);
	struct question *q = xmalloc(sizeof *q);
	*q = *found;
	b->dns.pending++;
	if (q->stream)
		q->stream->pending++;
	list_push(&b->questions, &q->node);
	resolver_ask(b->gate->resolver, q->q.name, q->q.type, &q->wait, on_answer);
}

/* Past the rate: a datagram is lost, as networks do; a stream must have its answer. */
static void too_many(const struct question *q)
{
	if (q->stream)
		reply_code(q, DNS_SERVFAIL);
}

/* The question is read; `code` is what dns_read_question said. */
static void handle(struct question *q, int code)
{
	const struct policy *p = box_policy(q->box);
	struct gate *g = q->box->gate;
	uint32_t age;
	if (code != DNS_OK)
		return reply_code(q, (enum dns_rcode)code);
	if (!p) /* gone since the question was read */
		return reply_code(q, DNS_SERVFAIL);
	if (!is_known_type(q->q.type) || !*q->q.name)
		return reply_code(q, DNS_NOTIMP);
	const char *why = refusal(q, p);
	if (is_hooked(q, p, why != NULL))
		return tell_synthetic(q);
	if (why)
		return take_token(q->box) ? refuse(q, why) : too_many(q);
	if (is_withheld(q, p))
		return tell_synthetic(q);
	if (q->q.type == DNS_AAAA && !gate_host(g)->v6)
		return reply_code(q, DNS_OK);
	const struct dns_answer *a = resolver_get(g->resolver, q->q.name, q->q.type, &age);
	if (a && a->rcode == DNS_NXDOMAIN && is_hooked(q, p, true))
		tell_synthetic(q);
	else if (a)
		tell(q, a, age);
	else if (take_token(q->box))
		wait_for(q);
	else
		too_many(q);
}

void dnsd_datagram(struct gate_box *b, struct str in, const struct ip *from, uint16_t from_port, const struct ip *to)
{
	struct question q = {.box = b, .from = *from, .to = *to, .from_port = from_port};
	int code = dns_read_question(in, &q.q);
	if (code >= 0)
		handle(&q, code);
}

/* ---- over TCP ---- */

static void free_stream(struct loop_task *t)
{
	struct dns_stream *s = container_of(t, struct dns_stream, free_task);
	free(s);
}

static void stream_drop(struct dns_stream *s)
{
	struct gate_box *b = s->box;
	if (s->dead)
		return;
	s->dead = true;
	list_each(it, &b->questions)
	{
		struct question *q = list_entry(it, struct question, node);
		if (q->stream == s)
			free_question(q);
	}
	loop_timer_stop(&s->timer);
	loop_del(&s->io);
	fd_close(&s->fd);
	buf_free(&s->in);
	buf_free(&s->out);
	list_del(&s->node);
	box_conn_ends(b);
	loop_defer(b->gate->loop, &s->free_task, free_stream);
}

static void on_idle(struct loop_timer *t)
{
	stream_drop(container_of(t, struct dns_stream, timer));
}

static void stream_flush(struct dns_stream *s)
{
	while (buf_size(&s->out)) {
		struct str out = buf_str(&s->out);
		ssize_t n = send(s->fd, out.p, out.n, MSG_NOSIGNAL);
		if (n < 0)
			break;
		buf_consume(&s->out, (size_t)n);
	}
}

/* Length and message at once. They fit: has_room() has kept a place. */
static void stream_write(struct dns_stream *s, const uint8_t *p, size_t n)
{
	char *to = s->dead ? NULL : buf_room(&s->out, n + 2);
	if (!to)
		return;
	to[0] = (char)(n >> 8);
	to[1] = (char)n;
	memcpy(to + 2, p, n);
	buf_commit(&s->out, n + 2);
}

/* For one more answer of any size, behind those that wait. */
static bool has_room(const struct dns_stream *s)
{
	return buf_size(&s->out) + (s->pending + 1) * (GATE_DNS_MAX + 2) <= GATE_DNS_TCP_OUT;
}

/* While their answers have room. 1: something was taken, 0: nothing is left to take, -1: the client speaks nonsense. */
static int take_messages(struct dns_stream *s)
{
	int took = 0;
	while (box_policy(s->box) && has_room(s)) {
		struct str in = buf_str(&s->in);
		size_t n = in.n < 2 ? 0 : (size_t)(uint8_t)in.p[0] << 8 | (uint8_t)in.p[1];
		if (n > GATE_DNS_QUERY_MAX)
			return -1;
		if (in.n < n + 2)
			break;
		struct question q = {.box = s->box, .stream = s};
		int code = dns_read_question(str_n(in.p + 2, n), &q.q);
		if (code < 0)
			return -1;
		handle(&q, code);
		buf_consume(&s->in, n + 2);
		took = 1;
	}
	return took;
}

/* Takes and answers what it can, waits for what can come next, or ends. */
static void stream_settle(struct dns_stream *s)
{
	int took;
	if (s->dead || s->taking)
		return;
	s->taking = true;
	do {
		took = take_messages(s);
		stream_flush(s);
	} while (took > 0);
	s->taking = false;
	if (took < 0 || (s->ended && !s->pending && !buf_size(&s->out)))
		return stream_drop(s);
	loop_set_events(&s->io, (has_room(s) && !s->ended ? EPOLLIN : 0) | (buf_size(&s->out) ? EPOLLOUT : 0));
	loop_timer_set(s->box->gate->loop, &s->timer, GATE_DNS_TCP_IDLE, on_idle);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	struct dns_stream *s = container_of(io, struct dns_stream, io);
	char data[2048];
	turn_bill(s->box->bucket.party);
	if (events & EPOLLERR)
		return stream_drop(s);
	if (!box_policy(s->box)) /* dnsd_policy goes on */
		return loop_set_events(io, 0);
	if (events & (EPOLLIN | EPOLLHUP) && !s->ended) {
		ssize_t n = recv(io->fd, data, sizeof data, 0);
		if (n < 0 && errno != EAGAIN)
			return stream_drop(s);
		s->ended = n == 0;
		if (n > 0 && !buf_add(&s->in, data, (size_t)n))
			return stream_drop(s);
	}
	stream_settle(s);
}

void dnsd_stream(struct gate_box *b, int fd)
{
	struct dns_stream *s = xcalloc(1, sizeof *s);
	s->box = b;
	s->fd = fd;
	s->in.max = 8192;
	s->out.max = GATE_DNS_TCP_OUT;
	if (loop_add(b->gate->loop, &s->io, fd, EPOLLIN, on_ready) < 0) {
		close(fd);
		free(s);
		return;
	}
	box_conn_begins(b);
	list_push(&b->streams, &s->node);
	loop_timer_set(b->gate->loop, &s->timer, GATE_DNS_TCP_IDLE, on_idle);
}

void dnsd_policy(struct gate_box *b)
{
	list_each(it, &b->streams) stream_settle(list_entry(it, struct dns_stream, node));
}

void dnsd_shed(struct gate_box *b)
{
	if (!list_empty(&b->streams))
		stream_drop(list_entry(b->streams.next, struct dns_stream, node));
}

void dnsd_drop(struct gate_box *b)
{
	list_each(it, &b->streams) stream_drop(list_entry(it, struct dns_stream, node));
	while (!list_empty(&b->questions))
		free_question(list_entry(list_pop(&b->questions), struct question, node));
}
