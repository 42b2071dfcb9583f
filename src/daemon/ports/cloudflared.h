/*
 * cloudflared.h - quick tunnels of Cloudflare, for an operator who sets ATOLL_TUNNELS=cloudflared.
 *
 * `cloudflared` runs inside the box, as a background process of the box that the agent starts, with the box's network
 * policy: atolld runs no program of others. It must be in the box's image. atolld follows the output of the process,
 * finds the URL in it, and learns there when the process ends. The process is visible to clients as
 * "cloudflared-{label}"; its log says why a tunnel did not come up.
 *
 * The box is hostile: it may claim any URL below trycloudflare.com, and nothing else. The output that is searched is
 * bounded, and so is the wait for the URL (CLOUDFLARED_WAIT).
 *
 * Owner: the tunnel. cloudflared_end gives it back; it frees itself when its last call to the agent is over.
 * Thread: the loop's.
 */
#pragma once

#include "daemon/core/sandbox.h"

struct cloudflared;

/* The exit code of a program whose end was not seen. */
enum { CLOUDFLARED_LOST = 1 };

struct cloudflared_ops {
	/* Once, unless the run was found again. */
	void (*on_url)(void *arg, struct str url);
	/* Once: it could not be started, gave no URL in time, or has ended with `code` (CLOUDFLARED_LOST: nobody
	 * knows). The owner calls cloudflared_end. */
	void (*on_end)(void *arg, int code, const struct err *e);
};

/* LIMIT_REACHED (NULL) when the box has too many of them, those that are being ended included. */
struct cloudflared *cloudflared_start(struct sandbox *s, const char *label, uint16_t port,
	const struct cloudflared_ops *ops, void *arg, struct err *e);
/* After a restart of atolld: follows a run that has its URL. */
struct cloudflared *cloudflared_find(
	struct sandbox *s, const char *label, const struct cloudflared_ops *ops, void *arg, struct err *e);
/* Ends the process, if it lives. No callback comes any more. */
void cloudflared_end(struct cloudflared *c);

/* The URL in cloudflared's output: https://{label}.trycloudflare.com with blanks or a frame around it. False: none. */
bool cloudflared_url(struct str said, struct str *ret);
