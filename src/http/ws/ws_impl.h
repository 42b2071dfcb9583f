/*
 * ws_impl.h - a WebSocket's state. Internal to src/http.
 */
#pragma once

#include "http/ws/ws.h"
#include "http/ws/ws_frame.h"

struct ws {
	struct loop *loop;
	struct http_exchange *x; /* server: until its on_close */
	struct http_call *call;	 /* client: until its on_close */
	const struct ws_ops *ops;
	void *arg;
	bool server;
	bool open;	/* the handshake is done */
	bool open_told; /* … and on_open was called: messages may be delivered */
	bool paused;
	bool close_sent;
	bool over; /* nothing more is read */
	struct ws_reader reader;
	struct buf rest; /* input that waits for a resume, at most one read */
	int code;	 /* what on_close will say; 0: not known yet */
	char reason[123];
	size_t reason_len;
	uint32_t ping_ms;
	uint64_t last_input;
	bool pinged; /* and nothing has come since */
	struct loop_timer timer;
	struct loop_task task, free_task;
	char accept[29];   /* client: the answer we expect */
	char protocol[64]; /* client: asked for */
};

/* ws.c: what the carrier tells. */
void ws_input(struct ws *ws, struct str chunk);
void ws_input_end(struct ws *ws);
void ws_gone(struct ws *ws, struct str why);
void ws_run(struct loop_task *t);

/* Sec-WebSocket-Accept for a key. */
void ws_accept_key(struct str key, char ret[29]);
