/*
 * write_body.h - parses the JSON body of /api/write while it arrives and writes the content to disk.
 *
 * Members may come in any order, and upstream's client sends `sessionId` and `encoding` after `content`. So the content
 * is gathered first: in memory while it is short (WRITE_SPILL); then beside its target if path and session are known,
 * else in an unnamed file. Base64 is decoded at once when the encoding is known, else at the end. Memory is constant
 * for every length.
 *
 *	write_body_init → write_body_feed … → write_body_end → write_body_step until it is done → write_body_free
 */
#pragma once

#include "agent/file/replace.h"
#include "agent/limits.h"
#include "agent/request/fields.h"
#include "base/base64.h"
#include "base/json.h"

enum write_field { WRITE_NONE, WRITE_PATH, WRITE_CONTENT, WRITE_ENCODING, WRITE_SESSION, WRITE_FIELDS };

struct write_body {
	struct json_parser parser;
	int depth;
	enum write_field field; /* the field whose value is being read */
	bool seen[WRITE_FIELDS], have[WRITE_FIELDS];
	struct buf key, path, encoding, session;
	struct field_found found[FIELD_WARNINGS_MAX]; /* names that are no fields */
	size_t found_n;
	bool bad_base64; /* the error is about invalid base64 */

	struct buf content;	   /* the part that is not on disk yet: at most WRITE_SPILL */
	struct file_replace to;	   /* open once the target is known */
	struct file_replace spill; /* unnamed, while the target is not known */
	struct base64_decoder decoder;
	bool decoded;  /* the part on disk has been decoded from base64 */
	uint64_t from; /* write_body_step: offset of the next read … */
	uint64_t put;  /* … and of the next write */
};

void write_body_init(struct write_body *w);
/* Drops content that was not put in place. */
void write_body_free(struct write_body *w);
int write_body_feed(struct write_body *w, struct str piece, struct err *e);
/* Checks that the body is complete. */
int write_body_end(struct write_body *w, struct err *e);
/* Puts the content in place, at most WRITE_STEP bytes a call: 1 when there is more to do, 0 when it is done, -1. */
int write_body_step(struct write_body *w, struct err *e);
