/*
 * server.h - HTTP/1.1 server: listeners, connections, exchanges.
 *
 * One exchange is one request and its response. The handler gets it when the head is complete and strict-checked, and
 * answers now or later, from any callback of the same loop thread:
 *
 *	static void on_request(struct http_exchange *x, void *arg)
 *	{
 *		if (str_eq_c(http_request(x)->path, "/ping"))
 *			return http_respond(x, 200, "text/plain", STR("pong"));
 *		struct err e;
 *		err_set(&e, ERRC_NOT_FOUND, "no such route");
 *		http_respond_error(x, &e);
 *	}
 *
 * Life: on_request → [on_body … on_body_end | on_whole_body] → respond → on_close. on_close comes exactly once, last,
 * for every exchange that had ops set: `complete` says that the whole response was handed to the kernel, or waits to go
 * out together with the answer to a request that the client has sent ahead. After it `x` is dead. It is never called
 * from inside http_respond_* or any other function here: the exchange stays valid until the handler's own callback has
 * returned. The response may begin before the request's body has ended.
 *
 * Backpressure. Out: http_respond_write takes everything and answers false once more than HTTP_OUT_HIGH waits; stop
 * then until on_writable. In: http_pause stops on_body (a chunk that was being delivered is kept, nothing more is
 * read), http_resume goes on. A request that nobody reads waits in the kernel's buffer.
 *
 * A client that half-closes (shutdown after its request, like `nc -N`) still gets its answer. A client that is gone
 * is reported by on_close(x, false): over AF_UNIX at once. Over TCP a FIN can mean either, and only bytes make the
 * kernel of a vanished client say so. So config.gone_probe ms after a FIN, and again in growing steps, one byte of what
 * must come anyway is sent ahead: of "HTTP/1.1 " before the response, a leading zero of the next chunk's size inside a
 * chunked one. A client that is there cannot tell. Responses with a length find out by writing.
 *
 * No connection keeps the loop to itself: requests that a client sends ahead are answered one unit of work at a time,
 * in the turns of base/turn.h (docs/design/026-turns.md). Strangers share one part of each turn, after all others, and
 * their connections are closed after a 401 and after HTTP_STRANGER_REQUESTS.
 *
 * What is refused, with what status, and the bounds on memory: docs/design/001-http.md. Refused requests never reach
 * the handler. Thread: the loop's.
 */
#pragma once

#include "base/loop.h"
#include "http/http.h"
#include "http/layer.h"
#include "http/limits.h"
#include "proto/error_json.h"

struct sockaddr;
struct turn_party;
struct http_server;
struct http_exchange;

/* Times in ms, from limits.h; may be changed before the first listen. */
struct http_server_config {
	uint32_t head_timeout; /* first byte of a head to its last → 408; a layer's handshake → closed */
	uint32_t idle_timeout; /* kept-alive connection without a request, and a new one without a byte → closed */
	uint32_t body_stall;   /* no byte of an announced body while we want it → 408 */
	uint32_t send_stall;   /* client takes no byte of a response → aborted */
	uint32_t linger;       /* after a refusal: time for the client to read it */
	uint32_t gone_probe;   /* see above */
	size_t conns_max;      /* more wait in the backlog, after others have been closed: places.h */
	size_t address_max;    /* strangers of one address */
	size_t lingering_max;  /* strangers that may linger at once */
};

/* How far a connection is vouched for. The last request on it decides. */
enum http_rank {
	HTTP_STRANGER, /* nobody has vouched for it: never drained, closed first */
	HTTP_GUEST,    /* asks for something that is open to all, and has a budget of its own */
	HTTP_KNOWN,    /* authenticated */
	HTTP_LOCAL,    /* came by a listener that is not public; stays so */
	HTTP_RANKS,
};

/* Why a connection was closed before its time. */
enum http_shed {
	HTTP_SHED_STRANGER,  /* too many strangers */
	HTTP_SHED_ADDRESS,   /* too many strangers of its address */
	HTTP_SHED_LINGERING, /* too many strangers that were being refused */
	HTTP_SHED_GUEST,     /* too many guests: it was idle, or slow to send its request */
	HTTP_SHED_ROOM,	     /* too many connections of all ranks, or no descriptors */
	HTTP_SHEDS,
};

typedef void (*http_on_request)(struct http_exchange *x, void *arg);

struct http_server *http_server_new(struct loop *l, http_on_request on_request, void *arg);
struct http_server_config *http_server_config(struct http_server *s);

/* Owns listen_fd from now on, also on failure: any SOCK_STREAM socket that listens. `tag` comes back from
 * http_exchange_tag, so that a handler can tell a unix socket from a TCP one. */
