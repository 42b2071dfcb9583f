/*
 * s3.h - a client for object stores that speak S3. Blocking; one thread.
 *
 * Requests are signed (aws/sigv4.h) and go to endpoint/bucket/prefix/name. A request that fails in a way that may pass
 * (no connection, a body that is cut, 408, 429, 5xx) is tried again, S3_TRIES times, after pauses that grow and are
 * random. A get goes on where it was cut. A put is done when the server's ETag is the MD5 of what was sent; servers
 * that encrypt with keys of their own (aws:kms) have other ETags, which are not compared.
 *
 * Names and prefixes are letters, digits, '.', '_', '-' and '/'. Functions return 0 or -1 with *e.
 */
#pragma once

#include "base/buf.h"
#include "proto/errc.h"
#include "s3/limits.h"

struct s3;

/* `url` is s3://bucket/prefix. `file` has lines "name = value": endpoint (https://…), region (us-east-1),
 * access_key_id, secret_access_key; lines with '#' are comments. Only its owner may read it. */
int s3_open(const char *url, const char *file, struct s3 **ret, struct err *e);
void s3_close(struct s3 *s);

int s3_put(struct s3 *s, const char *name, struct str bytes, struct err *e);
/* One that is not there is a success. */
int s3_delete(struct s3 *s, const char *name, struct err *e);

/* Pieces of an object in order. NOT_FOUND. */
typedef int (*s3_on_bytes)(void *arg, const char *p, size_t n, struct err *e);
int s3_get(struct s3 *s, const char *name, s3_on_bytes on_bytes, void *arg, struct err *e);

/* Every name below the prefix, without it. */
typedef int (*s3_on_name)(void *arg, const char *name, struct err *e);
int s3_list(struct s3 *s, s3_on_name on_name, void *arg, struct err *e);

/* A put in parts, each of S3_PART bytes but the last. Nothing is there before s3_upload_end. */
struct s3_upload {
	struct s3 *s;
	char name[S3_NAME_MAX + 1];
	char id[S3_SETTING_MAX + 1];
	unsigned parts;
	struct buf tags; /* of the parts, as XML */
};
int s3_upload_begin(struct s3 *s, const char *name, struct s3_upload *ret, struct err *e);
int s3_upload_part(struct s3_upload *u, struct str bytes, struct err *e);
int s3_upload_end(struct s3_upload *u, struct err *e);
/* By name and id, also of a process that is gone. One that is not there is a success. */
int s3_upload_abort(struct s3 *s, const char *name, const char *id, struct err *e);
void s3_upload_free(struct s3_upload *u);
