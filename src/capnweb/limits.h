/*
 * limits.h - the limits of one capnweb session: quantities that the peer can drive, by name.
 *
 * Sizes are bytes. tools/check-limits finds limits that nothing uses. A limit that a peer can exceed is tested at the
 * limit and one past it.
 */
#pragma once

#include "base/limits.h"

#define CAPNWEB_HOOKS_MAX      4096	    /* results, promises, stubs, and ids of them; one more ends the session */
#define CAPNWEB_CALLS_MAX      1024	    /* calls that the application has not answered; one more is rejected */
#define CAPNWEB_HELD_MAX       (128u * MIB) /* frames that something still refers to; more ends the session */
#define CAPNWEB_ANSWERS_MAX    (256u * MIB) /* the same of answers, of which each may have 64 MiB */
#define CAPNWEB_NODE_COST      96	    /* what one value of a held frame counts for */
#define CAPNWEB_REFS_MAX       256	    /* references in one value of a frame */
#define CAPNWEB_PATH_MAX       16	    /* names in one path */
#define CAPNWEB_METHOD_MAX     127	    /* characters of a path, joined with dots */
#define CAPNWEB_MAP_MAX	       4096	    /* instructions that one `remap` evaluates, over all elements */
#define CAPNWEB_REPLACED_MAX   (32u * MIB)  /* a value with those of its promises in it: bytes … */
#define CAPNWEB_REPLACED_NODES (256u * KIB) /* … and values; a larger one is an error */
#define CAPNWEB_TOO_LARGE_MAX  8	    /* such errors; one more ends the session */
#define CAPNWEB_WINDOW	       (4u * MIB)   /* of a stream to the peer that it has not acknowledged */
#define CAPNWEB_PIECE	       (64u * KIB)  /* of a stream, gathered for one write; no write of bytes has more */
#define CAPNWEB_EAGER	       (16u * KIB)  /* of a stream, not acknowledged, below which nothing is gathered */
#define CAPNWEB_ERROR_MAX      512	    /* a reason in an `abort` frame */
