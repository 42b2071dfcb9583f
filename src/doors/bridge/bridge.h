/*
 * bridge.h - /v1/sandbox/…: the HTTP API of upstream's bridge, for clients in any language.
 *
 * The bridge translates. Each request becomes questions to this daemon's own API over its unix socket, so creation,
 * waking, limits and errors are those of /v1/sandboxes. The shapes are upstream's: errors are {"error","code"}, output
 * of a command is base64 in named events. A sandbox of the bridge is the sandbox of the same id in /v1/sandboxes; an id
 * that is no sandbox id there (longer than 63 bytes, a reserved name) stands for "bridge-" and its hash.
 *
 * route.c reads the path, ask.c asks, exec.c, file.c, session.c and mount.c have the routes. A bridge_call owns itself
 * and holds its request; it ends with bridge_done. Thread: the loop's.
 */
#pragma once

#include "daemon/route/request.h"
#include "doors/bridge/limits.h"
#include "http/sse.h"

struct bridge_call;
/* status 0: there was no answer, and body says why. */
typedef void (*bridge_on_reply)(struct bridge_call *b, int status, struct str body);
typedef void (*bridge_on_event)(struct bridge_call *b, const struct json *event);

struct bridge_call {
	struct daemon_request *r; /* held; its x is NULL when the client has gone */
	char box[BOX_ID_MAX + 1];
	struct str rest;	/* of the path, behind the sandbox's id; still encoded */
	char *session;		/* of the header Session-Id; NULL: none. Owned */
	char *path;		/* of a file in the box. Owned */
	unsigned port;		/* of a tunnel */
	struct http_call *call; /* the question under way */
	bridge_on_reply on_reply;
	bridge_on_event on_event; /* the answer is an event stream */
	bool pass;		  /* a 200 is passed on to the client as it is */
	bool over;		  /* bridge_done was called */
	bool archive;		  /* `path` is a temporary file, to be removed */
	bool told;		  /* the client has had the result of its command */
	bool own;		  /* the command is the bridge's: no event of it is for the client */
	int exit_code;		  /* of that command; -1: not known */
	struct buf said;	  /* its stderr */
	int status;
	struct buf body;
	struct sse_reader events;
	bool upload;	/* the client's body goes to the call */
	uint64_t taken; /* of that body */
	void (*on_too_long)(struct bridge_call *b);
	void (*on_whole)(struct bridge_call *b, struct str body);
};

/* ---- ask.c ---- */

struct bridge_call *bridge_call_new(struct daemon_request *r);
/* Frees it, when its question has ended. The client must have been answered or be gone. */
void bridge_done(struct bridge_call *b);
/* {"error":…,"code":…}. */
void bridge_refuse(struct daemon_request *r, int status, const char *code, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* The same, then bridge_done. */
void bridge_fail(struct bridge_call *b, int status, const char *code, const char *fmt, ...) PRINTF_LIKE(4, 5);
void bridge_answer(struct bridge_call *b, int status, struct str json);
void bridge_ok(struct bridge_call *b);

/* Asks the daemon's API about the box; `target` is what follows /v1/sandboxes/{id}. */
void bridge_ask(
	struct bridge_call *b, const char *method, struct str target, struct str body, bridge_on_reply on_reply);
void bridge_follow(
	struct bridge_call *b, struct str target, struct str body, bridge_on_event on_event, bridge_on_reply on_reply);
/* The same for a command of the bridge's own. It ends when the client goes away. */
void bridge_follow_own(struct bridge_call *b, struct str body, bridge_on_event on_event, bridge_on_reply on_reply);
/* A 200 goes to the client as application/octet-stream; on_reply comes for everything else, and at the end. */
void bridge_pass(struct bridge_call *b, struct str target, bridge_on_reply on_reply);
/* The client's body becomes that of the question; on_too_long past BRIDGE_UPLOAD_MAX. */
void bridge_upload(struct bridge_call *b, struct str target, bridge_on_reply on_reply);
/* Removes a file of the box, whatever becomes of the call. */
void bridge_remove(struct bridge_call *b);
/* Gathers the client's body; then calls `on_whole`. */
void bridge_collect(struct bridge_call *b, void (*on_whole)(struct bridge_call *b, struct str body));

/* The message of an error of the API, or the text itself. */
void bridge_message(struct str body, struct buf *ret);
/* Whether it is an error of the API with this code. */
bool bridge_has_code(struct str body, const char *code);
/* Answers when the sandbox could not be made or reached, which is the pool's error. False: it is another one. */
bool bridge_fail_pool(struct bridge_call *b, int status, struct str body);
void bridge_percent_encode(struct buf *ret, struct str text);
/* One word of a shell. */
void bridge_quote(struct buf *ret, struct str word);

/* ---- pure parts of route.c ---- */

/* Whether it is [a-z2-7]{1,128}. */
bool bridge_id_ok(struct str id);
void bridge_box_id(struct str id, char ret[BOX_ID_MAX + 1]);
bool bridge_session_ok(struct str id);
/* The absolute path without ".", ".." and empty parts. The caller frees. */
char *bridge_plain_path(struct str path);
/* The absolute path without "." and ".."; NULL when it is not /workspace or below it. The caller frees. */
char *bridge_workspace_path(struct str path);

/* ---- the routes; each ends its call ---- */

void bridge_exec(struct bridge_call *b);
void bridge_running(struct bridge_call *b);
void bridge_file_get(struct bridge_call *b);
void bridge_file_put(struct bridge_call *b);
void bridge_persist(struct bridge_call *b);
void bridge_hydrate(struct bridge_call *b);
void bridge_session_create(struct bridge_call *b);
void bridge_session_delete(struct bridge_call *b);
void bridge_tunnel(struct bridge_call *b);
void bridge_mount(struct bridge_call *b);
void bridge_unmount(struct bridge_call *b);
void bridge_delete(struct bridge_call *b);
void bridge_pty(struct daemon_request *r, const char *box);
void bridge_pool_stats(struct daemon_request *r);
/* Whether one more sandbox may be made (WARM_POOL_MAX_INSTANCES). */
bool bridge_has_room(struct daemon *d, const char *box);
