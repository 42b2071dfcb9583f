#include "daemon/pass/port_headers.h"
#include "http/limits.h"

/* ---- cookies ---- */

/* The console's own. The prefixes are promises of the browser about a cookie, not part of whose it is. A browser keeps
 * "=atoll_x=1" as a cookie without a name, and sends it back as "atoll_x=1". */
static bool is_console_cookie(struct str pair)
{
	static const struct str prefixes[] = {STR("__Host-"), STR("__Secure-")};
	pair = str_trim(pair);
	while (pair.n && pair.p[0] == '=')
		pair = str_trim(str_skip(pair, 1));
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (pair.n > prefixes[i].n && str_eq_nocase(str_n(pair.p, prefixes[i].n), prefixes[i])) {
			pair = str_skip(pair, prefixes[i].n);
			break;
		}
	return pair.n >= 6 && str_eq_nocase(str_n(pair.p, 6), STR("atoll_"));
}

static bool has_console_cookie(struct str cookies)
{
	while (cookies.n)
		if (is_console_cookie(str_split(cookies, ';', &cookies)))
			return true;
	return false;
}

/* False when nothing is left. */
static bool cut_cookies(struct port_headers *h, struct str *value)
{
	struct str rest = *value;
	if (!has_console_cookie(rest))
		return true;
	/* All cookies of a head fit: spans into it stay where they are. */
	if (!h->cookies.p)
		buf_room(&h->cookies, HTTP_HEAD_MAX);
	size_t from = buf_size(&h->cookies);
	while (rest.n) {
		struct str one = str_split(rest, ';', &rest);
		if (is_console_cookie(one))
			continue;
		if (buf_size(&h->cookies) > from)
			buf_add_c(&h->cookies, "; ");
		buf_add_str(&h->cookies, str_trim(one));
	}
	*value = str_skip(buf_str(&h->cookies), from);
	return value->n > 0;
}

static bool is_domain(struct str attribute)
{
	struct str value;
	return str_eq_nocase(str_trim(str_split(attribute, '=', &value)), STR("Domain"));
}

/*
 * Takes every Domain out of a Set-Cookie, so that the cookie stays with the host that has set it. Read as browsers read
 * it (RFC 6265, 5.2): quotes mean nothing, a piece ends at ';', its name at the first '='; blanks around both and case
 * do not count. The first piece is the cookie itself.
 */
static struct str cut_domain(struct str value, struct buf *made)
{
	struct str rest, first = str_split(value, ';', &rest);
	bool found = false;
	for (struct str left = rest; left.n;)
		found |= is_domain(str_split(left, ';', &left));
	if (!found)
		return value;
	buf_clear(made);
	buf_add_str(made, first);
	while (rest.n) {
		struct str one = str_split(rest, ';', &rest);
		if (is_domain(one))
			continue;
		buf_add_byte(made, ';');
		buf_add_str(made, one);
	}
	return buf_str(made);
}

/* ---- who asked ---- */

static bool is_forwarding(struct str name)
{
	static const struct str ours[] = {
		STR("Forwarded"), STR("X-Real-IP"), STR("X-Original-URL"), STR("X-Rewrite-URL")};
	static const struct str prefix = STR("X-Forwarded-");
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (str_eq_nocase(name, ours[i]))
			return true;
	return name.n > prefix.n && str_eq_nocase(str_n(name.p, prefix.n), prefix);
}

/* Between the daemon and its clients. */
static bool is_ours(struct str name)
{
	static const struct str prefix = STR("X-Atoll-");
	return name.n > prefix.n && str_eq_nocase(str_n(name.p, prefix.n), prefix);
}

/* In whatever scheme, and however it is set off: who needs no token may still have sent it along. */
static bool holds_token(const struct tokens *t, struct str value)
{
	size_t from = 0;
	for (size_t i = 0; i <= value.n; i++) {
		if (i < value.n && !memchr(" \t,;=:\"", value.p[i], 7))
			continue;
		if (i > from && tokens_has(t, str_n(value.p + from, i - from)))
			return true;
		from = i + 1;
	}
	return false;
}

