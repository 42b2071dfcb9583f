/*
 * preview.h - requests to "{port}-{id}-{token}.{previewDomain}": from a browser to a server in a box.
 *
 * Who has the URL may use it; nothing else is asked for. Whatever is wrong with it (its form, the sandbox, the port,
 * the token, a sandbox that is being destroyed) gets one and the same answer. A sandbox that sleeps is woken; one that
 * was stopped or destroyed is neither started nor made. Thread: the loop's.
 */
#pragma once

#include "daemon/preview/hosts.h"
#include "daemon/preview/ports.h"
#include "daemon/route/request.h"
#include "proto/limits.h"

struct preview_name {
	uint16_t port;
	char id[BOX_ID_MAX + 1];
	char token[BOX_ID_MAX + 1];
};

/* "8080-my-box-token", in any case: the port before the first hyphen, the token behind the last. As upstream parses it.
 */
bool preview_parse(struct str label, struct preview_name *ret);

/* Ends, at once, the requests under way that the port lets in no more: all when it is gone, those of the old URL when
 * it has got another token. Downloads, event streams and WebSockets too: their clients are cut off. */
void preview_cut(struct port *p);

void handle_preview(struct daemon_request *r, const struct host_origin *origin, struct str label);
