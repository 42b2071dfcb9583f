#include "gate/dns/dns.h"

#include <stdio.h>

enum {
	HEADER = 12,
	STEPS_MAX = 64,
	CLASS_IN = 1,
	FLAG_QR = 0x8000,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_RA = 0x0080,
	FLAG_CD = 0x0010,
	KEY_ECH = 5
};

struct cursor {
	const uint8_t *p; /* the whole message: names point back into it */
	size_t n, at;
	bool bad;
};

static uint32_t take(struct cursor *c, int bytes)
{
	uint32_t v = 0;
	if (c->n - c->at < (size_t)bytes) {
		c->bad = true;
		return 0;
	}
	for (int i = 0; i < bytes; i++)
		v = v << 8 | c->p[c->at++];
	return v;
}

/* Bytes that a name may have: those of host names, and what service and odd names use. Dots and controls inside of
 * labels are refused, so that the text form means one name only. */
static bool name_byte(uint8_t c)
{
	return c > ' ' && c < 0x7f && c != '.' && c != '\\' && c != '"';
}

static size_t add_label(const uint8_t *label, size_t n, char *text, size_t at)
{
	if (at)
		text[at++] = '.';
	for (size_t i = 0; i < n; i++) {
		uint8_t b = label[i];
		text[at++] = (char)(b >= 'A' && b <= 'Z' ? b + 'a' - 'A' : b);
	}
	text[at] = 0;
	return at;
}

/* Reads a name into text (lower case) and moves behind it. Pointers go backwards only. */
static bool take_name(struct cursor *c, char text[NET_NAME_MAX + 1], bool pointers)
{
	size_t at = c->at, out = 0, before = c->at;
	bool jumped = false;
	text[0] = 0;
	for (int steps = 0; steps < 2 * STEPS_MAX; steps++) {
		if (at >= c->n)
			return false;
		uint8_t n = c->p[at];
		if (n >= 0xc0) {
			if (!pointers || at + 1 >= c->n)
				return false;
			size_t to = (size_t)(n & 0x3f) << 8 | c->p[at + 1];
			if (to >= before)
				return false;
			c->at = jumped ? c->at : at + 2;
			jumped = true;
			at = before = to;
			continue;
		}
		if (n > 63 || at + 1 + n > c->n || out + n + 1 > NET_NAME_MAX)
			return false;
		if (n == 0) {
			c->at = jumped ? c->at : at + 1;
			return true;
		}
		for (size_t i = 1; i <= n; i++)
			if (!name_byte(c->p[at + i]))
				return false;
		out = add_label(c->p + at + 1, n, text, out);
		at += 1u + n;
	}
	return false;
}

/* A text name as labels. Its length, 0 when it does not fit. */
static size_t put_name(const char *name, uint8_t out[NET_NAME_MAX + 2])
{
	size_t at = 0;
	while (*name) {
		size_t n = strcspn(name, ".");
		if (n == 0 || n > 63 || at + n + 2 > NET_NAME_MAX + 2)
			return 0;
		out[at++] = (uint8_t)n;
		memcpy(out + at, name, n);
		at += n;
		name += n + (name[n] == '.');
	}
	out[at++] = 0;
	return at;
}

/* ---- questions ---- */

static bool read_opt(struct cursor *c, struct dns_question *q)
{
	uint32_t root = take(c, 1), type = take(c, 2), room = take(c, 2);
	take(c, 4);
	uint32_t length = take(c, 2);
	if (c->bad || root != 0 || type != DNS_OPT || c->n - c->at < length)
		return false;
	c->at += length;
	q->edns = true;
	q->room = (uint16_t)(room < 512 ? 512 : room > GATE_DNS_UDP_MAX ? GATE_DNS_UDP_MAX : room);
	return true;
}

