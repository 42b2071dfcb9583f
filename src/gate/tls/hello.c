#include "gate/tls/hello.h"

#include "proto/rule.h"

enum {
	RECORD_HANDSHAKE = 22,
	RECORD_MAX = 16384,
	HANDSHAKE_HELLO = 1,
	EXT_NAME = 0,
	EXT_ALPN = 16,
	EXT_ECH = 0xfe0d,
	NAME_HOST = 0,
};

/* A cursor over bytes that may end too early. */
struct reader {
	const uint8_t *p;
	size_t n;
	bool bad;
};

static uint32_t take(struct reader *r, int bytes)
{
	uint32_t v = 0;
	if (r->n < (size_t)bytes) {
		r->bad = true;
		r->n = 0;
		return 0;
	}
	for (int i = 0; i < bytes; i++)
		v = v << 8 | r->p[i];
	r->p += bytes;
	r->n -= (size_t)bytes;
	return v;
}

/* The next `n` bytes as a reader of their own. */
static struct reader inner(struct reader *r, size_t n)
{
	struct reader i = {r->p, n, r->bad};
	if (r->n < n) {
		r->bad = true;
		return (struct reader){NULL, 0, true};
	}
	r->p += n;
	r->n -= n;
	return i;
}

/* A vector with its length in front. */
static struct reader vector(struct reader *r, int length_bytes)
{
	size_t n = take(r, length_bytes);
	return inner(r, n);
}

static bool read_name(struct reader ext, struct hello *h)
{
	struct reader list = vector(&ext, 2);
	if (ext.n || ext.bad || *h->name)
		return false;
	uint32_t type = take(&list, 1);
	struct reader name = vector(&list, 2);
	/* A second entry would be a second name. */
	if (list.bad || list.n || name.bad || type != NAME_HOST)
		return false;
	/* An empty one from GREASE or odd clients is refused with the rest: a name must be one. */
	return rule_name(str_n(name.p, name.n), h->name);
}

static bool read_alpn(struct reader ext, struct hello *h)
{
	struct reader list = vector(&ext, 2);
	if (ext.n || ext.bad)
		return false;
	while (list.n && !list.bad) {
		struct reader one = vector(&list, 1);
		h->h2 |= str_eq(str_n(one.p, one.n), STR("h2"));
		h->http1 |= str_eq(str_n(one.p, one.n), STR("http/1.1"));
	}
	return !list.bad;
}

static bool read_extensions(struct reader *body, struct hello *h)
{
	unsigned seen = 0;
	struct reader all = vector(body, 2);
	if (all.bad || body->n)
		return false;
	while (all.n) {
		uint32_t type = take(&all, 2);
		struct reader ext = vector(&all, 2);
		unsigned bit = type == EXT_NAME ? 1 : type == EXT_ALPN ? 2 : type == EXT_ECH ? 4 : 0;
		if (all.bad || ext.bad || seen & bit)
			return false;
		seen |= bit;
		h->ech |= type == EXT_ECH;
		if ((type == EXT_NAME && !read_name(ext, h)) || (type == EXT_ALPN && !read_alpn(ext, h)))
			return false;
	}
	return true;
}

static bool read_hello(struct reader body, struct hello *h)
{
	uint32_t version = take(&body, 2);
	inner(&body, 32); /* random */
	struct reader session = vector(&body, 1), suites = vector(&body, 2), methods = vector(&body, 1);
	if (body.bad || version >> 8 != 3 || session.n > 32 || suites.n < 2 || suites.n % 2 || methods.n < 1)
		return false;
	/* SSL 3.0 and the first TLS had none. */
	return !body.n || read_extensions(&body, h);
}

/* Puts the handshake bytes of the records together. How many there are so far, or -1. */
static ssize_t join(struct reader in, uint8_t *out, size_t room)
{
	size_t n = 0;
	while (in.n >= 5) {
		uint32_t type = take(&in, 1), version = take(&in, 2), length = take(&in, 2);
		if (type != RECORD_HANDSHAKE || version >> 8 != 3 || length == 0 || length > RECORD_MAX)
			return -1;
		size_t got = length < in.n ? length : in.n;
		if (n + got > room)
			got = room - n;
		memcpy(out + n, in.p, got);
		n += got;
		if (length > in.n || n == room)
			break;
		in = (struct reader){in.p + length, in.n - length, false};
		if (n >= 4 && n >= 4 + ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]))
			break;
	}
	return (ssize_t)n;
}

enum hello_result hello_read(struct str in, struct hello *ret)
{
	static uint8_t whole[GATE_HELLO_MAX];
	const uint8_t *p = (const uint8_t *)in.p;
	struct hello h = {0};
	if (in.n == 0)
		return HELLO_MORE;
	if (p[0] != RECORD_HANDSHAKE || (in.n > 1 && p[1] != 3))
		return HELLO_NOT_TLS;
	if (in.n < 5)
		return HELLO_MORE;
	ssize_t n = join((struct reader){p, in.n, false}, whole, sizeof whole);
	if (n < 0 || (n > 0 && whole[0] != HANDSHAKE_HELLO))
		return HELLO_BAD;
	if (n < 4)
		return HELLO_MORE;
	size_t length = (size_t)whole[1] << 16 | (size_t)whole[2] << 8 | whole[3];
	if (length > sizeof whole - 4)
		return HELLO_BAD;
	if ((size_t)n < length + 4)
		return HELLO_MORE;
	if (!read_hello((struct reader){whole + 4, length, false}, &h))
		return HELLO_BAD;
	*ret = h;
	return HELLO_DONE;
}

size_t hello_wants(struct str in)
{
	const uint8_t *p = (const uint8_t *)in.p;
	size_t end = 0;
	while (end + 5 <= in.n) {
		end += 5 + ((size_t)p[end + 3] << 8 | p[end + 4]);
		if (end > in.n)
			return end;
	}
	return in.n + 1;
}
