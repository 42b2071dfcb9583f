/*
 * request.h - one request in the daemon: the exchange, its route, when it began.
 *
 * It is made when the head is complete, and owns itself: it is freed when its exchange has closed and none of its
 * questions is under way (`held`). Handlers answer through daemon_request_*, so every request is counted and logged
 * once.
 */
#pragma once

#include "daemon/core/sandbox.h"
#include "daemon/network/approvals.h"
#include "daemon/network/gate_client.h"
#include "daemon/route/paths.h"
#include "store/limits.h"

/* The token and name that a client wants for an exposed port. */
struct port_wish {
	char token[PORT_TOKEN_MAX + 1]; /* "": any */
	char name[PORT_NAME_MAX + 1];	/* "": none */
};

struct tunnel_wish;
struct bucket_mount;

struct daemon_request {
	struct daemon *daemon;
	struct http_exchange *x; /* NULL once it has closed */
	struct api_match match;
	bool trusted; /* came by the unix socket, or with the right token */
	bool own;     /* of one of our own programs (LISTEN_OWN) */
	char token[TOKEN_NAME_MAX +
		   1];		  /* the named token that admitted it, also through a session or ticket; else "" */
	struct list of_token;	  /* daemon.token_requests */
	const char *by, *changes; /* console/audit.h: who, and the method; NULL: it changes nothing */
	uint64_t start_us;
	int status; /* of the answer, 0 before */
	unsigned held;
	bool tried; /* it was sent to a box that had just ended */

	struct sandbox_waiter waiter;
	struct loop_timer timer;
	struct sandbox *sandbox;      /* referenced while set */
	struct port_forward *forward; /* on its way to an app in a box (port_forward.h) */
	struct docker_wait *docker_wait;
	struct docker_exec *docker_exec;
	struct archive_run *docker_archive;
	struct buf docker_body;	    /* of POST /exec/{id}/start, while it comes */
	struct bridge_call *bridge; /* a request of the bridge (bridge/bridge.h) */
	struct api_change change;
	struct api_spec before, after;	  /* PUT on an existing sandbox */
	struct port_wish *wish;		  /* POST …/ports/{port} */
	struct tunnel_wish *tunnel;	  /* POST …/tunnels */
	struct bucket_mount *mount;	  /* …/mounts */
	struct approval_answer *approval; /* POST /v1/approvals/{id} */
	struct gate_ack ack;		  /* of the gate, for a policy or an answer */
	unsigned tries;
	struct {
		struct sandbox **v; /* referenced */
		size_t n, at;
		bool more, comma;
	} list;
};

/* Keeps the object while a question is under way, or a waiter queued. */
void daemon_request_hold(struct daemon_request *r);
void daemon_request_release(struct daemon_request *r);
/* Counts, logs. Called by the functions below, and by agent_forward.c for the answers of agents. */
void daemon_request_answered(struct daemon_request *r, int status);

void daemon_request_json(struct daemon_request *r, int status, struct str body);
/* 204. */
void daemon_request_empty(struct daemon_request *r);
/* With {"validationErrors":[…]} when the error is about a field. */
void daemon_request_error(struct daemon_request *r, const struct err *e);
/* With a context of the caller's: a complete JSON object or empty. */
void daemon_request_error_with(struct daemon_request *r, const struct err *e, struct str context);

/* The warden is not running: the request has been answered. */
bool daemon_request_warden_is_away(struct daemon_request *r);
/* The sandbox that the path names. NULL: there is none, and the request has been answered. */
struct sandbox *daemon_request_find(struct daemon_request *r);
/* Answers with r->sandbox as JSON; `info` is its live usage, or NULL. */
void daemon_request_view(struct daemon_request *r, int status, const struct box_info *info); /* sandbox_get.c */

/* on_close of every set of ops that a handler puts on the exchange (with the request as its arg). */
void daemon_request_closed(struct http_exchange *x, bool complete);
/* The proxy has given the exchange back. */
void daemon_request_retake(struct daemon_request *r);

/* A WebSocket that a box will answer. */
bool daemon_request_is_socket(const struct daemon_request *r); /* agent_forward.c */
/* A request on /proxy/ whose token is in X-Atoll-Token: Authorization then belongs to the app. */
bool daemon_request_is_relayed(const struct daemon_request *r);