bool port_headers_request(struct port_headers *h, struct str name, struct str *value)
{
	if (is_ours(name))
		return false;
	if (str_eq_nocase(name, STR("Authorization")))
		return !tokens_has(h->tokens, tokens_bearer(*value)) && !holds_token(h->tokens, *value);
	if (str_eq_nocase(name, STR("Cookie")))
		return cut_cookies(h, value);
	if (!is_forwarding(name))
		return true;
	if (!h->trusted_peer)
		return false;
	/* Continued or said anew below. */
	for (size_t i = 0; i < h->add_n; i++)
		if (str_eq_nocase(name, h->add[i].name))
			return false;
	return true;
}

bool port_headers_response(struct str name, struct str *value, struct buf *made)
{
	if (is_ours(name))
		return false;
	if (!str_eq_nocase(name, STR("Set-Cookie")))
		return true;
	if (is_console_cookie(*value))
		return false;
	*value = cut_domain(*value, made);
	return true;
}

/* The line's value begins at `from`; one that cannot be sent is left out. */
static void add_line(struct port_headers *h, struct str name, size_t from)
{
	struct str value = str_skip(buf_str(&h->lines), from);
	if (value.n && http_value_ok(value))
		h->add[h->add_n++] = (struct http_header){name, value};
}

static bool fits_in_quotes(struct str s)
{
	return !memchr(s.p, '"', s.n) && !memchr(s.p, '\\', s.n);
}

static void add_for(struct port_headers *h, const struct http_headers *request)
{
	size_t from = buf_size(&h->lines);
	for (size_t i = 0; h->trusted_peer && i < request->n; i++)
		if (str_eq_nocase(request->v[i].name, STR("X-Forwarded-For"))) {
			buf_add_str(&h->lines, request->v[i].value);
			buf_add_c(&h->lines, ", ");
		}
	buf_add_str(&h->lines, h->peer);
	if (h->peer.n)
		add_line(h, STR("X-Forwarded-For"), from);
}

static void add_forwarded(struct port_headers *h)
{
	size_t from = buf_size(&h->lines);
	bool six = h->peer.n && memchr(h->peer.p, ':', h->peer.n);
	buf_add_c(&h->lines, six ? "for=\"[" : "for=");
	buf_add_str(&h->lines, h->peer.n ? h->peer : STR("unknown"));
	buf_add_c(&h->lines, six ? "]\"" : "");
	if (h->host.n && fits_in_quotes(h->host)) {
		buf_add_c(&h->lines, ";host=\"");
		buf_add_str(&h->lines, h->host);
		buf_add_c(&h->lines, "\"");
	}
	buf_add_c(&h->lines, ";proto=");
	buf_add_c(&h->lines, h->proto);
	add_line(h, STR("Forwarded"), from);
}

static void add_text(struct port_headers *h, struct str name, struct str value)
{
	size_t from = buf_size(&h->lines);
	buf_add_str(&h->lines, value);
	add_line(h, name, from);
}

void port_headers_make(struct port_headers *h, const struct http_headers *request)
{
	/* Room for all of it: spans into it stay where they are. */
	size_t chain = h->trusted_peer ? HTTP_HEAD_MAX + 2 * HTTP_HEADERS_MAX : 0;
	buf_room(&h->lines, chain + 2 * (h->host.n + h->peer.n) + 2 * strlen(h->proto) + 64);
	add_for(h, request);
	bool has_proto = http_header_find(request, STR("X-Forwarded-Proto")) != NULL;
	bool has_host = http_header_find(request, STR("X-Forwarded-Host")) != NULL;
	if (!h->trusted_peer || !has_proto)
		add_text(h, STR("X-Forwarded-Proto"), str_of(h->proto));
	if (!h->trusted_peer || !has_host)
		add_text(h, STR("X-Forwarded-Host"), h->host);
	if (!h->trusted_peer)
		add_forwarded(h);
}

void port_headers_free(struct port_headers *h)
{
	buf_free(&h->lines);
	buf_free(&h->cookies);
}
