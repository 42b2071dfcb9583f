#include <arpa/inet.h>

#include "http/client/client.h"

int http_endpoint_unix(struct http_endpoint *ret, struct str path, struct err *e)
{
	if (!path.n || path.n >= sizeof ret->un.sun_path || memchr(path.p, 0, path.n))
		return err_set(e, ERRC_INTERNAL_ERROR, "'%.*s' is no path for a unix socket", STR_ARG(path));
	*ret = (struct http_endpoint){.un = {.sun_family = AF_UNIX}};
	memcpy(ret->un.sun_path, path.p, path.n);
	ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.n + 1);
	return 0;
}

static bool parse_host(struct http_endpoint *ret, struct str host, uint16_t port)
{
	char text[64];
	bool v6 = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
	if (v6)
		host = str_n(host.p + 1, host.n - 2);
	if (str_eq(host, STR("localhost")))
		host = STR("127.0.0.1");
	if (host.n >= sizeof text)
		return false;
	memcpy(text, host.p, host.n);
	text[host.n] = 0;
	*ret = (struct http_endpoint){0};
	if (v6) {
		ret->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
		ret->len = sizeof ret->in6;
		return inet_pton(AF_INET6, text, &ret->in6.sin6_addr) == 1;
	}
	ret->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	ret->len = sizeof ret->in;
	return inet_pton(AF_INET, text, &ret->in.sin_addr) == 1;
}

int http_endpoint_tcp(struct http_endpoint *ret, struct str address, struct err *e)
{
	size_t at = address.n;
	while (at && address.p[at - 1] != ':')
		at--;
	uint64_t port;
	struct http_endpoint ep;
	if (!at || !str_to_u64(str_skip(address, at), 65535, &port) ||
		!parse_host(&ep, str_n(address.p, at - 1), (uint16_t)port))
		return err_set(
			e, ERRC_VALIDATION_FAILED, "'%.*s' is not a numeric address with a port", STR_ARG(address));
	*ret = ep;
	return 0;
}
