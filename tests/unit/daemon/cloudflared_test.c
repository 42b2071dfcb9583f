/* The URL in the output of cloudflared. */
#include <stdio.h>
#include <string.h>

#include "daemon/limits.h"
#include "daemon/ports/cloudflared.h"
#include "test.h"

static const char *found(const char *said)
{
	static char copy[TUNNEL_URL_MAX + 1];
	struct str url;
	if (!cloudflared_url(str_of(said), &url))
		return "";
	if (url.n > TUNNEL_URL_MAX)
		test_fail(__FILE__, __LINE__, "a URL of %zu bytes", url.n);
	memcpy(copy, url.p, url.n);
	copy[url.n] = '\0';
	return copy;
}

TEST(the_url_stands_in_a_frame_or_alone)
{
	CHECK_CSTR(found("2024-05-01T10:00:00Z INF |  https://a-b-9.trycloudflare.com      |\n"),
		"https://a-b-9.trycloudflare.com");
	CHECK_CSTR(found("https://a.trycloudflare.com\n"), "https://a.trycloudflare.com");
	CHECK_CSTR(
		found("x https://api.trycloudflare.com \nhttps://b.trycloudflare.com|"), "https://b.trycloudflare.com");
}

TEST(an_unfinished_url_is_none)
{
	CHECK_CSTR(found(""), "");
	CHECK_CSTR(found("https://"), "");
	CHECK_CSTR(found("https://a.trycloudflare.co"), "");
	CHECK_CSTR(found("https://a.trycloudflare.com"), "");
}

TEST(other_urls_are_none)
{
	CHECK_CSTR(found(" https://.trycloudflare.com "), "");
	CHECK_CSTR(found(" https://api.trycloudflare.com "), "");
	CHECK_CSTR(found(" Post \"https://a.trycloudflare.com/tunnel\": "), "");
	CHECK_CSTR(found(" https://a.trycloudflare.com.example.org "), "");
	CHECK_CSTR(found(" https://a.b.trycloudflare.com "), "");
	CHECK_CSTR(found(" https://user@a.trycloudflare.com "), "");
	CHECK_CSTR(found(" https://A.trycloudflare.com "), "");
	CHECK_CSTR(found(" http://a.trycloudflare.com "), "");
	CHECK_CSTR(found("xhttps://a.trycloudflare.com "), "");
}

TEST(a_label_has_63_characters)
{
	char label[TUNNEL_LABEL_MAX + 2] = "", said[128];
	memset(label, 'a', TUNNEL_LABEL_MAX);
	snprintf(said, sizeof said, " https://%s.trycloudflare.com ", label);
	CHECK_INT(strlen(found(said)), strlen(said) - 2);
	label[TUNNEL_LABEL_MAX] = 'a';
	snprintf(said, sizeof said, " https://%s.trycloudflare.com ", label);
	CHECK_CSTR(found(said), "");
}

TEST_MAIN()
