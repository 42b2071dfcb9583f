#include "agent/process/proclog.h"

#include <stdio.h>

#include "agent/limits.h"
#include "agent/proc/output.h"
#include "base/clock.h"

/* Not a stream: the record holds how many bytes of output there were behind a gap. */
enum { GAP = 0 };

struct head {
	uint32_t ms_low; /* wall clock: 48 bits are enough for some thousand years */
	uint16_t ms_high;
	uint16_t n_stream; /* length, and the stream in the two bits on top */
};
_Static_assert(PROCLOG_PIECE < 1 << 14, "the length of a record has 14 bits");

static struct head head_of(int stream, size_t n)
{
	uint64_t ms = (uint64_t)clock_wall_ms();
	return (struct head){.ms_low = (uint32_t)ms,
		.ms_high = (uint16_t)(ms >> 32),
		.n_stream = (uint16_t)((unsigned)stream << 14 | n)};
}

static int head_stream(const struct head *h)
{
	return h->n_stream >> 14;
}

static size_t head_n(const struct head *h)
{
	return h->n_stream & 0x3fff;
}

void proclog_init(struct proclog *l)
{
	*l = (struct proclog){.old.spool = SPOOL_INIT, .recent.spool = SPOOL_INIT};
	l->old.spool.mem_max = l->recent.spool.mem_max = PROCLOG_MEM;
}

void proclog_free(struct proclog *l)
{
	spool_free(&l->old.spool);
	spool_free(&l->recent.spool);
}

static uint64_t end_of(const struct proclog *l)
{
	return l->recent.base + l->recent.spool.size;
}

static const struct proclog_part *oldest(const struct proclog *l)
{
	return l->old.spool.size ? &l->old : &l->recent;
}

static void turn_over(struct proclog *l)
{
	spool_free(&l->old.spool);
	uint64_t base = end_of(l);
	l->old = l->recent;
	l->recent = (struct proclog_part){.spool = SPOOL_INIT, .base = base, .bytes = l->bytes};
	l->recent.spool.mem_max = PROCLOG_MEM;
}

static int store(struct proclog *l, int stream, struct str bytes)
{
	char record[sizeof(struct head) + PROCLOG_PIECE];
	struct head h = head_of(stream, bytes.n);
	struct err e;
	memcpy(record, &h, sizeof h);
	memcpy(record + sizeof h, bytes.p, bytes.n);
	return spool_add(&l->recent.spool, str_n(record, sizeof h + bytes.n), &e);
}

static void put_record(struct proclog *l, int stream, struct str bytes)
{
	if (l->bytes - l->recent.bytes >= PROCESS_LOG_MAX / 2)
		turn_over(l);
	if (l->gap)
		l->gap = store(l, GAP, str_n((const char *)&l->bytes, sizeof l->bytes)) < 0;
	l->gap = l->gap || store(l, stream, bytes) < 0;
	l->bytes += bytes.n;
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

static bool read_head(const struct proclog_part *p, uint64_t pos, struct head *ret)
{
	return pos >= p->base && spool_read(&p->spool, pos - p->base, (char *)ret, sizeof *ret) == (ssize_t)sizeof *ret;
}

static bool read_bytes(const struct proclog_part *p, uint64_t pos, const struct head *h, char *ret)
{
	size_t n = head_n(h);
	return n <= PROCLOG_PIECE && spool_read(&p->spool, pos - p->base + sizeof *h, ret, n) == (ssize_t)n;
}

/* How many bytes of output there were behind a gap. */
static uint64_t gap_end(const struct proclog_part *p, uint64_t pos, const struct head *h)
{
	char bytes[PROCLOG_PIECE];
	uint64_t end = 0;
	if (read_bytes(p, pos, h, bytes))
		memcpy(&end, bytes, sizeof end);
	return end;
}

/* Returns by how much. */
static uint64_t advance(struct proclog_at *at, uint64_t bytes)
{
	uint64_t n = bytes > at->bytes ? bytes - at->bytes : 0;
	at->bytes += n;
	return n;
}

bool proclog_read(const struct proclog *l, struct proclog_at *at, struct proclog_record *ret)
{
	struct head h;
	ret->stream = CMD_STDOUT;
	ret->wall_ms = clock_wall_ms();
	ret->n = ret->skipped = 0;
	if (at->record < oldest(l)->base) {
		at->record = oldest(l)->base;
		ret->skipped = advance(at, oldest(l)->bytes);
	}
	const struct proclog_part *p = at->record >= l->recent.base ? &l->recent : &l->old;
	while (read_head(p, at->record, &h) && head_stream(&h) == GAP) {
		ret->skipped += advance(at, gap_end(p, at->record, &h));
		at->record += sizeof h + head_n(&h);
	}
	if (!read_head(p, at->record, &h) || !read_bytes(p, at->record, &h, ret->bytes)) {
		ret->skipped += advance(at, p == &l->recent ? l->bytes : l->recent.bytes);
		return ret->skipped;
	}
	ret->stream = head_stream(&h);
	ret->wall_ms = (int64_t)((uint64_t)h.ms_high << 32 | h.ms_low);
	ret->n = head_n(&h);
	at->record += sizeof h + ret->n;
	at->bytes += ret->n;
	return true;
}

struct proclog_at proclog_resume(const struct proclog *l, uint64_t id)
{
	const struct proclog_part *p = id >= l->recent.bytes ? &l->recent : &l->old;
	struct proclog_at at = {.record = p->base, .bytes = p->bytes};
	struct head h;
	if (id < oldest(l)->bytes)
		return (struct proclog_at){.bytes = id};
	while (at.bytes < id && read_head(p, at.record, &h)) {
		bool gap = head_stream(&h) == GAP;
		uint64_t behind = gap ? gap_end(p, at.record, &h) : at.bytes + head_n(&h);
		if (gap && behind > id)
			break;
		at = (struct proclog_at){at.record + sizeof h + head_n(&h), behind};
	}
	if (at.bytes > id || id > l->bytes)
		return (struct proclog_at){0};
	at.bytes = id; /* inside a gap it is already told of a part */
	return at;
}
