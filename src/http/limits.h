/*
 * limits.h - the limits of HTTP connections: quantities that a client, a box or the network can drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#include "base/limits.h"

/* HTTP: one connection */
#define HTTP_HEAD_MAX	       (32u * KIB) /* request or response head, all lines together */
#define HTTP_TARGET_MAX	       (8u * KIB)
#define HTTP_HEADERS_MAX       100
#define HTTP_REASON_MAX	       256 /* of a server behind, passed on */
#define HTTP_CHUNK_EXT_MAX     256
#define HTTP_OUT_HIGH	       (64u * KIB) /* a writer is told to stop here … */
#define HTTP_OUT_LOW	       (16u * KIB) /* … and to go on here */
#define HTTP_READ_CHUNK	       (64u * KIB)
#define HTTP_KEEP	       (1u * KIB)  /* memory that an empty buffer of a connection keeps for the next bytes */
#define HTTP_TURN_MAX	       (1u * MIB)  /* bytes sent before a writer must let others have their turn */
#define HTTP_TURN_CHUNKS       256	   /* chunks read from one connection in a turn of the loop */
#define HTTP_CHUNK_SMALL       (1u * KIB)  /* shorter chunks are passed on as one … */
#define HTTP_CHUNK_GATHER      (16u * KIB) /* … of at most this length */
#define HTTP_STRANGER_REQUESTS 100	   /* of one connection without a token, before it is closed */
#define HTTP_STRANGER_WAITS    8	   /* so often it waits before those that have had an answer */
#define HTTP_HEAD_TIMEOUT      10000	   /* first byte of a head to its last */
#define HTTP_IDLE_TIMEOUT      75000	   /* kept-alive connection without a request */
#define HTTP_BODY_STALL	       60000	   /* no byte of a body that was announced */
#define HTTP_SEND_STALL	       300000	   /* a client that takes no byte of a response */
#define HTTP_LINGER	       2000	   /* after a refusal, for the client to read it */
#define HTTP_GONE_PROBE	       100	   /* half-closed TCP client: when to find out whether it is still there */
#define HTTP_CONNECT_TIMEOUT   5000
#define HTTP_CONTINUE_WAIT     1000  /* for the 100 Continue of a server behind a proxy */
#define HTTP_STARVED	       1000  /* a call to a box's server without an answer: idle connections are let go */
#define HTTP_POOL_IDLE_TIMEOUT 30000 /* shorter than HTTP_IDLE_TIMEOUT: the client lets go first */
#define HTTP_DRAIN_MAX	       (256u * KIB) /* rest of a body nobody wants, read to keep the connection */
#define HTTP_POOL_IDLE_MAX     8	    /* kept-alive connections to one box */
#define WS_FRAME_MAX	       (1u * MIB)   /* longer messages are sent in several frames */
#define WS_MESSAGE_MAX	       (4u * MIB)
#define WS_CLOSE_TIMEOUT       3000
#define SSE_EVENT_MAX	       (4u * MIB)

/* HTTP: the places of a server (http/server/places.h); shares are of the connections that it may have */
#define HTTP_CONNS_MAX		  8192
#define HTTP_LOCAL_SHARE	  16 /* one in so many is kept for the unix socket */
#define HTTP_STRANGERS_SHARE	  4  /* one in so many for clients that have not authenticated … */
#define HTTP_STRANGERS_KEPT_SHARE 4  /* … of which one in so many stays while idle connections can go instead */
#define HTTP_GUESTS_SHARE	  2  /* one in so many for previews … */
#define HTTP_ADDRESS_MAX	  1024 /* of one address that have not authenticated: a client may open hundreds at once */
#define HTTP_LINGERING_MAX	  512 /* of those, how many may read a refusal at once */
