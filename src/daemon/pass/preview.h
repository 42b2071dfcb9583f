/*
 * preview.h - requests to "{port}-{id}-{token}.{previewDomain}": from a browser to a server in a box.
 *
 * The URL is the only credential. All errors (a malformed name, an unknown sandbox, port or token, a sandbox that is
 * being destroyed) get the same answer. A sleeping sandbox is woken; a stopped sandbox is not started, and no sandbox
 * is made. Thread: the loop's.
 */
#pragma once

#include "daemon/ports/hosts.h"
#include "daemon/ports/ports.h"
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

/* The requests to previews of the sandbox that are under way. */
void preview_each(struct sandbox *s, void (*each)(void *arg, struct daemon_request *r), void *arg);

void handle_preview(struct daemon_request *r, const struct host_origin *origin, struct str label);
