/*
 * sigv4.h - AWS Signature Version 4 in the Authorization header.
 *
 * Paths and queries are taken as they stand on the wire, percent-encoded; both are brought into the canonical form
 * here. S3 signs a path as it is, every other service encodes it a second time. Only headers that are given are signed:
 * at least host, x-amz-date and, for S3, x-amz-content-sha256. Names are in lower case. Nothing is kept; derived keys
 * are wiped.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

#define AWS_UNSIGNED "UNSIGNED-PAYLOAD"
enum { AWS_HASH_HEX = 64, AWS_DATE = 16 /* 20260131T120000Z */, AWS_HEADERS_MAX = 128 };

struct aws_key {
	struct str id, secret;
	struct str region, service;
};

struct aws_header {
	struct str name, value;
};

struct aws_request {
	struct str method, path, query;
	const struct aws_header *headers;
	size_t headers_n;
	struct str payload; /* the hash in hex, or AWS_UNSIGNED or the like */
	char date[AWS_DATE + 1];
};

void aws_date(int64_t wall_ms, char ret[AWS_DATE + 1]);
/* Lower-case hex of the SHA-256. */
void aws_hash(struct str bytes, char ret[AWS_HASH_HEX + 1]);
/* Appends the value of the Authorization header. False: too many headers, or OpenSSL failed. */
bool aws_sign(const struct aws_key *key, const struct aws_request *r, struct buf *ret);

/* For tests: the canonical request. */
bool aws_canonical(const struct aws_request *r, bool s3, struct buf *ret, struct buf *ret_names);
