/*
 * mcp.h - the Model Context Protocol at POST /mcp: boxes as tools for a language model.
 *
 * A client's `initialize` makes a session. A session has one sandbox of its own, which its first tool call makes and
 * its end destroys; `?sandbox=ID` at initialize names another one, which is kept. Sessions are items of the store, so
 * that they outlive the daemon. `atoll mcp` carries the same messages over stdin and stdout.
 *
 * A tool call does what a client of the API would do: it asks this daemon's own unix socket (call.h). So a tool can do
 * nothing that a client with the token cannot, and its errors are the API's.
 *
 *	route.c    HTTP: sessions, event streams          message.c   JSON-RPC: which method, which answer
 *	session.c  sessions and the outputs they keep     call.c      one running call: questions, progress, result
 *	tools.c    the table of tools                     tools_*.c   what they do          resources.c  files and logs
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "daemon/daemon.h"
#include "daemon/route/request.h"
#include "doors/mcp/limits.h"

struct mcp;

struct mcp *mcp_new(struct daemon *d);
/* The sessions of the store. Before store_start. */
int mcp_load(struct mcp *m, struct err *e);

enum { MCP_SESSION_ID_LEN = 32 };

/* The whole output of a call that was too long to be shown. */
struct mcp_output {
	uint64_t number; /* from 1; 0: none */
	struct buf text;
};

/* An interpreter context that run_code uses again. */
struct mcp_context {
	char box[BOX_ID_MAX + 1], language[16], id[64];
};

struct mcp_session {
	struct mcp *mcp;
	struct list node; /* of mcp->sessions */
	char id[MCP_SESSION_ID_LEN + 1];
	char token[TOKEN_NAME_MAX + 1]; /* the named token that made it, and alone may use it; "": none */
	char box[BOX_ID_MAX + 1];
	bool own_box; /* it was made for this session and ends with it */
	bool ended;
	unsigned refs;
	struct list calls; /* struct mcp_call */
	size_t calls_n;
	uint64_t outputs_made;
	struct mcp_output outputs[MCP_OUTPUTS_MAX];
	struct mcp_context contexts[MCP_CONTEXTS_MAX]; /* newest first */
	struct loop_timer idle;
};

struct mcp {
	struct daemon *daemon;
	struct list sessions;
	size_t sessions_n;
	struct http_endpoint api; /* our own socket */
};

/* session.c */
/* `box` is "" for a sandbox of its own, `token` for a client without a named token. on_done comes when the session
 * would outlive the daemon. LIMIT_REACHED past MCP_SESSIONS_MAX. */
struct mcp_session *mcp_session_new(
	struct mcp *m, const char *box, const char *token, store_on_done on_done, void *arg, struct err *e);
/* A session of this token. */
struct mcp_session *mcp_session_find(struct mcp *m, struct str id, const char *token);
/* The token was revoked: its sessions end. */
void mcp_forget_token(struct mcp *m, const char *token);
/* A request has come: it does not end for another MCP_SESSION_IDLE. */
void mcp_session_touch(struct mcp_session *s);
/* Ends its calls, destroys its own sandbox, forgets it. */
void mcp_session_end(struct mcp_session *s);
void mcp_session_unref(struct mcp_session *s);
/* Keeps the bytes of `text` (which is empty afterwards) and returns their number. */
uint64_t mcp_output_keep(struct mcp_session *s, struct buf *text);
const struct mcp_output *mcp_output_find(const struct mcp_session *s, uint64_t number);

/* message.c: takes a message of a session (NULL: none yet; `initialize` makes one) and answers the request. */
void mcp_message(struct mcp *m, struct mcp_session *s, struct daemon_request *r, struct str text);