int dns_read_question(struct str in, struct dns_question *ret)
{
	struct cursor c = {.p = (const uint8_t *)in.p, .n = in.n};
	*ret = (struct dns_question){.room = 512};
	if (in.n < HEADER)
		return -1;
	ret->id = (uint16_t)take(&c, 2);
	uint32_t flags = take(&c, 2), questions = take(&c, 2), answers = take(&c, 2), authority = take(&c, 2),
		 more = take(&c, 2);
	if (flags & FLAG_QR)
		return -1;
	ret->recursion = flags & FLAG_RD;
	ret->checking = flags & FLAG_CD;
	if (flags >> 11 & 15)
		return DNS_NOTIMP;
	if (in.n > GATE_DNS_QUERY_MAX || questions != 1 || answers || authority || more > 1)
		return DNS_FORMERR;
	if (!take_name(&c, ret->name, false))
		return DNS_FORMERR;
	ret->wire_n = c.at - HEADER;
	memcpy(ret->wire, c.p + HEADER, ret->wire_n);
	ret->type = (uint16_t)take(&c, 2);
	uint32_t rr_class = take(&c, 2);
	if (c.bad)
		return ret->wire_n = 0, DNS_FORMERR;
	if (rr_class != CLASS_IN)
		return DNS_REFUSED;
	if ((more && !read_opt(&c, ret)) || c.at != c.n)
		return DNS_FORMERR;
	return DNS_OK;
}

/* ---- records ---- */

void dns_answer_free(struct dns_answer *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i].data);
	free(a->v);
	*a = (struct dns_answer){.rcode = a->rcode};
}

bool dns_answer_add(struct dns_answer *a, const char *name, uint16_t type, uint32_t ttl, const void *data, size_t n)
{
	if (a->n >= GATE_DNS_RECORDS_MAX || n > GATE_DNS_MAX)
		return false;
	a->v = xrealloc(a->v, (a->n + 1) * sizeof *a->v);
	struct dns_record *r = &a->v[a->n++];
	*r = (struct dns_record){.type = type, .ttl = ttl > INT32_MAX ? 0 : ttl, .data_n = (uint16_t)n};
	snprintf(r->name, sizeof r->name, "%s", name);
	r->data = xmalloc(n ? n : 1);
	memcpy(r->data, data, n);
	return true;
}

bool dns_answer_add_ip(struct dns_answer *a, const char *name, const struct ip *ip, uint32_t ttl)
{
	return ip_is4(ip) ? dns_answer_add(a, name, DNS_A, ttl, ip->b + 12, 4)
			  : dns_answer_add(a, name, DNS_AAAA, ttl, ip->b, 16);
}

bool dns_answer_add_name(struct dns_answer *a, const char *name, uint16_t type, uint32_t ttl, const char *target)
{
	uint8_t wire[NET_NAME_MAX + 2];
	size_t n = put_name(target, wire);
	return n && dns_answer_add(a, name, type, ttl, wire, n);
}

bool dns_record_ip(const struct dns_record *r, struct ip *ret)
{
	if (r->type == DNS_A && r->data_n == 4)
		*ret = ip_v4((uint32_t)r->data[0] << 24 | (uint32_t)r->data[1] << 16 | (uint32_t)r->data[2] << 8 |
			     r->data[3]);
	else if (r->type == DNS_AAAA && r->data_n == 16)
		memcpy(ret->b, r->data, 16);
	else
		return false;
	return true;
}

/* How many bytes stand before the name in the data of a type; -1: the data holds no name. */
static int name_offset(uint16_t type)
{
	switch (type) {
	case DNS_NS:
	case DNS_CNAME:
	case DNS_PTR:
		return 0;
	case DNS_MX:
	case DNS_SVCB:
	case DNS_HTTPS:
		return 2;
	case DNS_SRV:
		return 6;
	default:
		return -1;
	}
}

static bool passed_on(uint16_t type)
{
	return type == DNS_A || type == DNS_AAAA || type == DNS_TXT || name_offset(type) >= 0;
}

