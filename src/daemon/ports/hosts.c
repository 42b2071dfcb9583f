#include "daemon/ports/hosts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <sys/socket.h>

#include "daemon/config.h"
#include "daemon/limits.h"
#include "daemon/listen.h"
#include "http/server/server.h"

static bool name_ok(struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		if (!isalnum((unsigned char)name.p[i]) && !strchr(".-_", name.p[i]))
			return false;
	return name.n > 0 && name.n < 254;
}

int host_names_read(const char *what, const char *text, struct host_names *ret, struct err *e)
{
	struct str rest = str_of(text);
	size_t n = 0;
	*ret = (struct host_names){0};
	if (rest.n >= sizeof ret->text)
		return err_set(e, ERRC_INVALID_REQUEST, "%s must be shorter than %zu bytes", what, sizeof ret->text);
	memcpy(ret->text, rest.p, rest.n);
	while (rest.n) {
		struct str name = str_trim(str_split(rest, ',', &rest));
		if (str_eq_c(name, "*"))
			ret->any = true;
		else if (++n > HOSTS_MAX || !name_ok(name))
			return err_set(e, ERRC_INVALID_REQUEST,
				"%s must be up to %d host names without ports, divided by commas; it is '%s'", what,
				HOSTS_MAX, text);
	}
	return 0;
}

bool host_names_has(const struct host_names *names, struct str name)
{
	struct str rest = str_of(names->text);
	while (rest.n)
		if (str_eq_nocase(str_trim(str_split(rest, ',', &rest)), name))
			return true;
	return false;
}

static struct in6_addr mapped(struct in_addr v4)
{
	struct in6_addr a = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
	memcpy(&a.s6_addr[12], &v4, sizeof v4);
	return a;
}

/* Numeric only. */
static bool read_address(struct str text, struct in6_addr *ret, bool *ret_v4)
{
	char z[INET6_ADDRSTRLEN];
	struct in_addr v4;
	if (text.n >= sizeof z || snprintf(z, sizeof z, "%.*s", STR_ARG(text)) != (int)text.n)
		return false;
	*ret_v4 = inet_pton(AF_INET, z, &v4) == 1;
	if (*ret_v4)
		*ret = mapped(v4);
	return *ret_v4 || inet_pton(AF_INET6, z, ret) == 1;
}

static bool read_net(struct str text, struct host_net *ret)
{
	struct str bits, address = str_split(text, '/', &bits);
	uint64_t n;
	bool v4;
	if (!read_address(address, &ret->address, &v4))
		return false;
	n = v4 ? 32 : 128;
	if (address.n < text.n && !str_to_u64(bits, n, &n))
		return false;
	ret->bits = (unsigned)n + (v4 ? 96 : 0);
	return true;
}

int host_nets_read(const char *what, const char *text, struct host_nets *ret, struct err *e)
{
	struct str rest = str_of(text);
	*ret = (struct host_nets){0};
	while (rest.n) {
		struct str one = str_trim(str_split(rest, ',', &rest));
		if (ret->n >= TRUSTED_PROXIES_MAX || !read_net(one, &ret->v[ret->n]))
			return err_set(e, ERRC_INVALID_REQUEST,
				"%s must be up to %d addresses or networks, as in 127.0.0.1,10.0.0.0/8,::1; it is '%s'",
				what, TRUSTED_PROXIES_MAX, text);
		ret->n++;
	}
	return 0;
}

static bool in_net(const struct host_net *net, const struct in6_addr *a)
{
	unsigned whole = net->bits / 8, rest = net->bits % 8;
	if (memcmp(&net->address, a, whole) != 0)
		return false;
	return !rest || (net->address.s6_addr[whole] ^ a->s6_addr[whole]) >> (8 - rest) == 0;
}

bool host_nets_has(const struct host_nets *nets, const struct sockaddr *sa)
{
	struct in6_addr a;
	if (sa->sa_family == AF_INET)
		a = mapped(((const struct sockaddr_in *)sa)->sin_addr);
	else if (sa->sa_family == AF_INET6)
		a = ((const struct sockaddr_in6 *)sa)->sin6_addr;
	else
		return false;
	for (size_t i = 0; i < nets->n; i++)
		if (in_net(&nets->v[i], &a))
			return true;
	return false;
}

static bool peer_trusted(const struct config *c, const struct http_exchange *x)
{
	struct sockaddr_storage sa = {0};
	socklen_t len = sizeof sa;
	if (!c->trusted_proxies.n || http_exchange_tag(x) == LISTEN_UNIX || http_exchange_tag(x) == LISTEN_OWN)
		return false;
	return getpeername(http_exchange_fd(x), (struct sockaddr *)&sa, &len) == 0 &&
	       host_nets_has(&c->trusted_proxies, (struct sockaddr *)&sa);
}

/* The last of a list: what the proxy next to us has said. */
static struct str last_of(struct str list)
{
	struct str last = list;
	while (list.n)
		last = str_split(list, ',', &list);
	return str_trim(last);
}

struct host_origin host_origin(const struct config *c, const struct http_exchange *x)
{
	const struct http_request *q = http_request(x);
	struct host_origin o = {.host = q->host, .https = http_exchange_secure(x), .trusted_peer = peer_trusted(c, x)};
	if (!o.trusted_peer)
		return o;
	struct str host = last_of(http_header_value(&q->headers, STR("x-forwarded-host")));
	struct str proto = last_of(http_header_value(&q->headers, STR("x-forwarded-proto")));
	if (host.n)
		o.host = host;
	if (proto.n)
		o.https = str_eq_nocase(proto, STR("https"));
	return o;
}

struct str host_name(struct str host)
{
	struct str rest;
	if (host.n && host.p[0] == '[') {
		struct str name = str_split(str_skip(host, 1), ']', &rest);
		bool whole = !rest.n || rest.p[0] == ':';
		return whole ? name : host;
	}
	struct str name = str_split(host, ':', &rest);
	if (name.n > 1 && name.p[name.n - 1] == '.')
		name.n--;
	return name;
}

bool host_allowed(const struct config *c, struct str host)
{
	struct str name = host_name(host);
	struct in6_addr address;
	bool v4;
	if (!host.p || c->hosts.any || str_eq_nocase(name, STR("localhost")) || read_address(name, &address, &v4))
		return true;
	return host_names_has(&c->hosts, name) || str_eq_nocase(name, str_n(c->preview_domain, c->preview_host_n));
}

bool host_is_preview(const struct config *c, struct str host, struct str *ret_label)
{
	struct str name = host_name(host), domain = str_n(c->preview_domain, c->preview_host_n);
	if (name.n <= domain.n + 1 || name.p[name.n - domain.n - 1] != '.' ||
		!str_eq_nocase(str_skip(name, name.n - domain.n), domain))
		return false;
	if (host_names_has(&c->hosts, name))
		return false;
	*ret_label = str_n(name.p, name.n - domain.n - 1);
	return true;
}
