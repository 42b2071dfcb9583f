#include "gate/egress.h"

#include <stdio.h>
#include <string.h>

#include "http/http.h"

static int bad(struct err *e, const char *why)
{
	return err_set(e, ERRC_INVALID_REQUEST,
		"ATOLL_EGRESS_PROXY must be http://, httph://, socks5:// or socks5h://[user:password@]host:port: %s",
		why);
}

static bool copy_word(struct str from, char *to)
{
	auto_buf struct buf out = {0};
	if (http_percent_decode(from, &out, NULL) < 0 || buf_size(&out) > EGRESS_WORD_MAX)
		return false;
	memcpy(to, buf_str(&out).p, buf_size(&out));
	to[buf_size(&out)] = 0;
	return true;
}

static int read_user(struct str text, struct egress *r, struct err *e)
{
	struct str password, user = str_split(text, ':', &password);
	if (!user.n || !copy_word(user, r->user) || !copy_word(password, r->password))
		return bad(e, "its user or password cannot be read");
	/* Basic credentials are divided by the first colon. */
	if (strchr(r->user, ':') || strpbrk(r->user, "\r\n") || strpbrk(r->password, "\r\n"))
		return bad(e, "its user has a colon, or a line ends in it");
	r->has_user = true;
	return 0;
}

/* "host:port", "[2001:db8::1]:port" */
static int read_place(struct str text, struct egress *r, struct err *e)
{
	uint64_t port = 0;
	struct ip ip;
	char address[IP_TEXT];
	bool six = text.n && text.p[0] == '[';
	struct str rest = STR_NULL, host = six ? str_split(str_skip(text, 1), ']', &rest) : str_split(text, ':', &rest);
	if (six && rest.n && rest.p[0] == ':')
		rest = str_skip(rest, 1);
	if (!rest.n || !str_to_u64(rest, 65535, &port) || !port)
		return bad(e, "it has no port");
	r->port = (uint16_t)port;
	if (ip_parse(host, &ip))
		snprintf(r->host, sizeof r->host, "%s", ip_format(&ip, address));
	else if (six || !rule_name(host, r->host))
		return bad(e, "its host is neither a name nor an address");
	return 0;
}

int egress_parse(const char *text, struct egress *ret, struct err *e)
{
	static const struct {
		const char *scheme;
		enum egress_kind kind;
		bool names;
	} kinds[] = {{"http://", EGRESS_HTTP, false}, {"httph://", EGRESS_HTTP, true},
		{"socks5://", EGRESS_SOCKS5, false}, {"socks5h://", EGRESS_SOCKS5, true}};
	struct egress r = {0};
	struct str s = str_of(text ? text : "");
	for (size_t i = 0; i < ARRAY_LEN(kinds) && !r.kind; i++)
		if (str_starts(s, str_of(kinds[i].scheme))) {
			r.kind = kinds[i].kind;
			r.names = kinds[i].names;
			s = str_skip(s, strlen(kinds[i].scheme));
		}
	*ret = r;
	if (!text || !*text)
		return 0;
	if (!r.kind)
		return bad(e, "its scheme is another");
	if (s.n && s.p[s.n - 1] == '/')
		s.n--;
	ssize_t at = -1;
	for (size_t i = 0; i < s.n; i++)
		at = s.p[i] == '@' ? (ssize_t)i : at;
	if (at >= 0 && read_user(str_n(s.p, (size_t)at), &r, e) < 0)
		return -1;
	if (read_place(str_skip(s, (size_t)(at + 1)), &r, e) < 0)
		return -1;
	*ret = r;
	return 0;
}