/* Copies the data with its name uncompressed. */
static bool read_data(struct cursor *c, uint16_t type, size_t end, uint8_t *out, size_t room, size_t *ret_n)
{
	int offset = name_offset(type);
	size_t n = end - c->at, at = 0;
	if (offset < 0) {
		if (n > room)
			return false;
		memcpy(out, c->p + c->at, n);
		*ret_n = n;
		return (type != DNS_A || n == 4) && (type != DNS_AAAA || n == 16);
	}
	char name[NET_NAME_MAX + 1];
	uint8_t wire[NET_NAME_MAX + 2];
	if (n < (size_t)offset || room < n + sizeof wire)
		return false;
	memcpy(out, c->p + c->at, (size_t)offset);
	at = (size_t)offset;
	c->at += at;
	size_t name_n = 0;
	if (!take_name(c, name, true) || c->at > end || !(name_n = put_name(name, wire)))
		return false;
	memcpy(out + at, wire, name_n);
	at += name_n;
	memcpy(out + at, c->p + c->at, end - c->at);
	*ret_n = at + end - c->at;
	return true;
}

static bool read_record(struct cursor *c, struct dns_answer *a)
{
	static uint8_t data[2 * GATE_DNS_MAX];
	char name[NET_NAME_MAX + 1];
	if (!take_name(c, name, true))
		return false;
	uint32_t type = take(c, 2), rr_class = take(c, 2), ttl = take(c, 4), length = take(c, 2);
	if (c->bad || c->n - c->at < length)
		return false;
	size_t end = c->at + length, n = 0;
	if (rr_class == CLASS_IN && passed_on((uint16_t)type)) {
		if (!read_data(c, (uint16_t)type, end, data, sizeof data, &n) ||
			!dns_answer_add(a, name, (uint16_t)type, ttl, data, n))
			return false;
	}
	c->at = end;
	return true;
}

bool dns_read_answer(struct str in, struct dns_answer *ret)
{
	struct cursor c = {.p = (const uint8_t *)in.p, .n = in.n};
	struct dns_answer a = {0};
	char name[NET_NAME_MAX + 1];
	if (in.n < HEADER)
		return false;
	take(&c, 2);
	uint32_t flags = take(&c, 2), questions = take(&c, 2), answers = take(&c, 2);
	take(&c, 4);
	a.rcode = flags & 15;
	bool ok = flags & FLAG_QR && questions <= 1 && answers <= GATE_DNS_RECORDS_MAX;
	for (; ok && questions; questions--) {
		ok = take_name(&c, name, false);
		take(&c, 4);
	}
	for (; ok && !c.bad && answers; answers--)
		ok = read_record(&c, &a);
	if (!ok || c.bad) {
		dns_answer_free(&a);
		return false;
	}
	*ret = a;
	return true;
}

void dns_strip_ech(struct dns_record *r)
{
	if (r->type != DNS_HTTPS && r->type != DNS_SVCB)
		return;
	size_t at = 2;
	while (at < r->data_n && r->data[at])
		at += 1u + r->data[at];
	at++;
	while (at + 4 <= r->data_n) {
		size_t key = (size_t)r->data[at] << 8 | r->data[at + 1];
		size_t n = 4 + ((size_t)r->data[at + 2] << 8 | r->data[at + 3]);
		if (at + n > r->data_n)
			return;
		if (key != KEY_ECH) {
			at += n;
			continue;
		}
		memmove(r->data + at, r->data + at + n, r->data_n - at - n);
		r->data_n = (uint16_t)(r->data_n - n);
	}
}

/* ---- writing ---- */

struct out {
	uint8_t *p;
	size_t n, max;
	bool full;
};

