#include "proto/rule.h"

#include <stdio.h>

enum { LABEL_MAX = 63 };

static int bad(struct str text, struct err *e, const char *why)
{
	int n = text.n > 80 ? 80 : (int)text.n;
	return err_set(e, ERRC_VALIDATION_FAILED, "the rule '%.*s%s' cannot be read: %s", n, text.p,
		text.n > 80 ? "…" : "", why);
}

static bool label_ok(const char *p, size_t n)
{
	return n >= 1 && n <= LABEL_MAX && p[0] != '-' && p[n - 1] != '-';
}

static bool all_digits(const char *p)
{
	return *p && strspn(p, "0123456789") == strlen(p);
}

bool rule_name(struct str text, char ret[NET_NAME_MAX + 1])
{
	if (text.n && text.p[text.n - 1] == '.')
		text.n--;
	if (text.n == 0 || text.n > NET_NAME_MAX)
		return false;
	size_t label = 0;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		c = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
		bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
		if (!letter && c != '.')
			return false;
		if (c == '.' && !label_ok(ret + label, i - label))
			return false;
		if (c == '.')
			label = i + 1;
		ret[i] = c;
	}
	ret[text.n] = 0;
	/* A last label of digits is an address in some spelling (10.1, 010.0.0.1, 2130706433), never a name. */
	return label_ok(ret + label, text.n - label) && !all_digits(ret + label) &&
	       !(strncmp(ret + label, "0x", 2) == 0 &&
		       strspn(ret + label + 2, "0123456789abcdef") == strlen(ret + label + 2));
}

/* ":443" or ":*" behind the host. */
static int read_port(struct str whole, struct str port, struct rule *r, struct err *e)
{
	uint64_t n;
	if (str_eq_c(port, "*")) {
		r->any_port = true;
		return 0;
	}
	if (!str_to_u64(port, 65535, &n) || n == 0)
		return bad(whole, e, "the port must be a number from 1 to 65535, or *");
	r->port = (uint16_t)n;
	return 0;
}

static bool zero_past(const struct ip *ip, int bits)
{
	for (int i = bits; i < IP_BITS; i++)
		if (ip->b[i / 8] >> (7 - i % 8) & 1)
			return false;
	return true;
}

static int read_range(struct str whole, struct str text, struct rule *r, struct err *e)
{
	struct str length, addr = str_split(text, '/', &length);
	uint64_t n = 0;
	if (!ip_parse(addr, &r->range))
		return bad(whole, e, "this is not an address");
	bool four = ip_is4(&r->range) && str_index(addr, ':') < 0;
	bool has_length = addr.n != text.n;
	if (has_length && !str_to_u64(length, four ? 32 : 128, &n))
		return bad(whole, e,
			four ? "the length behind / must be 0 to 32" : "the length behind / must be 0 to 128");
	r->kind = RULE_RANGE;
	r->bits = !has_length ? IP_BITS : four ? (int)n + IP4_SHIFT : (int)n;
	return zero_past(&r->range, r->bits) ? 0 : bad(whole, e, "the address has bits behind the length of its range");
}

static int read_name(struct str whole, struct str text, struct rule *r, struct err *e)
{
	r->kind = RULE_NAME;
	if (str_eq_c(text, "*")) {
		r->below = true;
		return 0;
	}
	if (str_starts(text, STR("*."))) {
		r->below = true;
		text = str_skip(text, 2);
	}
	if (str_index(text, '*') >= 0)
		return bad(whole, e, "* may stand alone, or as the first label");
	if (str_index(text, '/') >= 0)
		return bad(whole, e, "a rule is a host name or an address range, not a URL");
	for (size_t i = 0; i < text.n; i++)
		if ((unsigned char)text.p[i] >= 0x80)
			return bad(whole, e, "write international names in their ASCII form (xn--…)");
	return rule_name(text, r->name) ? 0 : bad(whole, e, "this is neither a host name nor an address");
}

/* Splits off the port. An IPv6 address has colons of its own: with a port it stands in brackets. */
static int split_port(struct str whole, struct str *host, struct rule *r, struct err *e)
{
	struct str rest;
	if (str_starts(*host, STR("["))) {
		struct str inner = str_split(str_skip(*host, 1), ']', &rest);
		if (inner.n + 2 > host->n)
			return bad(whole, e, "] is missing");
		*host = inner;
		if (str_index(inner, ':') < 0)
			return bad(whole, e, "only an IPv6 address may stand in brackets");
		if (rest.n == 0)
			return 0;
		return rest.p[0] == ':' ? read_port(whole, str_skip(rest, 1), r, e)
					: bad(whole, e, "a port begins with :");
	}
	ssize_t colon = str_index(*host, ':');
	if (colon < 0 || str_index(str_skip(*host, (size_t)colon + 1), ':') >= 0)
		return 0;
	rest = str_skip(*host, (size_t)colon + 1);
	host->n = (size_t)colon;
	return read_port(whole, rest, r, e);
}

int rule_parse(struct str text, struct rule *ret, struct err *e)
{
	struct rule r = {0};
	struct str host = text;
	if (text.n == 0 || text.n > NET_RULE_MAX)
		return bad(text, e, "a rule has 1 to 320 characters");
	if (memchr(text.p, 0, text.n) || !str_is_utf8(text))
		return bad(STR(""), e, "it holds bytes that are no text");
	snprintf(r.text, sizeof r.text, "%.*s", STR_ARG(text));
	if (str_starts(host, STR("udp://"))) {
		r.udp = true;
		host = str_skip(host, 6);
	}
	if (memmem(host.p, host.n, "://", 3))
		return bad(text, e, "the only scheme that a rule may have is udp://");
	if (split_port(text, &host, &r, e) < 0)
		return -1;
	struct str rest;
	struct ip probe;
	bool range = ip_parse(str_split(host, '/', &rest), &probe);
	if ((range ? read_range(text, host, &r, e) : read_name(text, host, &r, e)) < 0)
		return -1;
	if (r.udp && !r.port && !r.any_port)
		return bad(text, e, "a udp rule needs a port, as in udp://time.example.org:123");
	*ret = r;
	return 0;
}

bool rule_matches_name(const struct rule *r, const char *name)
{
	if (r->kind != RULE_NAME)
		return false;
	if (!r->below)
		return strcmp(r->name, name) == 0;
	size_t n = strlen(name), suffix = strlen(r->name);
	return !suffix || (n > suffix + 1 && name[n - suffix - 1] == '.' && strcmp(name + n - suffix, r->name) == 0);
}

bool rule_matches_ip(const struct rule *r, const struct ip *ip)
{
	return r->kind == RULE_RANGE && ip_in(ip, &r->range, r->bits);
}
