/*
 * s3_call.h - one signed request with its retries, for s3.c.
 */
#pragma once

#include <curl/curl.h>

#include "s3/s3.h"

struct s3 {
	CURL *curl;
	char endpoint[S3_SETTING_MAX + 1]; /* https://host[:port] */
	char host[S3_SETTING_MAX + 1];
	char path[S3_SETTING_MAX + 1];	 /* of the endpoint; "" mostly */
	char bucket[S3_SETTING_MAX + 1]; /* and prefix: */
	char prefix[S3_SETTING_MAX + 1]; /* "" or with a slash at its end */
	char region[S3_SETTING_MAX + 1], key_id[S3_SETTING_MAX + 1], secret[S3_SETTING_MAX + 1];
};

struct s3_call {
	const char *method, *name; /* name NULL: the bucket itself */
	const char *query;	   /* encoded, sorted; "" */
	struct str body;
	bool check_tag; /* the answer's ETag must be the body's MD5 */
	/* Out. */
	struct buf answer; /* at most S3_ANSWER_MAX; unless on_bytes is set */
	char tag[S3_SETTING_MAX + 1];
	long status;
	/* A get: bytes of a 2xx go here instead. */
	s3_on_bytes on_bytes;
	void *arg;
};

/* -1 with *e also for answers other than 2xx: NOT_FOUND for 404. */
int s3_call_run(struct s3 *s, struct s3_call *c, struct err *e);
void s3_call_free(struct s3_call *c);
