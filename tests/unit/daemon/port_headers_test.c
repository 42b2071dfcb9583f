#include "daemon/pass/port_headers.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static const struct token file = {.text = "0123456789abcdef0123", .n = 20};

static const struct tokens *tokens(void)
{
	static struct tokens *made;
	if (!made)
		made = tokens_new(&file);
	return made;
}

/* What arrives of the headers, as lines. Static memory. */
static const char *pass(const char *peer, bool trusted, struct http_header *v, size_t n)
{
	static char out[8192];
	struct http_headers headers = {v, n};
	struct port_headers h = {
		.tokens = tokens(), .trusted_peer = trusted, .proto = "http", .host = STR("h:1"), .peer = str_of(peer)};
	size_t at = 0;
	out[0] = 0;
	port_headers_make(&h, &headers);
	for (size_t i = 0; i < n; i++) {
		struct str value = v[i].value;
		if (port_headers_request(&h, v[i].name, &value))
			at += (size_t)snprintf(
				out + at, sizeof out - at, "%.*s: %.*s\n", STR_ARG(v[i].name), STR_ARG(value));
	}
	for (size_t i = 0; i < h.add_n; i++)
		at += (size_t)snprintf(
			out + at, sizeof out - at, "%.*s: %.*s\n", STR_ARG(h.add[i].name), STR_ARG(h.add[i].value));
	port_headers_free(&h);
	return out;
}

#define OURS                                                                                                           \
	"X-Forwarded-For: 1.2.3.4\nX-Forwarded-Proto: http\nX-Forwarded-Host: h:1\n"                                   \
	"Forwarded: for=1.2.3.4;host=\"h:1\";proto=http\n"

TEST(who_asked_is_said_once_and_by_us)
{
	struct http_header lies[] = {{STR("x-forwarded-for"), STR("9.9.9.9")}, {STR("X-FORWARDED-PROTO"), STR("https")},
		{STR("X-Forwarded-Host"), STR("evil")}, {STR("forwarded"), STR("for=evil")},
		{STR("X-Real-Ip"), STR("9.9.9.9")}, {STR("X-Forwarded-"), STR("kept")},
		{STR("X-Forwarded-Anything"), STR("x")}, {STR("X-Atoll-Host"), STR("x")}};
	CHECK_CSTR(pass("1.2.3.4", false, NULL, 0), OURS);
	CHECK_CSTR(pass("1.2.3.4", false, lies, ARRAY_LEN(lies)), "X-Forwarded-: kept\n" OURS);
	CHECK_CSTR(pass("::1", false, NULL, 0), "X-Forwarded-For: ::1\nX-Forwarded-Proto: http\nX-Forwarded-Host: h:1\n"
						"Forwarded: for=\"[::1]\";host=\"h:1\";proto=http\n");
	/* By a unix socket. */
	CHECK_CSTR(pass("", false, NULL, 0),
		"X-Forwarded-Proto: http\nX-Forwarded-Host: h:1\nForwarded: for=unknown;host=\"h:1\";proto=http\n");
}

TEST(a_trusted_proxy_is_believed_and_continued)
{
	struct http_header said[] = {{STR("X-Forwarded-For"), STR("9.9.9.9, 8.8.8.8")},
		{STR("X-Forwarded-For"), STR("7.7.7.7")}, {STR("X-Forwarded-Proto"), STR("https")},
		{STR("X-Forwarded-Host"), STR("outside")}, {STR("X-Real-IP"), STR("9.9.9.9")},
		{STR("Forwarded"), STR("for=9.9.9.9")}};
	CHECK_CSTR(pass("1.2.3.4", true, said, ARRAY_LEN(said)),
		"X-Forwarded-Proto: https\nX-Forwarded-Host: outside\nX-Real-IP: 9.9.9.9\nForwarded: for=9.9.9.9\n"
		"X-Forwarded-For: 9.9.9.9, 8.8.8.8, 7.7.7.7, 1.2.3.4\n");
	CHECK_CSTR(pass("1.2.3.4", true, NULL, 0),
		"X-Forwarded-For: 1.2.3.4\nX-Forwarded-Proto: http\nX-Forwarded-Host: h:1\n");
}