static void put(struct out *o, const void *p, size_t n)
{
	if (o->full || o->max - o->n < n) {
		o->full = true;
		return;
	}
	if (n)
		memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void put_number(struct out *o, uint32_t v, int bytes)
{
	uint8_t b[4];
	for (int i = 0; i < bytes; i++)
		b[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
	put(o, b, (size_t)bytes);
}

static void put_owner(struct out *o, const struct dns_question *q, const char *name)
{
	uint8_t wire[NET_NAME_MAX + 2];
	if (strcmp(name, q->name) == 0)
		return put_number(o, 0xc000 | HEADER, 2);
	size_t n = put_name(name, wire);
	if (n)
		put(o, wire, n);
	else
		o->full = true;
}

static void put_record(struct out *o, const struct dns_question *q, const struct dns_record *r, uint32_t age)
{
	put_owner(o, q, r->name);
	put_number(o, r->type, 2);
	put_number(o, CLASS_IN, 2);
	put_number(o, r->ttl > age ? r->ttl - age : 0, 4);
	put_number(o, r->data_n, 2);
	put(o, r->data, r->data_n);
}

/* The EDNS record with an explanation; its size is reserved before the answers are written. */
static void put_opt(struct out *o, int ede, const char *text)
{
	size_t n = text ? strnlen(text, 200) : 0;
	put_number(o, 0, 1);
	put_number(o, DNS_OPT, 2);
	put_number(o, GATE_DNS_UDP_MAX, 2);
	put_number(o, 0, 4);
	put_number(o, ede ? (uint32_t)n + 6 : 0, 2);
	if (!ede)
		return;
	put_number(o, 15, 2);
	put_number(o, (uint32_t)n + 2, 2);
	put_number(o, (uint32_t)ede, 2);
	put(o, text, n);
}

size_t dns_write(const struct dns_question *q, const struct dns_answer *a, uint32_t age, const struct dns_reason *why,
	uint8_t *out, size_t max)
{
	int ede = why ? why->code : 0;
	const char *text = why ? why->text : NULL;
	struct out o = {.p = out, .max = max};
	uint32_t flags = FLAG_QR | FLAG_RA | (q->recursion ? FLAG_RD : 0) | (q->checking ? FLAG_CD : 0) | a->rcode;
	size_t opt = q->edns ? 11 + (ede ? 6 + (text ? strnlen(text, 200) : 0) : 0) : 0, count = 0;
	put_number(&o, q->id, 2);
	put_number(&o, flags, 2);
	put_number(&o, q->wire_n ? 1 : 0, 2);
	put_number(&o, 0, 4);
	put_number(&o, q->edns ? 1 : 0, 2);
	if (q->wire_n) {
		put(&o, q->wire, q->wire_n);
		put_number(&o, q->type, 2);
		put_number(&o, CLASS_IN, 2);
	}
	o.max -= opt;
	for (size_t i = 0; i < a->n && !o.full; i++) {
		size_t before = o.n;
		put_record(&o, q, &a->v[i], age);
		if (o.full)
			o.n = before;
		else
			count++;
	}
	flags |= o.full ? FLAG_TC : 0;
	o.full = false;
	o.max += opt;
	if (q->edns)
		put_opt(&o, ede, text);
	out[2] = (uint8_t)(flags >> 8);
	out[3] = (uint8_t)flags;
	out[6] = (uint8_t)(count >> 8);
	out[7] = (uint8_t)count;
	return o.n;
}

/* ---- reverse names ---- */

static bool reverse4(const char *name, struct ip *ret)
{
	unsigned v[4];
	int end = 0;
	if (sscanf(name, "%3u.%3u.%3u.%3u.in-addr.arpa%n", &v[0], &v[1], &v[2], &v[3], &end) != 4 || !end || name[end])
		return false;
	if (v[0] > 255 || v[1] > 255 || v[2] > 255 || v[3] > 255)
		return false;
	*ret = ip_v4((uint32_t)v[3] << 24 | (uint32_t)v[2] << 16 | (uint32_t)v[1] << 8 | v[0]);
	return true;
}

bool dns_reverse_ip(const char *name, struct ip *ret)
{
	static const char hex[] = "0123456789abcdef";
	struct ip ip = {{0}};
	if (reverse4(name, ret))
		return true;
	if (strlen(name) != 64 + sizeof "ip6.arpa" - 1 || strcmp(name + 64, "ip6.arpa") != 0)
		return false;
	for (int i = 0; i < 32; i++) {
		const char *digit = strchr(hex, name[2 * i]);
		if (!name[2 * i] || !digit || name[2 * i + 1] != '.')
			return false;
		int nibble = 31 - i;
		ip.b[nibble / 2] |= (uint8_t)((digit - hex) << (nibble % 2 ? 0 : 4));
	}
	*ret = ip;
	return true;
}
