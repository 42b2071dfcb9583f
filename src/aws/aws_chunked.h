/*
 * aws_chunked.h - reads the body of an upload that its client signed chunk by chunk (Content-Encoding: aws-chunked,
 * x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD):
 *
 *	hex-size;chunk-signature=…\r\n bytes \r\n … 0;chunk-signature=…\r\n [trailers] \r\n
 *
 * The signatures are those of keys that mean nothing, so they are dropped with the framing; what is left is the object.
 * Strict: sizes are hexadecimal and bounded, lines are at most AWS_LINE_MAX, nothing may follow the end. The input
 * comes in pieces of any length; bytes of the object are appended to `out` as they come.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

enum { AWS_LINE_MAX = 1024, AWS_TRAILERS_MAX = 8192 };

struct aws_chunked {
	int state;
	uint64_t left;	/* of the chunk */
	uint64_t total; /* bytes of the object so far */
	size_t line_n, trailers_n;
	char line[AWS_LINE_MAX];
};

/* False: malformed, for good. A zeroed struct begins. */
bool aws_chunked_feed(struct aws_chunked *c, struct str in, struct buf *out);
/* The last chunk and the empty line after it have come. */
bool aws_chunked_ended(const struct aws_chunked *c);
