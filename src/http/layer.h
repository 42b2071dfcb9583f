/*
 * layer.h - an optional layer between a connection and its socket, for TLS. All bytes of the connection pass through
 * it. The program makes the layer (src/daemon/tls.c), so that programs without TLS need no library for it.
 *
 * A layer belongs to one connection: it is made when the connection is accepted and freed with it. Its functions never
 * block. The first reads do the handshake. Thread: the loop's.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

/* The opposite direction that a read or a write has to wait for. */
enum layer_wants { LAYER_WANTS_NOTHING, LAYER_WANTS_READ, LAYER_WANTS_WRITE };

struct http_layer;

struct http_layer_ops {
	/* As recv: bytes, 0 at the end, -EAGAIN or another -errno. Leaves nothing behind that epoll would not report:
	 * what it has decoded it returns, up to `n`, which is larger than any of its records. With -EAGAIN *wants is
	 * LAYER_WANTS_WRITE when only EPOLLOUT will help. */
	ssize_t (*read)(struct http_layer *l, char *p, size_t n, enum layer_wants *wants);
	/* As send: fewer bytes than given only when the socket takes no more. After -EAGAIN, or fewer bytes, the rest
	 * must come again, from anywhere, with more behind it or not. */
	ssize_t (*write)(struct http_layer *l, const char *p, size_t n);
	/* The handshake is done. */
	bool (*ready)(const struct http_layer *l);
	/* Says goodbye, as far as the socket takes it. Nothing is written after. */
	void (*goodbye)(struct http_layer *l);
	void (*free)(struct http_layer *l);
};

/* Embedded first in the maker's own object. */
struct http_layer {
	const struct http_layer_ops *ops;
};

/* For a connection that was just accepted; NULL: it is closed. The descriptor stays the connection's. */
typedef struct http_layer *(*http_layer_open)(void *arg, int fd);
