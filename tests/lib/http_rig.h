/*
 * http_rig.h - a real server, real sockets and a loop that runs until something has happened.
 *
 * Peers are raw client sockets in the same loop as the server: `got` gathers the bytes that they receive. All waiting
 * is for an event; a test that waits in vain is ended by the runner.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "http/server/server.h"

struct rig {
	struct loop *l;
	struct http_server *s;
	int port;
	int requests, closes, completes; /* exchanges begun, ended, ended with the whole response out */
	struct http_exchange *last;	 /* the exchange of "/hold", to be answered by the test */
	struct buf body;		 /* the body that "/hold" and "/pause" received */
	bool body_ended;
	int writables;
	void (*on_request)(struct http_exchange *x, struct rig *r); /* paths that the rig does not know */
	void *arg;
};

struct peer {
	struct rig *r;
	struct loop_io io;
	int fd;
	struct buf got;
	bool eof;
	int error; /* errno of a failed read or write */
};

/* Paths: /ping answers "pong"; /echo the whole body (limit 64 KiB); /hold waits for the test; /pause is /hold with the
 * body paused; /big a body of 1 MiB with a length; /flood chunks without end; /null nothing but 204. */
void rig_start(struct rig *r);
void rig_stop(struct rig *r);
void rig_turn(struct rig *r);
#define RIG_UNTIL(r, cond)                                                                                             \
	while (!(cond))                                                                                                \
	rig_turn(r)

void peer_tcp(struct peer *p, struct rig *r);
void peer_tcp_from(struct peer *p, struct rig *r, unsigned host); /* from 127.0.0.host */
void peer_pair(struct peer *p, struct rig *r);			  /* AF_UNIX */
void peer_close(struct peer *p);
/* Sends all of it; the loop runs meanwhile. Errors are kept in p->error. */
void peer_send(struct peer *p, struct str bytes);
#define peer_say(p, text) peer_send(p, STR(text))
void peer_half_close(struct peer *p);
void peer_read(struct peer *p, bool on); /* stop or continue reading */
void peer_until_eof(struct peer *p);
/* Until `got` holds the text; fails when the connection ends first. */
void peer_until(struct peer *p, const char *text);
bool peer_has(const struct peer *p, const char *text);
/* Status of the first answer in `got`, 0 when there is none. */
int peer_status(const struct peer *p);

/* A listening TCP socket of the test's own, to play a server behind a client or proxy; and the next connection to it.
 */
struct stage {
	int fd, port;
};
void stage_open(struct stage *g);
void stage_accept(struct stage *g, struct peer *p, struct rig *r);
void stage_close(struct stage *g);

/* Opens a connection, sends the bytes and returns the status of the answer once the server has closed. 0: closed
 * without an answer. */
int rig_ask(struct rig *r, struct str bytes);
