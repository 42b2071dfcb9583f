#include "proto/secret_in.h"

#include "base/base.h"

const char *const secret_in_usual[] = {"header:Authorization", "header:Proxy-Authorization", "header:X-Api-Key",
	"header:Api-Key", "header:Private-Token", "header:X-Goog-Api-Key"};
const size_t secret_in_usual_n = ARRAY_LEN(secret_in_usual);

static bool is_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool word = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
		if (!word && !(c && strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return s.n > 0;
}

/* Routing and framing: the gate writes these itself. */
static bool is_framing(struct str name)
{
	static const struct str own[] = {STR("Host"), STR("Content-Length"), STR("Transfer-Encoding"),
		STR("Connection"), STR("Upgrade"), STR("Expect"), STR("TE"), STR("Trailer")};
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_eq_nocase(name, own[i]))
			return true;
	return false;
}

static bool is_printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	return s.n > 0;
}

bool secret_in_parse(struct str text, struct secret_in *ret)
{
	static const struct str header = STR("header:"), query = STR("query:");
	struct secret_in in = {.kind = SECRET_IN_PATH};
	bool ok = str_eq_c(text, "path");
	if (str_starts(text, header)) {
		in = (struct secret_in){SECRET_IN_HEADER, str_skip(text, header.n)};
		ok = is_token(in.name) && !is_framing(in.name);
	} else if (str_starts(text, query)) {
		in = (struct secret_in){SECRET_IN_QUERY, str_skip(text, query.n)};
		ok = is_printable(in.name);
	}
	if (!ok || text.n > SECRET_IN_TEXT_MAX)
		return false;
	*ret = in;
	return true;
}
