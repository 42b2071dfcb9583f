/*
 * http.h - the parts that both ends of HTTP/1.1 share: methods, header lists, request targets, status texts.
 *
 * Spans are borrowed: those of a request live until its exchange's on_close, those of a response until its call's
 * on_close. Header names compare without case. Nothing here allocates but http_percent_decode and _encode.
 *
 * The stack in one look (docs/design/001-http.md has the whole story):
 *
 *	server.h  listeners and exchanges       head.h   strict head parser (llhttp inside)
 *	client.h  calls over pooled connections chunk.h  strict chunked decoder
 *	proxy.h   exchange <-> call             wire.h   a socket with bounded output
 *	ws.h      WebSocket on either end       sse.h    event streams on either end
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "http/limits.h"
#include "proto/errc.h"

/* Methods that handlers switch on; any other that llhttp knows (PROPFIND …) is HTTP_M_OTHER and has its text. */
enum http_method {
	HTTP_M_OTHER,
	HTTP_M_GET,
	HTTP_M_HEAD,
	HTTP_M_POST,
	HTTP_M_PUT,
	HTTP_M_DELETE,
	HTTP_M_PATCH,
	HTTP_M_OPTIONS,
	HTTP_M_CONNECT,
	HTTP_M_TRACE,
};

enum http_method http_method_of(struct str text); /* case matters: "get" is HTTP_M_OTHER */
bool http_method_idempotent(struct str text);	  /* may be sent again if it is unknown whether it arrived */

struct http_header {
	struct str name, value;
};

/* In the order received; duplicates stay. At most HTTP_HEADERS_MAX. */
struct http_headers {
	struct http_header *v;
	size_t n;
};

/* The first with this name, or NULL. http_header_value answers STR_NULL (p == NULL) for a missing one. */
const struct http_header *http_header_find(const struct http_headers *h, struct str name);
struct str http_header_value(const struct http_headers *h, struct str name);
/* True when any header of this name has `token` in its comma-separated list, without case: Connection, Upgrade … */
bool http_header_has_token(const struct http_headers *h, struct str name, struct str token);

/* May be written into a head: a token; a value without CR, LF, NUL or other controls but tab, not blank at the ends. */
bool http_name_ok(struct str name);
bool http_value_ok(struct str value);

struct http_request {
	enum http_method method;
	struct str method_text;
	struct str target; /* as received, absolute-form reduced to its path and query */
	struct str path;   /* up to '?', still percent-encoded; begins with '/' (or is "*" for OPTIONS) */
	struct str query;  /* after '?', p == NULL when there is none */
	struct str host;   /* from the Host header, or from the target in absolute form; NULL in HTTP/1.0 without */
	bool absolute;	   /* the target had the absolute form: meant for a proxy */
	struct http_headers headers;
	int minor; /* HTTP/1.minor: 0 or 1 */

	int64_t content_length; /* of the body: 0 when there is none, -1 when chunked */
	bool keep_alive;	/* the client will reuse the connection */
	bool expect_continue;
	bool upgrade;	     /* asks for another protocol: Upgrade and Connection: upgrade are both there */
	bool upgrade_behind; /* the same of a request with a body, behind which the protocol would begin */
};

struct http_response {
	int status;
	struct str reason;
	struct http_headers headers;
	int minor;

	int64_t content_length; /* -1: chunked or until close; 0 also for HEAD, 204, 304 */
	bool chunked;
	bool keep_alive;
	bool upgrade; /* 101 */
};

/* Appends "name: value\r\n". Both have been checked. */
void http_put_header(struct buf *b, struct str name, struct str value);

/* "Not Found"; "Unknown" for numbers without a registered text. Never NULL. */
const char *http_status_text(int status);

/* "Sun, 06 Nov 1994 08:49:37 GMT", made once a second. One thread per process uses it. */
struct str http_date(void);

/* Undoes %XX. Refuses escapes that are cut or not hexadecimal, and %00. '+' stays '+'. Appends to `out`. */
int http_percent_decode(struct str s, struct buf *out, struct err *e);
/* Appends a path: letters, digits and "-._~/" as they are. */
void http_percent_encode(struct buf *out, struct str s);

/* A parameter of a query string, form-decoded ('+' is a blank) and appended to `out`. 1 when it is there (its first
 * occurrence counts; "?a" and "?a=" are empty values), 0 when not, -1 when it cannot be decoded (VALIDATION_FAILED). */
int http_query_get(struct str query, struct str name, struct buf *out, struct err *e);

/* The next segment of a path: cuts "/a/b" into "a" and "/b". False at the end ("" or "/"). Still percent-encoded. */
bool http_path_next(struct str *path, struct str *ret_segment);
