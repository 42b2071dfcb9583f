/*
 * hosts.h - the host names that the daemon answers for, and the proxies that it trusts about them.
 *
 * A hostile page can make a browser send requests to this daemon under any name (DNS rebinding). The Host header gives
 * such a request away. Over TCP the control plane answers for localhost, for addresses (no page of another name has an
 * address as its origin), for the preview domain itself and for the names of ATOLL_HOSTS; it refuses all other names.
 * Browsers cannot reach the unix socket, which accepts any name.
 *
 * X-Forwarded-Host and X-Forwarded-Proto count only when the connection comes from an address of ATOLL_TRUSTED_PROXIES.
 */
#pragma once

#include <netinet/in.h>

#include "base/str.h"
#include "daemon/limits.h"
#include "proto/errc.h"

struct http_exchange;
struct config;

struct host_names {
	char text[1024]; /* as it was given; checked */
	bool any;	 /* "*" */
};

/* An address or a network, as IPv6 (IPv4 mapped). */
struct host_net {
	struct in6_addr address;
	unsigned bits;
};

struct host_nets {
	struct host_net v[TRUSTED_PROXIES_MAX];
	size_t n;
};

/* "a.example, b.example" and "127.0.0.1, 10.0.0.0/8, ::1". INVALID_REQUEST names `what`. */
int host_names_read(const char *what, const char *text, struct host_names *ret, struct err *e);
int host_nets_read(const char *what, const char *text, struct host_nets *ret, struct err *e);
bool host_nets_has(const struct host_nets *nets, const struct sockaddr *sa);

bool host_names_has(const struct host_names *names, struct str name);

/* How a request came, as far as we believe it. */
struct host_origin {
	struct str host; /* with its port, as sent; p == NULL when none was */
	bool https;
	bool trusted_peer; /* the connection comes from a configured proxy */
};
struct host_origin host_origin(const struct config *c, const struct http_exchange *x);

/* The name without port, brackets and the dot that may end it. */
struct str host_name(struct str host);
/* Whether the control plane answers for it. */
bool host_allowed(const struct config *c, struct str host);
/* Whether it lies below the preview domain; *ret_label is what stands before the domain. */
bool host_is_preview(const struct config *c, struct str host, struct str *ret_label);
