/*
 * hook.h - outbound handlers of one sandbox: requests that a program outside answers in the place of a server.
 *
 * atolld tells which hosts (GATE_HOOKS_MAX patterns for HTTP, as many for HTTPS): a name, a pattern with '*',
 * "name:port", or "address:port". Such a request is handed to atolld over its hook socket ($ATOLL_RUN/hook.sock), as
 * HTTP, with the sandbox and the URL in headers; atolld hands it to whoever holds the sandbox's hook. The policy does
 * not decide it, the handler does; only mode off is stronger. Names of hooks need not exist: the resolver answers with
 * an address that stands for them (synth.h). Pure functions.
 */
#pragma once

#include "base/json.h"
#include "proto/errc.h"
#include "proto/ip.h"
#include "proto/limits.h"

struct hook_pattern {
	char *text;    /* in lower case; "" for an address */
	struct ip ip;  /* of an address */
	uint16_t port; /* 0: every one */
	bool any;      /* "*" */
};

struct hooks {
	struct hook_pattern *http, *https;
	size_t http_n, https_n;
};

/* Reads {"http": […], "https": […]}. NULL when both are empty. VALIDATION_FAILED. */
int hooks_read(const struct json *object, struct hooks **ret, struct err *e);
void hooks_free(struct hooks *h); /* NULL is fine */

struct hook_dest {
	const char *name; /* or "" */
	const struct ip *ip;
	uint16_t port;
};
bool hooks_want(const struct hooks *h, bool https, const struct hook_dest *to);
/* Whether a pattern other than "*" names it, on any port: its address stands for the name only. */
bool hooks_name(const struct hooks *h, const char *name);
/* Whether all requests are handed over. */
bool hooks_any(const struct hooks *h);
