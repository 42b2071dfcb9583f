/*
 * Values of secrets in heads of responses: a server that shows what it was sent shows the placeholder. A value that is
 * shorter than GATE_SECRET_HIDE is left alone: it may be a word of any response, and taking it out would tell it.
 */
#include "base/base64.h"
#include "gate/secret.h"

/* What a text of a response must not show. */
struct hidden {
	struct str value;
	const struct secret *secret;
};

struct hidden_set {
	struct hidden v[2 * SECRETS_BOX_MAX];
	size_t n;
	bool first[256]; /* characters that values begin with */
};

static void add(struct hidden_set *set, const struct secret *s, struct str value)
{
	if (value.n < GATE_SECRET_HIDE)
		return;
	set->v[set->n++] = (struct hidden){value, s};
	set->first[(unsigned char)*value.p] = true;
}

static void gather(const struct secrets *s, const struct secret_way *way, struct hidden_set *ret)
{
	ret->n = 0;
	memset(ret->first, 0, sizeof ret->first);
	for (size_t i = 0; s && way->name && i < s->n; i++) {
		const struct secret *one = &s->v[i];
		if (!secret_goes_to(one, way->name, way->port))
			continue;
		add(ret, one, str_n(one->value, one->value_n));
		if (one->is_aws)
			add(ret, one, str_of(one->aws.token));
	}
}

/* The value at the beginning of the text, as it is or percent-encoded. How many bytes it takes, or 0. */
static size_t value_at(struct str text, struct str value)
{
	size_t n = 0;
	for (size_t i = 0; i < value.n; i++) {
		char c;
		size_t took = secret_read_escaped(str_skip(text, n), &c);
		if (took && c == value.p[i])
			n += took;
		else if (n < text.n && text.p[n] == value.p[i])
			n++; /* A percent sign of the value itself. */
		else
			return 0;
	}
	return n;
}

/* The longest value at the beginning of the text. */
static size_t hidden_at(const struct hidden_set *set, struct str text, const struct secret **ret)
{
	char c = *text.p;
	size_t n = 0;
	if (c == '%' && !secret_read_escaped(text, &c))
		c = '%';
	if (!set->first[(unsigned char)c] && !set->first[(unsigned char)*text.p])
		return 0;
	for (size_t i = 0; i < set->n; i++) {
		size_t took = value_at(text, set->v[i].value);
		if (took > n) {
			n = took;
			*ret = set->v[i].secret;
		}
	}
	return n;
}

static bool hide_plain(const struct hidden_set *set, struct str text, struct buf *out)
{
	const struct secret *s = NULL;
	bool hidden = false;
	while (text.n) {
		size_t n = hidden_at(set, text, &s);
		if (n)
			buf_add_c(out, s->placeholder);
		else
			buf_add_byte(out, *text.p);
		hidden |= n > 0;
		text = str_skip(text, n ? n : 1);
	}
	return hidden;
}

static bool is_base64(char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("+/=", c));
}

/* Basic credentials at the beginning of the text, when there is something to hide in them. How many bytes they take, or
 * 0. */
static size_t basic_at(const struct hidden_set *set, struct str text, struct buf *out)
{
	static const struct str scheme = STR("basic");
	auto_buf struct buf plain = {.wipe = true}, changed = {.wipe = true};
	size_t n = scheme.n;
	if (text.n < n || !str_eq_nocase(str_n(text.p, n), scheme))
		return 0;
	while (n < text.n && (text.p[n] == ' ' || text.p[n] == '\t'))
		n++;
	while (n < text.n && is_base64(text.p[n]))
		n++;
	if (!secret_decode_basic(str_n(text.p, n), &plain) || !hide_plain(set, buf_str(&plain), &changed))
		return 0;
	buf_add_c(out, "Basic ");
	base64_append(out, buf_str(&changed));
	return n;
}

bool secrets_hide(const struct secrets *s, const struct secret_way *way, struct str text, struct buf *out)
{
	struct hidden_set set;
	auto_buf struct buf with_basic = {.wipe = true};
	bool basic = false;
	gather(s, way, &set);
	for (size_t n; set.n && text.n; text = str_skip(text, n ? n : 1)) {
		n = (*text.p | 32) == 'b' ? basic_at(&set, text, &with_basic) : 0;
		if (!n)
			buf_add_byte(&with_basic, *text.p);
		basic |= n > 0;
	}
	buf_add_str(&with_basic, text);
	return hide_plain(&set, buf_str(&with_basic), out) || basic;
}
