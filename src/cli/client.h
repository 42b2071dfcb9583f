/*
 * client.h - finds the daemon and its token, and sends requests that wait for the whole answer.
 *
 * ATOLL_URL (https://host:port, http://host:port or unix:/path) names the daemon. Without it: the socket
 * $ATOLL_RUN/atoll.sock when it answers a connect, else http://127.0.0.1:8700. Over TCP a token is sent: ATOLL_TOKEN,
 * or $ATOLL_DATA/token when this user may read it.
 *
 * A client owns its loop; client_ask turns it until the answer has come. Verbs that stream (stream.h) use the same loop
 * and connection settings.
 */
#pragma once

#include "base/loop.h"
#include "cli/cli.h"
#include "http/client/client.h"

enum {
	CLIENT_BODY_MAX = 16 * 1024 * 1024,
	CLIENT_HEAD_MS = 90000,	   /* for the answer of a daemon that is known to answer others */
	CLIENT_SILENCE_MS = 15000, /* without a byte for so long, the daemon is asked whether it answers at all */
	CLIENT_HEALTH_MS = 5000,   /* for the answer to that */
	CLIENT_ADDRESS_MAX = 128,
};

struct client {
	struct cli *cli;
	struct loop *loop;
	struct http_client *http;
	struct http_endpoint endpoint;
	char where[160];	 /* the address, for messages */
	char host[160];		 /* Host header */
	char authorization[300]; /* header value, or "" */
	bool token_unreadable;	 /* a token file exists, but this user may not read it */
	uint32_t head_ms;	 /* time limit for the head of an answer; default CLIENT_HEAD_MS */
	struct loop_timer watch; /* client_silence.c */
	uint64_t asked;		 /* when the daemon was last asked whether it answers */
	bool silent;		 /* it did not */
	bool foreign;		 /* the last answer was no JSON: no daemon of ours made it */
	size_t body_max;	 /* most bytes of a whole answer; default CLIENT_BODY_MAX */

	int interrupted;				 /* the last signal that came, or 0 */
	void (*on_signal)(struct client *cl, int signo); /* NULL: signals are only noted */
	void *signal_arg;
};

int client_open(struct cli *c, struct client *ret, struct err *e);
/* The TCP address of this machine's daemon: that of $ATOLL_RUN/listen, or the default. */
void client_listed_address(char ret[CLIENT_ADDRESS_MAX]);
void client_close(struct client *cl);
#define auto_client __attribute__((cleanup(client_close)))

/* Fills the endpoint of a client whose daemon speaks TLS (client_tls.c). */
int client_use_tls(struct client *cl, struct str host, struct str port, struct err *e);
#define CLIENT_BY_SSH                                                                                                  \
	"reach its socket by 'ssh -N -L $HOME/atoll.sock:/run/atoll/atoll.sock HOST' and "                             \
	"ATOLL_URL=unix:$HOME/atoll.sock."

/* Ends all requests of this client once the daemon answers nothing any more (client_silence.c). */
void client_watch_silence(struct client *cl);
#define CLIENT_LOOK_THERE "Check that ATOLL_URL names a daemon of Atoll, and its log."

/* From now on INT, TERM, HUP and QUIT do not end the program but come through the client's loop. */
int client_catch_signals(struct client *cl, struct err *e);
/* The same, and also WINCH and TSTP, which do not interrupt. */
int client_catch_terminal(struct client *cl, struct err *e);

/* One request and its whole answer. Returns the status, or -1 with a sentence (and a hint in the cli). */
int client_ask(struct client *cl, const char *method, const char *target, struct str body, struct buf *ret_body,
	struct err *e);
/* The same; an answer other than 2xx is an error too, with the daemon's own sentence and suggestion. */
int client_call(struct client *cl, const char *method, const char *target, struct str body, struct buf *ret_body,
	struct err *e);

/* The same for a verb that asks once: opens, calls, closes. */
int client_once(
	struct cli *c, const char *method, const char *target, struct str body, struct buf *ret_body, struct err *e);

/* Turns an error body of the API into e and the hint. Returns -1. */
int client_api_error(struct client *cl, int status, struct str body, struct err *e);
/* After an error that a daemon of another version may have caused: a hint with both versions, if they differ. */
void client_explain_version(struct client *cl, const struct err *e);
/* Explains a failed connection: "no daemon at …" and how to start one. Returns -1. */
int client_failure(struct client *cl, const struct http_failure *f, struct err *e);

/* A WebSocket handshake that failed, for `reason`. */
void client_refused(struct client *cl, struct str reason, struct err *e);
/* Finds the daemon's own words for a failed handshake: asks for the same box, which makes it where it was missing or had
 * failed. True: the box exists now, *e is kept, and another handshake may succeed; nothing was sent to the box before. */
bool client_explain_refusal(struct client *cl, const char *id, struct err *e);

/* Options for a call to this daemon: host, token, time limit. Borrows from cl and the two headers of room. */
struct http_call_options client_options(
	struct client *cl, const char *method, struct str target, struct http_header room[2]);

void client_percent_encode(struct buf *ret, const char *text);
/* "/v1/sandboxes/<id, percent-encoded><rest>" */
void client_box_path(struct buf *ret, const char *id, const char *rest);
