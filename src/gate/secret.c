#include "gate/secret.h"

#include <stdio.h>

#include "base/base64.h"

/* ---- where ---- */

/* A host without a port means TLS on 443. */
bool secret_goes_to(const struct secret *s, const char *name, uint16_t port)
{
	for (size_t i = 0; i < s->hosts_n; i++) {
		const struct rule *r = &s->hosts[i];
		if (rule_matches_name(r, name) && (r->any_port || port == (r->port ? r->port : 443)))
			return true;
	}
	return false;
}

bool secrets_want(const struct secrets *s, const char *name, uint16_t port)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (secret_goes_to(&s->v[i], name, port))
			return true;
	return false;
}

/* ---- finding ---- */

/* A placeholder in a text. */
struct place {
	struct secret *secret;
	size_t at, n;
};

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *p = c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 32 : c) : NULL;
	return p ? (int)(p - digits) : -1;
}

size_t secret_read_escaped(struct str text, char *ret)
{
	int high, low;
	if (!text.n)
		return 0;
	*ret = *text.p;
	if (*text.p != '%')
		return 1;
	if (text.n < 3 || (high = hex_digit(text.p[1])) < 0 || (low = hex_digit(text.p[2])) < 0)
		return 0;
	*ret = (char)(high << 4 | low);
	return 3;
}

/* What begins like a placeholder, without its escapes. How many bytes it takes, or 0. */
static size_t read_place(struct str text, char ret[SECRET_PLACEHOLDER])
{
	static const char prefix[] = SECRET_PREFIX;
	size_t n = 0;
	for (size_t i = 0; i < SECRET_PLACEHOLDER; i++) {
		size_t took = secret_read_escaped(str_skip(text, n), &ret[i]);
		if (!took || (i < sizeof prefix - 1 && ret[i] != prefix[i]))
			return 0;
		n += took;
	}
	return n;
}

/* The next placeholder of a secret at or behind `at`. `target`: as servers read targets, where %5f is an underscore. */
static bool next_place(const struct secrets *s, struct str text, bool target, size_t at, struct place *ret)
{
	for (; s && at + SECRET_PLACEHOLDER <= text.n; at++) {
		char read[SECRET_PLACEHOLDER];
		if (!target) {
			const char *p = memmem(text.p + at, text.n - at, SECRET_PREFIX, sizeof SECRET_PREFIX - 1);
			at = p ? (size_t)(p - text.p) : text.n;
		}
		size_t n = read_place(str_skip(text, at), read);
		for (size_t i = 0; n && (target || n == sizeof read) && i < s->n; i++)
			if (memcmp(read, s->v[i].placeholder, sizeof read) == 0) {
				*ret = (struct place){&s->v[i], at, n};
				return true;
			}
	}
	return false;
}

struct secret *secrets_find(const struct secrets *s, struct str text)
{
	struct place found;
	return next_place(s, text, false, 0, &found) ? found.secret : NULL;
}

struct secret *secrets_in_target(const struct secrets *s, struct str target)
{
	struct place found;
	return next_place(s, target, true, 0, &found) ? found.secret : NULL;
}

bool secret_decode_basic(struct str value, struct buf *out)
{
	static const struct str scheme = STR("basic");
	struct base64_decoder d = {0};
	struct str rest = str_skip(value, scheme.n), text = str_trim(rest);
	if (rest.p == text.p || !str_eq_nocase(str_n(value.p, scheme.n), scheme) || !base64_decode(&d, text, out))
		return false;
	return base64_finish(&d) || base64_decode(&d, d.have == 2 ? STR("==") : STR("="), out);
}

struct secret *secrets_in_value(const struct secrets *s, struct str value)
{
	auto_buf struct buf plain = {0};
	struct secret *found = secrets_find(s, value);
	return !found && secret_decode_basic(value, &plain) ? secrets_find(s, buf_str(&plain)) : found;
}