int http_server_listen(struct http_server *s, int listen_fd, int tag, struct err *e);
/* The same for a connection that is already there (socketpair, inherited). It shares the turns of the loop with the
 * others of `party` (base/turn.h); NULL: it is a party itself. */
int http_server_adopt(struct http_server *s, int fd, int tag, struct turn_party *party, struct err *e);

/* Connections with this tag begin as strangers; without this call all are local. `exempt` may be NULL; it says of which
 * addresses the strangers are not counted (a proxy speaks for many clients). */
typedef bool (*http_exempt)(void *arg, const struct sockaddr *peer);
void http_server_set_public(struct http_server *s, int tag, http_exempt exempt, void *arg);
size_t http_server_guests_max(const struct http_server *s);

/* From now on connections with this tag pass through a layer: layer.h. */
void http_server_set_layer(struct http_server *s, int tag, http_layer_open open, void *arg);

/* A request that cannot be read is answered with plain text instead of the API's error envelope: `body` gets it. `fd`
 * as http_exchange_fd. */
typedef void (*http_on_refusal)(void *arg, int fd, const struct err *e, struct buf *body);
void http_server_set_refusal(struct http_server *s, http_on_refusal on_refusal, void *arg);

/* A listening TCP socket on "127.0.0.1:8700" or "[::1]:8700" (numeric; port 0 lets the kernel choose). */
int http_listen_tcp(struct str address, int *ret_fd, struct err *e);

/* Stops accepting, closes idle connections, lets running exchanges end (with "Connection: close"), then calls
 * on_drained once from the loop. After grace_ms what still runs is cut off. */
void http_server_drain(struct http_server *s, uint32_t grace_ms, void (*on_drained)(void *arg), void *arg);
/* Cuts everything off now (each exchange gets its on_close) and frees. Not from inside a handler's callback. */
void http_server_free(struct http_server *s);

struct http_server_stats {
	uint64_t accepted, requests, refused;
	uint64_t bytes_in, bytes_out; /* over all connections, heads included */
	size_t conns, idle;
	size_t by_rank[HTTP_RANKS]; /* of conns */
	uint64_t shed[HTTP_SHEDS];
};
struct http_server_stats http_server_stats(const struct http_server *s);

/* ---- guests, and the memory that they hold (base/tcp_owner.h) ---- */

/* Each guest's connection that works for a party, also between two requests. */
void http_server_each_guest(struct http_server *s,
	void (*each)(void *arg, struct http_exchange *x, const struct turn_party *party), void *arg);
/* Sets its window, and looks at what it holds and at its way to the client: http_guest_memory. The way to a server is
 * the caller's. */
void http_guest_look(struct http_exchange *x, uint64_t now, uint32_t window);
struct tcp_conn *http_guest_memory(struct http_exchange *x);
struct http_exchange *http_guest_of(struct tcp_conn *m);
void http_guest_window(struct http_exchange *x, uint32_t window);
/* Ends its connection now, also between two requests: what it holds is not sent any more. */
void http_guest_reset(struct http_exchange *x);

/* ---- an exchange ---- */

struct http_exchange_ops {
	void (*on_body)(struct http_exchange *x, struct str chunk); /* borrowed for the call */
	void (*on_body_end)(struct http_exchange *x);
	void (*on_whole_body)(struct http_exchange *x, struct str body); /* with http_collect; lives until on_close */
	void (*on_writable)(struct http_exchange *x);
	void (*on_close)(struct http_exchange *x, bool complete);
};

/* Any member may be NULL: a body without on_body is discarded. */
void http_exchange_set(struct http_exchange *x, const struct http_exchange_ops *ops, void *arg);
void *http_exchange_arg(const struct http_exchange *x);
int http_exchange_tag(const struct http_exchange *x);
const struct http_request *http_request(const struct http_exchange *x);
/* The client's address as text ("127.0.0.1", "::1"); "" when it came by a unix socket. Lives as long as x. */
struct str http_exchange_peer(struct http_exchange *x);
/* It came through a layer. */
bool http_exchange_secure(const struct http_exchange *x);
/* The connection's socket, for SO_PEERCRED and the like. Stays the server's. */
int http_exchange_fd(const struct http_exchange *x);

/* Vouches for the request, and its connection, from inside on_request; without this call it is a stranger's. False:
 * there is no place for another guest, and the request should be refused. */
bool http_exchange_vouch(struct http_exchange *x, enum http_rank rank);

/* From inside on_request: the request, and what its connection does until the next one, is work of this party
 * (base/turn.h), unless it is a stranger's. Without this call the connection is a party itself. */
