/*
 * Connections that the kernel refused in the box itself (cage/steer.h): it leaves a record of each in a ring that it
 * shares with us. Each has a line in the log, up to GATE_DROPS_RATE a second of one box; what is above that is counted,
 * and shares one line when the second is over.
 *
 * The ring is a BPF ring buffer: a page with the place up to which we have read, which we write, a page with the place
 * up to which the kernel has written, and the data, mapped twice in a row so that no record is cut. A gate that was
 * restarted goes on where the last one stopped.
 */
#include <linux/bpf.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "gate/gate.h"
#include "proto/gate.h"

/* ---- the log of one box ---- */

/* `name` is set when it was the name that decided. */
static const char *reason(struct gate_box *b, const struct drop *d, const char **name)
{
	const struct policy *p = box_policy(b);
	const char *by = "";
	if (!p)
		return "no policy came";
	struct verdict v = d->udp ? udp_verdict(b, &d->ip, d->port, &by)
				  : policy_by_address(p, gate_host(b->gate), false, &d->ip, d->port);
	if (*by)
		*name = by;
	if (v.answer == POLICY_DENY)
		return v.why;
	return d->udp ? "UDP needs a udp:// rule" : "refused by an earlier policy";
}

static void tell(struct gate_box *b, const struct drop *d, uint64_t times)
{
	const char *name = names_get(&b->names, &d->ip, 0, loop_now(b->gate->loop));
	const char *why = reason(b, d, &name);
	record_send(b->gate, &(struct gate_log){.id = box_id(b),
				     .time = clock_wall_ms(),
				     .name = name,
				     .protocol = d->udp ? "udp" : "tcp",
				     .decision = "deny",
				     .why = why,
				     .end = "refused",
				     .ip = &d->ip,
				     .port = d->port,
				     .times = times});
}

static void tell_rest(struct gate_box *b)
{
	if (b->drops.rest)
		tell(b, &b->drops.last, b->drops.rest);
	b->drops.told = 0;
	b->drops.rest = 0;
}

static void on_second(struct loop_timer *t)
{
	tell_rest(container_of(t, struct gate_box, drops.timer));
}

void drops_add(struct gate_box *b, const struct drop *d)
{
	if (!b->drops.timer.pos)
		loop_timer_set(b->gate->loop, &b->drops.timer, GATE_DROPS_SPAN, on_second);
	if (b->drops.told < GATE_DROPS_RATE) {
		b->drops.told++;
		return tell(b, d, 1);
	}
	b->drops.last = *d;
	b->drops.rest++;
}

void drops_end(struct gate_box *b)
{
	loop_timer_stop(&b->drops.timer);
	tell_rest(b);
}

/* ---- the ring ---- */

static void take_one(struct gate *g, const struct gate_drop *r)
{
	struct gate_box *b = box_find(g, r->slot);
	struct drop d = {.port = r->port, .udp = r->protocol == IPPROTO_UDP};
	memcpy(d.ip.b, r->address, sizeof d.ip.b);
	if (b && b->generation == r->generation && b->sandbox)
		drops_add(b, &d);
}

void drops_take(struct gate *g)
{
	struct drops *d = &g->drops;
	if (!d->io.loop)
		return;
	control_take(g);
	unsigned long at = *d->taken, until = __atomic_load_n(d->given, __ATOMIC_ACQUIRE);
	while (at < until) {
		const char *record = d->data + (at & (GATE_DROPS_RING - 1));
		uint32_t head = __atomic_load_n((const uint32_t *)record, __ATOMIC_ACQUIRE);
		uint32_t n = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		struct gate_drop r;
		if (head & BPF_RINGBUF_BUSY_BIT)
			break;
		memcpy(&r, record + BPF_RINGBUF_HDR_SZ, sizeof r);
		at += (n + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
		__atomic_store_n(d->taken, at, __ATOMIC_RELEASE);
		if (n == sizeof r && !(head & BPF_RINGBUF_DISCARD_BIT))
			take_one(g, &r);
	}
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	drops_take(container_of(io, struct gate, drops.io));
}

static void let_go(struct drops *d)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = d->io.fd;
	if (!d->io.loop)
		return;
	loop_del(&d->io);
	munmap(d->taken, page);
	munmap((void *)d->given, page + 2ul * GATE_DROPS_RING);
	close(fd);
}

void drops_open(struct gate *g, int fd)
{
	struct drops *d = &g->drops;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), rest = page + 2ul * GATE_DROPS_RING;
	let_go(d);
	void *taken = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *given = mmap(NULL, rest, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (taken != MAP_FAILED && given != MAP_FAILED && loop_add(g->loop, &d->io, fd, EPOLLIN, on_ready) == 0) {
		d->taken = taken;
		d->given = given;
		d->data = (const char *)given + page;
		return;
	}
	log_event(LOG_ERROR, "refused addresses are not logged", "error=%s", LOG_Q(strerror(errno)));
	if (taken != MAP_FAILED)
		munmap(taken, page);
	if (given != MAP_FAILED)
		munmap(given, rest);
	close(fd);
}