struct secret *secrets_in_head(const struct secrets *s, struct str head)
{
	struct secret *found = secrets_in_target(s, head);
	while (head.n && !found) {
		struct str value, line = str_split(head, '\n', &head);
		if (line.n && line.p[line.n - 1] == '\r')
			line.n--;
		str_split(line, ':', &value);
		found = secrets_in_value(s, str_trim(value));
	}
	return found;
}

/* ---- places ---- */

static bool goes(const struct secret *s, const struct secret_way *way)
{
	return way->name && secret_goes_to(s, way->name, way->port);
}

static bool may_stand_in_header(const struct secret *s, struct str header)
{
	bool ok = s->anywhere;
	for (size_t i = 0; i < s->in_n && !ok; i++)
		ok = s->in[i].kind == SECRET_IN_HEADER && str_eq_nocase(header, s->in[i].name);
	return ok;
}

/* Where in a target something stands: the name of its parameter, as it is written. */
struct spot {
	bool path;
	struct str parameter; /* n == 0: in none, or in one of which servers differ on where it begins */
};

/* Some servers take a semicolon for an ampersand: behind one the parameter would be another one for them. */
static struct spot spot_of(struct str target, size_t at)
{
	struct str query, path = str_split(target, '?', &query), value;
	if (at <= path.n)
		return (struct spot){.path = true};
	size_t from = at;
	while (from > path.n + 1 && target.p[from - 1] != '&')
		from--;
	struct str piece = str_n(target.p + from, at - from), name = str_split(piece, '=', &value);
	bool clear = name.n < piece.n && !memchr(piece.p, ';', piece.n);
	return (struct spot){.parameter = clear ? name : STR_NULL};
}

/* As servers read the names of parameters, where a plus is a blank. */
static bool is_named(struct str written, struct str name)
{
	size_t i = 0;
	for (; written.n && i < name.n; i++) {
		char c;
		size_t took = secret_read_escaped(written, &c);
		c = *written.p == '+' ? ' ' : c;
		if (!took || c != name.p[i])
			return false;
		written = str_skip(written, took);
	}
	return !written.n && i == name.n;
}

static bool may_stand_at(const struct secret *s, const struct spot *spot)
{
	bool ok = s->anywhere;
	for (size_t i = 0; i < s->in_n && !ok; i++) {
		const struct secret_in *in = &s->in[i];
		ok = (in->kind == SECRET_IN_PATH && spot->path) ||
		     (in->kind == SECRET_IN_QUERY && is_named(spot->parameter, in->name));
	}
	return ok;
}

/* ---- misplaced ---- */

/* The member of `in` that would allow it, if it can be shown whole. */
static struct secret_fault fault_at(const struct secret *s, const char *kind, struct str name)
{
	struct secret_fault f = {.secret = s};
	struct secret_in in;
	int n = snprintf(f.member, sizeof f.member, "%s%.*s", kind,
		(int)(name.n < sizeof f.member ? name.n : sizeof f.member), name.p);
	bool odd = (size_t)n >= sizeof f.member || !secret_in_parse(str_of(f.member), &in);
	if (odd || strpbrk(f.member, "\"\\%+"))
		*f.member = 0;
	return f;
}

static struct secret_fault misplaced_in_target(const struct secrets *s, struct str target, const struct secret_way *way)
{
	struct place found = {0};
	for (size_t at = 0; next_place(s, target, true, at, &found); at = found.at + found.n) {
		const struct secret *one = found.secret;
		struct spot spot = spot_of(target, found.at);
		/* Of a presigned request: the signature takes its place. */
		bool signs = one->is_aws && is_named(spot.parameter, STR("X-Amz-Credential"));
		if (!goes(one, way))
			return (struct secret_fault){.secret = one};
		if (!signs && !may_stand_at(one, &spot))
			return fault_at(one, spot.path ? "path" : "query:", spot.parameter);
	}
	return (struct secret_fault){0};
}

/* What the gate writes into the header takes the placeholder's place. */
static bool is_replaced(const struct secret *s, const struct http_header *h)
{
	return (s->header && str_eq_nocase(h->name, str_of(s->header))) ||
	       (s->is_aws && str_eq_nocase(h->name, STR("Authorization")) && str_starts(h->value, STR("AWS4-")));
}