/* ---- the handlers, one file each ---- */

void handle_health(struct daemon_request *r);	       /* info.c */
void handle_root(struct daemon_request *r);	       /* console/assets.c */
void handle_asset(struct daemon_request *r);	       /* console/assets.c */
void handle_openapi(struct daemon_request *r);	       /* info.c */
void handle_metrics(struct daemon_request *r);	       /* info.c */
void handle_events(struct daemon_request *r);	       /* console/events.c */
void handle_usage(struct daemon_request *r);	       /* console/usage.c */
void handle_tickets(struct daemon_request *r);	       /* console/tickets.c */
void handle_console_links(struct daemon_request *r);   /* console/login.c */
void handle_console_session(struct daemon_request *r); /* console/login.c */
void handle_console_sessions(struct daemon_request *r);
void handle_audit(struct daemon_request *r);  /* console/audit.c */
void handle_checks(struct daemon_request *r); /* console/checks.c */
void handle_mcp(struct daemon_request *r);    /* mcp/route.c */
void handle_bridge(struct daemon_request *r); /* bridge/route.c */
void handle_bridge_health(struct daemon_request *r);
void handle_docker(struct daemon_request *r);  /* docker/route.c */
void handle_list(struct daemon_request *r);    /* sandbox_list.c */
void handle_get(struct daemon_request *r);     /* sandbox_get.c */
void handle_put(struct daemon_request *r);     /* sandbox_put.c */
void handle_delete(struct daemon_request *r);  /* sandbox_delete.c */
void handle_life(struct daemon_request *r);    /* life_api.c */
void handle_agent(struct daemon_request *r);   /* agent_forward.c */
void handle_secrets(struct daemon_request *r); /* secrets_api.c */
void handle_tokens(struct daemon_request *r);  /* tokens_api.c */
/* Revokes the tokens whose time is over, now and later. */
void tokens_api_watch(struct daemon *d);
void handle_network(struct daemon_request *r); /* network_api.c */
void handle_network_log(struct daemon_request *r);
void daemon_request_network(struct daemon_request *r, const struct sandbox *s);
/* ?follow=1, and what an event stream needs to know of the request. */
bool daemon_request_follows(struct daemon_request *r);
struct follow daemon_request_follow(struct daemon_request *r);
void handle_approvals(struct daemon_request *r); /* approvals_api.c */
/* The rule of the sandbox that the answer asks for is kept, or could not be. */
void daemon_request_approved(struct daemon_request *r);
void daemon_request_not_approved(struct daemon_request *r);
/* Writes, makes and answers the change r->change of an existing sandbox. */
void daemon_request_change(struct daemon_request *r, struct sandbox *s); /* sandbox_put.c */
void handle_snapshots(struct daemon_request *r);			 /* snapshot_api.c */
void handle_snapshot(struct daemon_request *r);
/* The snapshot of the sandbox with this id or name. NULL: there is none, and the request has been answered. */
struct snapshot *daemon_request_snapshot(struct daemon_request *r, struct str text);
void handle_replace(struct daemon_request *r); /* restore_api.c */
void handle_fork(struct daemon_request *r);    /* fork_api.c */
void handle_diff(struct daemon_request *r);    /* diff_api.c */
void handle_backups(struct daemon_request *r); /* backup_api.c */
void handle_backup(struct daemon_request *r);
void handle_mounts(struct daemon_request *r); /* mounts_api.c */
/* Makes r->mount in the box of r->sandbox, whose settings have it, and answers. */
void daemon_request_mount(struct daemon_request *r);
void handle_volumes(struct daemon_request *r); /* volumes_api.c */
/* Makes the sandbox of the path from r->change.from, and answers. */
void daemon_request_make_from(struct daemon_request *r); /* fork_api.c */
void handle_ports(struct daemon_request *r);		 /* ports_api.c */
void handle_port(struct daemon_request *r);
void handle_port_validate(struct daemon_request *r);
void handle_port_requests(struct daemon_request *r);
void handle_tunnels(struct daemon_request *r); /* tunnels_api.c */
void handle_tunnel(struct daemon_request *r);
void handle_proxy(struct daemon_request *r); /* port_proxy.c */

/* The server's on_request; arg: the daemon. */
void daemon_request_begin(struct http_exchange *x, void *arg);
