/*
 * tunnels.h - tunnels: ports of a sandbox under a host name of their own, without a token.
 *
 * "{label}.{previewDomain}" leads to the port as a preview does. The label is 16 random characters, or the name that
 * the client gave. A tunnel ends when its client ends it, when its box stops and when its sandbox is destroyed. The
 * store keeps it over a restart of the daemon (kind "tunnel", key: the label).
 *
 * With ATOLL_TUNNELS=cloudflared a tunnel without a name leads through Cloudflare instead (cloudflared.h): its label is
 * no host name, it is shown once it has a URL, and it ends when cloudflared ends.
 *
 * A client of the rpc transport asks the agent for a tunnel, and only the daemon can make one. So while such a client
 * is connected, the daemon reads the stream GET /internal/tunnels of the agent (tunnel_wants.c), does what it asks for
 * that one sandbox, and tells the answer with POST /internal/tunnels. The agent is hostile: the number of tunnels is
 * bounded, and random labels are made here.
 *
 * Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "daemon/core/sandbox.h"
#include "daemon/ports/ports.h"

struct tunnel {
	struct list node; /* of sandbox->tunnel_hosts */
	struct sandbox *sandbox;
	struct port *port; /* referenced; not among the exposed ones */
	int64_t created_ms;
	bool named; /* the client chose the label */
	char label[TUNNEL_LABEL_MAX + 1];
	char id[TUNNEL_ID_MAX + 1];
	char run[TUNNEL_ID_MAX + 1];
	bool through_cloudflare;
	int exit_code;			 /* of cloudflared; 0 for a tunnel that was closed */
	struct cloudflared *cloudflared; /* NULL until a run is found again after a restart */
	char url[TUNNEL_URL_MAX + 1];	 /* of Cloudflare; "" while cloudflared starts */
	struct list waiting;		 /* struct opening: clients that wait for the URL, … */
	size_t waiting_n;		 /* … besides the first */
};

struct tunnel_wish {
	uint16_t port;
	char name[TUNNEL_LABEL_MAX + 1]; /* "": a random one */
	char id[TUNNEL_ID_MAX + 1];	 /* "": the label */
	char run[TUNNEL_ID_MAX + 1];
};

/* t is NULL when e is set. */
typedef void (*tunnel_on_open)(void *arg, const struct tunnel *t, bool made, const struct err *e);
/* Makes one, or finds the one that is the same. TUNNEL_RUN_CONFLICT when the port, the id or the name has another.
 * Answers when the store has it. */
void tunnel_open(struct sandbox *s, const struct tunnel_wish *wish, tunnel_on_open on_open, void *arg);
/* Ends it and cuts off the requests on their way. */
void tunnel_close(struct tunnel *t);
void tunnels_clear(struct sandbox *s);
/* It has an address: show it to clients. */
bool tunnel_is_open(const struct tunnel *t);
/* By its id or label; NULL. */
struct tunnel *tunnel_find(struct sandbox *s, struct str id);
struct tunnel *tunnel_find_port(struct sandbox *s, uint16_t port);
/* The tunnel behind a host name's label, in any case; NULL. */
struct tunnel *tunnel_of_label(struct daemon *d, struct str label);
/* The members url and hostname, which has no port. */
void tunnel_address(struct json_writer *w, const struct tunnel *t);
/* {id, port, url, hostname, name?, createdAt} */
void tunnel_view(struct json_writer *w, const struct tunnel *t);
/* The array of those that are open; their number. */
size_t tunnels_view(struct json_writer *w, const struct sandbox *s);
/* Reads members port, name, id, runId. */
int tunnel_wish_read(const struct json *o, struct tunnel_wish *ret, struct err *e);
/* After the sandboxes, before the loop runs. */
int tunnels_load(struct daemon *d, struct err *e);
/* The boxes are known again: follows the runs of cloudflared that nobody follows. */
void tunnels_recover(struct daemon *d);

/* ---- tunnel_wants.c ---- */

/* A client of the rpc transport comes: listen to what it wants. */
void tunnels_attend(struct sandbox *s);
/* The box ended. */
void tunnels_ignore(struct sandbox *s);
/* Tells the clients that a tunnel has ended. */
void tunnels_tell_end(struct sandbox *s, const struct tunnel *t);
