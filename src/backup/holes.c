#include "backup/holes.h"

#include <string.h>

#include "proto/stream.h"

enum { HOLE_MIN = 4096 }; /* what is smaller has no block of its own */

static uint64_t little(const char *p, size_t n)
{
	uint64_t v = 0;
	memcpy(&v, p, n);
	return le64toh(v);
}

/* ---- commands ---- */

static size_t body_size(const struct holes *h)
{
	return (size_t)little(h->room, 4);
}

static unsigned number_of(const struct holes *h)
{
	return (unsigned)little(h->room + 4, 2);
}

/* An attribute of the command in the room; NULL: it has none, or is not well-formed. */
static struct str attribute(const struct holes *h, enum stream_attribute which)
{
	struct str rest = str_n(h->room + STREAM_COMMAND_HEAD, body_size(h));
	while (rest.n >= STREAM_ATTRIBUTE_HEAD) {
		uint64_t type = little(rest.p, 2), n = little(rest.p + 2, 2);
		rest = str_skip(rest, STREAM_ATTRIBUTE_HEAD);
		if (n > rest.n)
			break;
		if (type == (uint64_t)which)
			return str_n(rest.p, n);
		rest = str_skip(rest, n);
	}
	return STR_NULL;
}

static size_t put(char *to, uint64_t v, size_t n)
{
	v = htole64(v);
	memcpy(to, &v, n);
	return n;
}

static size_t put_head(char *to, enum stream_attribute type, size_t n)
{
	return put(to, type, 2) + put(to + 2, n, 2);
}

/* ---- the hole that waits ---- */

static int flush(struct holes *h, struct err *e)
{
	char out[STREAM_COMMAND_HEAD + 3 * STREAM_ATTRIBUTE_HEAD + BACKUP_PATH_MAX + 2 * sizeof(uint64_t)];
	size_t n = STREAM_COMMAND_HEAD;
	if (!h->size)
		return 0;
	n += put_head(out + n, STREAM_A_PATH, h->path_n);
	memcpy(out + n, h->path, h->path_n);
	n += h->path_n;
	n += put_head(out + n, STREAM_A_FILE_OFFSET, sizeof h->at);
	n += put(out + n, h->at, sizeof h->at);
	n += put_head(out + n, STREAM_A_SIZE, sizeof h->size);
	n += put(out + n, h->size, sizeof h->size);
	put(out, n - STREAM_COMMAND_HEAD, 4);
	put(out + 4, STREAM_C_PUNCH, 2);
	put(out + 6, 0, 4);
	h->zeros += h->size;
	h->size = 0;
	return h->on_bytes(h->arg, out, n, e);
}

static bool is_zero(struct str s)
{
	return s.n >= HOLE_MIN && s.p[0] == 0 && memcmp(s.p, s.p + 1, s.n - 1) == 0;
}

static bool keep_path(struct str path, char *ret, size_t *ret_n)
{
	*ret_n = 0;
	if (!path.n || path.n > BACKUP_PATH_MAX)
		return false;
	memcpy(ret, path.p, path.n);
	*ret_n = path.n;
	return true;
}

static bool is_path(struct str path, const char *kept, size_t kept_n)
{
	return path.n && str_eq(path, str_n(kept, kept_n));
}

/* Whether the command is a write of zeros that became a part of the hole. */
static int take_zeros(struct holes *h, bool *ret, struct err *e)
{
	struct str path = attribute(h, STREAM_A_PATH), offset = attribute(h, STREAM_A_FILE_OFFSET),
		   data = attribute(h, STREAM_A_DATA);
	uint64_t at = offset.n == sizeof at ? little(offset.p, sizeof at) : UINT64_MAX;
	bool fresh = is_path(path, h->fresh, h->fresh_n);
	bool goes_on = h->size && at == h->at + h->size && is_path(path, h->path, h->path_n);
	/* The last piece of a hole may be shorter than a block. */
	bool zero = goes_on ? data.n && data.p[0] == 0 && memcmp(data.p, data.p + 1, data.n - 1) == 0 : is_zero(data);
	*ret = false;
	if (!h->incremental || !zero || fresh || at > INT64_MAX - data.n)
		return 0;
	if (!goes_on && (flush(h, e) < 0 || !keep_path(path, h->path, &h->path_n)))
		return h->path_n ? -1 : 0;
	if (!goes_on)
		h->at = at;
	h->size += data.n;
	*ret = true;
	return 0;
}

/* The kernel makes a file under a name of its own and renames it before it writes. */
static void follow_fresh(struct holes *h, unsigned command)
{
	struct str path = attribute(h, STREAM_A_PATH);
	if (command == STREAM_C_SNAPSHOT)
		h->incremental = true;
	else if (command == STREAM_C_MKFILE)
		keep_path(path, h->fresh, &h->fresh_n);
	else if (command == STREAM_C_RENAME && is_path(path, h->fresh, h->fresh_n))
		keep_path(attribute(h, STREAM_A_PATH_TO), h->fresh, &h->fresh_n);
}

static int take_command(struct holes *h, size_t size, struct err *e)
{
	bool left_out = false;
	unsigned command = number_of(h);
	follow_fresh(h, command);
	if (command == STREAM_C_WRITE && take_zeros(h, &left_out, e) < 0)
		return -1;
	if (left_out)
		return 0;
	return flush(h, e) < 0 ? -1 : h->on_bytes(h->arg, h->room, size, e);
}

/* ---- the stream ---- */

/* How long the thing is whose begin is in the room. */
static size_t wanted(const struct holes *h)
{
	if (!h->begun)
		return STREAM_HEAD;
	return STREAM_COMMAND_HEAD + (h->have < STREAM_COMMAND_HEAD ? 0 : body_size(h));
}

static int take_whole(struct holes *h, size_t size, struct err *e)
{
	h->have = 0;
	if (h->begun)
		return take_command(h, size, e);
	h->begun = true;
	return h->on_bytes(h->arg, h->room, size, e);
}

int holes_feed(struct holes *h, const char *p, size_t n, struct err *e)
{
	while (n) {
		size_t want = wanted(h), part = want - h->have < n ? want - h->have : n;
		if (want > sizeof h->room)
			return err_set(e, ERRC_BACKUP_CREATE_FAILED,
				"the stream of the files has a command of %zu bytes", want);
		memcpy(h->room + h->have, p, part);
		h->have += part;
		p += part;
		n -= part;
		if (h->have == want && want == wanted(h) && take_whole(h, want, e) < 0)
			return -1;
	}
	return 0;
}