static struct secret_fault misplaced_in_text(
	const struct secrets *s, const struct http_header *h, struct str text, const struct secret_way *way)
{
	struct place found = {0};
	for (size_t at = 0; next_place(s, text, false, at, &found); at = found.at + found.n) {
		if (!goes(found.secret, way))
			return (struct secret_fault){.secret = found.secret};
		if (!is_replaced(found.secret, h) && !may_stand_in_header(found.secret, h->name))
			return fault_at(found.secret, "header:", h->name);
	}
	return (struct secret_fault){0};
}

static struct secret_fault misplaced_in_header(
	const struct secrets *s, const struct http_header *h, const struct secret_way *way)
{
	auto_buf struct buf plain = {0};
	/* A name is nowhere to put a value. */
	struct secret_fault f = {.secret = secrets_find(s, h->name)};
	if (!f.secret)
		f = misplaced_in_text(s, h, h->value, way);
	if (!f.secret && secret_decode_basic(h->value, &plain))
		f = misplaced_in_text(s, h, buf_str(&plain), way);
	return f;
}

struct secret_fault secrets_misplaced(
	const struct secrets *s, const struct http_request *rq, const struct secret_way *way)
{
	if (!s)
		return (struct secret_fault){0};
	struct secret_fault f = misplaced_in_target(s, rq->target, way);
	if (!f.secret)
		f.secret = secrets_find(s, rq->host);
	for (size_t i = 0; i < rq->headers.n && !f.secret; i++)
		f = misplaced_in_header(s, &rq->headers.v[i], way);
	return f;
}

/* ---- replacing ---- */

static void put_escaped(struct buf *out, struct str value)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];
		bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("-_.~", c));
		if (plain) {
			buf_add_byte(out, (char)c);
			continue;
		}
		buf_add_byte(out, '%');
		buf_add_byte(out, digits[c >> 4]);
		buf_add_byte(out, digits[c & 15]);
	}
}

/* `header` is the one that it is the value of; n == 0: a target. */
static bool may_put(const struct secret *s, const struct secret_way *way, struct str header, struct str text, size_t at)
{
	if (!goes(s, way))
		return false;
	if (header.n)
		return may_stand_in_header(s, header);
	struct spot spot = spot_of(text, at);
	return may_stand_at(s, &spot);
}

static bool put_replaced(const struct secret_writer *w, struct str header, struct str text, struct buf *out)
{
	size_t from = 0, at = 0;
	struct place found = {0};
	for (; next_place(w->secrets, text, !header.n, at, &found); at = found.at + found.n) {
		const struct secret *s = found.secret;
		if (!may_put(s, &w->way, header, text, found.at))
			continue;
		buf_add(out, text.p + from, found.at - from);
		if (header.n)
			buf_add(out, s->value, s->value_n);
		else
			put_escaped(out, str_n(s->value, s->value_n));
		from = found.at + found.n;
		w->used(w->arg, found.secret);
	}
	buf_add(out, text.p + from, text.n - from);
	return from > 0;
}

bool secret_put_target(const struct secret_writer *w, struct str target, struct buf *out)
{
	return put_replaced(w, STR_NULL, target, out);
}

bool secret_put_value(const struct secret_writer *w, const struct http_header *h, struct buf *out)
{
	auto_buf struct buf plain = {0}, changed = {.wipe = true};
	bool basic = secret_decode_basic(h->value, &plain) && put_replaced(w, h->name, buf_str(&plain), &changed);
	if (basic) {
		buf_add_c(out, "Basic ");
		base64_append(out, buf_str(&changed));
	}
	return basic || put_replaced(w, h->name, h->value, out);
}

void secret_put_header(const struct secret *s, struct buf *out)
{
	const char *place = strstr(s->header_value, "{}");
	if (!place) {
		buf_add(out, s->value, s->value_n);
		return;
	}
	buf_add(out, s->header_value, (size_t)(place - s->header_value));
	buf_add(out, s->value, s->value_n);
	buf_add_c(out, place + 2);
}