void http_exchange_join(struct http_exchange *x, struct turn_party *party);

/* Gathers the body up to `max` bytes, then calls on_whole_body (with an empty one when there is no body; always later,
 * never from inside this call). A longer one is answered 413 here; the handler then only sees on_close. */
void http_collect(struct http_exchange *x, size_t max);

/* The same for a body that holds secrets: memory that it lay in is overwritten. */
void http_collect_secret(struct http_exchange *x, size_t max);
/* It has been used: overwrites it now. */
void http_forget_body(struct http_exchange *x);

void http_pause(struct http_exchange *x);
void http_resume(struct http_exchange *x);
bool http_body_ended(const struct http_exchange *x); /* on_body_end has come, or there is no body */
/* What stood behind a chunked body that has ended: checked lines, each with its CRLF. Lives until on_close. */
struct str http_request_trailers(const struct http_exchange *x);

/* ---- the response ---- */

/* Adds a header to the response that will begin; any number. A name or value that does not fit on a header line (CR,
 * LF, NUL …) is refused: false, and nothing is added. Content-Length, Transfer-Encoding, Connection and Date are the
 * server's own and refused as well. */
bool http_respond_header(struct http_exchange *x, struct str name, struct str value);

/* Another text behind the status than the usual one; borrowed until the response begins. What cannot stand there, or is
 * empty, changes nothing. */
void http_respond_reason(struct http_exchange *x, struct str reason);

enum { HTTP_CHUNKED = -1 };
/* Starts the response. content_length: bytes that will follow, or HTTP_CHUNKED (until close, to an HTTP/1.0 client).
 * For HEAD, 204 and 304 what is written after is dropped. Writing less than announced aborts; more is a bug. */
void http_respond_begin(struct http_exchange *x, int status, int64_t content_length);
/* False: more than HTTP_OUT_HIGH bytes wait, stop until on_writable. Bytes are taken either way. */
bool http_respond_write(struct http_exchange *x, struct str bytes);
/* The same for three pieces in a row, without copying them together. */
bool http_respond_write_framed(struct http_exchange *x, struct str before, struct str bytes, struct str after);
/* The handler has more to write, and made a unit of it: on_writable comes when the connection may begin another one, in
 * this turn of the loop or a later one. After a write that answered false on_writable comes anyway. */
void http_respond_more(struct http_exchange *x);
void http_respond_end(struct http_exchange *x);
/* With trailers: complete lines ("Name: value\r\n"), checked by the caller. Only a chunked body has a place for them.
 */
void http_respond_end_with(struct http_exchange *x, struct str trailers);

/* A member (`"name":value`) that http_respond adds to the end of an application/json answer which is an object. */
void http_respond_extra(struct http_exchange *x, struct str member);
/* The same for an answer that is written in pieces: `object` is its end. */
void http_respond_put_extra(const struct http_exchange *x, struct buf *object);
/* The same for one of many objects, such as the first event of a stream: `object` with the member, made in `room`. The
 * next objects have none. */
struct str http_respond_with_extra(struct http_exchange *x, struct str object, struct buf *room);

/* All at once. content_type may be NULL. */
void http_respond(struct http_exchange *x, int status, const char *content_type, struct str body);
/* The API's error envelope (proto/error_json.h). */
void http_respond_error(struct http_exchange *x, const struct err *e);
void http_respond_error_json(struct http_exchange *x, const struct error_json *j);
/* 405 with "Allow: GET, PUT". */
void http_respond_not_allowed(struct http_exchange *x, const char *allow);

/* An interim answer (102, 103; 100 is sent by the server itself when the body is wanted). Headers that cannot be sent
 * are left out. No effect once begun, to HTTP/1.0, or while the client does not read. */
void http_respond_info(struct http_exchange *x, int status, const struct http_headers *headers);

/* Cuts the connection so that the client sees a truncated message, never a clean end. on_close(x, false) follows. */
void http_abort(struct http_exchange *x);

/* Bytes that wait for the client, and whether the response has begun. */
size_t http_respond_pending(const struct http_exchange *x);
bool http_respond_begun(const struct http_exchange *x);

/* Leaves HTTP: sends "101 Switching Protocols" with the headers added before (Connection: upgrade is added, the caller
 * adds Upgrade) and makes the exchange a raw two-way stream. From then on_body gets raw bytes, on_body_end says that
 * the client has shut down its side, http_respond_write sends raw bytes, http_respond_end shuts down ours; on_close
 * comes when both sides have ended or one is broken. Only when http_request(x)->upgrade, or from on_body_end when
 * http_request(x)->upgrade_behind. */
void http_upgrade(struct http_exchange *x);
