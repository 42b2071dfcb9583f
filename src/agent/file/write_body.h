/*
 * write_body.h - the JSON body of /api/write, taken in while it arrives: fields are remembered, the content goes to
 *disk.
 *
 * Members may come in any order, and upstream's client sends `sessionId` and `encoding` after `content`. So the decoded
 * text is gathered: in memory while it is short (WRITE_SPILL); then beside its target if path and session are known by
 * then, in an unnamed file otherwise. Base64 is decoded on its way when the encoding is known, at the end when it is
 * not. Memory is constant, whatever the length.
 *
 *	write_body_init → write_body_feed … → write_body_end → write_body_step until it is done → write_body_free
 */
#pragma once

#include "agent/file/replace.h"
#include "agent/limits.h"
#include "base/base64.h"
#include "base/json.h"

enum write_field { WRITE_NONE, WRITE_PATH, WRITE_CONTENT, WRITE_ENCODING, WRITE_SESSION, WRITE_FIELDS };

struct write_body {
	struct json_parser parser;
	int depth;
	enum write_field field; /* whose value is being read */
	bool seen[WRITE_FIELDS], have[WRITE_FIELDS];
	struct buf key, path, encoding, session;
	bool key_long;
	bool bad_base64; /* what the error was about */

	struct buf content;	   /* what is not on disk yet: at most WRITE_SPILL */
	struct file_replace to;	   /* open once its place is known */
	struct file_replace spill; /* unnamed, while it is not */
	struct base64_decoder decoder;
	bool decoded;  /* what is on disk is no longer base64 */
	uint64_t from; /* write_body_step: how far it has read … */
	uint64_t put;  /* … and written */
};

void write_body_init(struct write_body *w);
/* Takes back what was not put in place. */
void write_body_free(struct write_body *w);
int write_body_feed(struct write_body *w, struct str piece, struct err *e);
/* All has come: checks that it is complete. */
int write_body_end(struct write_body *w, struct err *e);
/* Puts the content in place, at most WRITE_STEP bytes a call: 1 when there is more to do, 0 when it is there, -1. */
int write_body_step(struct write_body *w, struct err *e);