TEST(credentials_of_the_daemon_do_not_pass)
{
	static const struct {
		const char *name, *value, *left;
	} cases[] = {
		{"Authorization", "Bearer 0123456789abcdef0123", NULL},
		{"authorization", "bearer  0123456789abcdef0123", NULL},
		{"Authorization", "Bearer\t0123456789abcdef0123", NULL},
		{"Authorization", "0123456789abcdef0123", NULL},
		{"Authorization", "Token token=\"0123456789abcdef0123\"", NULL},
		{"Authorization", "Digest x, y=0123456789abcdef0123", NULL},
		{"Authorization", "Bearer 0123456789abcdef0124", "Bearer 0123456789abcdef0124"},
		{"Authorization", "Bearer 0123456789abcdef01234", "Bearer 0123456789abcdef01234"},
		{"Authorization", "Basic eDp5", "Basic eDp5"},
		{"Cookie", "a=1", "a=1"},
		{"Cookie", "a=1; atoll_s=2", "a=1"},
		{"cookie", "atoll_s=2; a=1;b=2", "a=1; b=2"},
		{"Cookie", " atoll_s=2;__Host-ATOLL_x=3;__secure-atoll_y", NULL},
		{"Cookie", "atoll=1; x=atoll_s; __Host-a=2", "atoll=1; x=atoll_s; __Host-a=2"},
		{"Cookie", "a=\"x; atoll_s=2\"", "a=\"x"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct http_header h = {str_of(cases[i].name), str_of(cases[i].value)};
		char want[512];
		snprintf(want, sizeof want, cases[i].left ? "%s: %s\n%s" : "%.0s%.0s%s", cases[i].name,
			cases[i].left ? cases[i].left : "", OURS);
		CHECK_CSTR(pass("1.2.3.4", false, &h, 1), want);
	}
}

TEST(many_cookies_keep_their_own_bytes)
{
	static char long_cookie[8000];
	memset(long_cookie, 'c', sizeof long_cookie - 1);
	memcpy(long_cookie, "atoll_x=1; c=", 13);
	struct http_header v[] = {{STR("Cookie"), STR("a=1; atoll_x=1")}, {STR("Cookie"), str_of(long_cookie)},
		{STR("Cookie"), STR("atoll_y=2; d=4")}};
	struct port_headers h = {.tokens = tokens(), .proto = "http"};
	struct str left[3];
	for (size_t i = 0; i < 3; i++) {
		left[i] = v[i].value;
		CHECK(port_headers_request(&h, v[i].name, &left[i]));
	}
	CHECK_STR(left[0], "a=1");
	CHECK_STR(left[1], long_cookie + 11);
	CHECK_STR(left[2], "d=4");
	port_headers_free(&h);
}

/* What a client gets of the header, NULL when nothing. Static memory. */
static const char *answer(const char *name, const char *value)
{
	static char out[512];
	struct buf made = {0};
	struct str v = str_of(value);
	bool passes = port_headers_response(str_of(name), &v, &made);
	snprintf(out, sizeof out, "%.*s", STR_ARG(v));
	buf_free(&made);
	return passes ? out : NULL;
}

TEST(an_app_sets_no_cookie_of_the_console)
{
	CHECK_CSTR(answer("Set-Cookie", "a=1; Path=/"), "a=1; Path=/");
	CHECK_CSTR(answer("Set-Cookie", "x_atoll_=1"), "x_atoll_=1");
	CHECK(!answer("set-cookie", "atoll_session=1; Path=/"));
	CHECK(!answer("Set-Cookie", "__Host-atoll_session=1"));
	CHECK(!answer("Set-Cookie", "=atoll_session=1"));
	CHECK(!answer("Set-Cookie", " = = __Secure-atoll_session=1"));
	CHECK_CSTR(answer("X-Other", "atoll_session=1; Domain=x"), "atoll_session=1; Domain=x");
}

TEST(cookies_of_an_app_stay_with_its_host)
{
	static const struct {
		const char *set, *left;
	} cases[] = {
		{"a=1", "a=1"},
		{"a=1;", "a=1;"},
		{"a=1; Path=/; Secure", "a=1; Path=/; Secure"},
		{"a=1; Domain=example.org", "a=1"},
		{"a=1; Path=/; Domain=example.org; Secure", "a=1; Path=/; Secure"},
		{"a=1;domain=.example.org;Path=/", "a=1;Path=/"},
		{"a=1; DOMAIN \t = example.org; HttpOnly", "a=1; HttpOnly"},
		{"a=1; Domain", "a=1"},
		{"a=1; Domain=", "a=1"},
		{"a=1; Domain=\"example.org\"", "a=1"},
		{"a=1; Domain=a.example; domain=b.example; dOmAiN=", "a=1"},
		{"a=1;;; Domain=x;; Path=/", "a=1;;;; Path=/"},
		{"__Host-a=1; Secure; Path=/; Domain=x", "__Host-a=1; Secure; Path=/"},
		{"__Secure-a=1; Secure; Domain=x", "__Secure-a=1; Secure"},
		/* Quotes hide nothing from a browser. */
		{"a=\"1; Domain=x; \"", "a=\"1; \""},
		{"a=1; Path=\"; Domain=x\"", "a=1; Path=\""},
		/* These are not the attribute. */
		{"Domain=example.org", "Domain=example.org"},
		{"domain=1; Path=/domain=2", "domain=1; Path=/domain=2"},
		{"a=Domain=x; Subdomain=x; Domains=x; X-Domain=x", "a=Domain=x; Subdomain=x; Domains=x; X-Domain=x"},
		{"", ""},
		{"; Domain=x", ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CHECK_CSTR(answer("Set-Cookie", cases[i].set), cases[i].left);
		CHECK_CSTR(answer("set-cookie", cases[i].set), cases[i].left);
	}
}

TEST_MAIN()
