#include "agent/proclog.h"

#include <stdio.h>

#include "agent/output.h"
#include "base/clock.h"
#include "base/limits.h"

struct head {
	int64_t wall_ms;
	uint32_t n;
	uint32_t stream;
};

void proclog_init(struct proclog *l)
{
	*l = (struct proclog){.old.spool = SPOOL_INIT, .new.spool = SPOOL_INIT};
}

void proclog_free(struct proclog *l)
{
	spool_free(&l->old.spool);
	spool_free(&l->new.spool);
}

uint64_t proclog_size(const struct proclog *l)
{
	return l->new.base + l->new.spool.size;
}

/* How much output a part holds, without the heads. */
static uint64_t payload(const struct proclog_part *p)
{
	uint64_t sum = 0;
	struct head h;
	for (uint64_t at = 0; spool_read(&p->spool, at, (char *)&h, sizeof h) == (ssize_t)sizeof h;
		at += sizeof h + h.n)
		sum += h.n;
	return sum;
}

static void turn_over(struct proclog *l)
{
	l->dropped += payload(&l->old);
	spool_free(&l->old.spool);
	uint64_t base = proclog_size(l);
	l->old = l->new;
	l->new = (struct proclog_part){.spool = SPOOL_INIT, .base = base};
}

static void put_record(struct proclog *l, int stream, struct str bytes)
{
	char record[sizeof(struct head) + PROCLOG_PIECE];
	struct head h = {.wall_ms = clock_wall_ms(), .n = (uint32_t)bytes.n, .stream = (uint32_t)stream};
	struct err e;
	if (l->new.spool.size >= PROCESS_LOG_MAX / 2)
		turn_over(l);
	memcpy(record, &h, sizeof h);
	memcpy(record + sizeof h, bytes.p, bytes.n);
	if (spool_add(&l->new.spool, str_n(record, sizeof h + bytes.n), &e) < 0) {
		l->broken = true;
		l->dropped += bytes.n;
	}
}

/* Length of the part of s that does not end inside a character. */
static size_t whole_characters(struct str s)
{
	for (size_t back = 1; back <= 3 && back <= s.n; back++) {
		unsigned char c = (unsigned char)s.p[s.n - back];
		if ((c & 0xC0) == 0x80)
			continue;
		return str_utf8_len(str_n(s.p + s.n - back, back)) < 0 ? s.n - back : s.n;
	}
	return s.n;
}

void proclog_add(struct proclog *l, int stream, struct str bytes)
{
	int k = stream == CMD_STDOUT ? 0 : 1;
	while (bytes.n) {
		char piece[PROCLOG_PIECE];
		size_t n = l->carry_n[k], room = sizeof piece - n;
		size_t take = bytes.n < room ? bytes.n : room;
		memcpy(piece, l->carry[k], n);
		memcpy(piece + n, bytes.p, take);
		bytes = str_skip(bytes, take);
		size_t whole = whole_characters(str_n(piece, n + take));
		l->carry_n[k] = n + take - whole;
		memcpy(l->carry[k], piece + whole, l->carry_n[k]);
		if (whole)
			put_record(l, stream, str_n(piece, whole));
	}
}

void proclog_end(struct proclog *l)
{
	for (int k = 0; k < 2; k++)
		if (l->carry_n[k])
			put_record(l, k ? CMD_STDERR : CMD_STDOUT, str_n(l->carry[k], l->carry_n[k]));
	l->carry_n[0] = l->carry_n[1] = 0;
}

static bool read_at(const struct proclog_part *p, uint64_t at, struct proclog_record *ret, uint64_t *ret_next)
{
	struct head h;
	uint64_t off = at - p->base;
	if (at < p->base || spool_read(&p->spool, off, (char *)&h, sizeof h) != (ssize_t)sizeof h ||
		h.n > PROCLOG_PIECE)
		return false;
	if (spool_read(&p->spool, off + sizeof h, ret->bytes, h.n) != (ssize_t)h.n)
		return false;
	ret->stream = (int)h.stream;
	ret->wall_ms = h.wall_ms;
	ret->n = h.n;
	*ret_next = at + sizeof h + h.n;
	return true;
}

/* True when a record begins at `at`: a client may send any number back. */
static bool is_boundary(const struct proclog_part *p, uint64_t at)
{
	struct head h;
	uint64_t pos = p->base;
	while (pos < at && spool_read(&p->spool, pos - p->base, (char *)&h, sizeof h) == (ssize_t)sizeof h)
		pos += sizeof h + h.n;
	return pos == at;
}

bool proclog_read(const struct proclog *l, uint64_t *at, struct proclog_record *ret)
{
	uint64_t oldest = l->old.spool.size ? l->old.base : l->new.base;
	ret->skipped = 0;
	if (*at == proclog_size(l))
		return false;
	if (*at < oldest || *at > proclog_size(l)) {
		*at = oldest;
		ret->skipped = l->dropped;
	}
	const struct proclog_part *p = *at >= l->new.base ? &l->new : &l->old;
	return read_at(p, *at, ret, at);
}

uint64_t proclog_resume(const struct proclog *l, uint64_t id)
{
	const struct proclog_part *p = id >= l->new.base ? &l->new : &l->old;
	bool known = id <= proclog_size(l) && id >= p->base && is_boundary(p, id);
	return known ? id : l->old.spool.size ? l->old.base : l->new.base;
}
