/*
 * image.h - the verbs for images: build, import, export, pull, push, images, image.
 *
 *	image.c      images, image ls|inspect|rm|prune|tag
 *	transfer.c   a request with a body of any size, and the events that answer it
 *	move.c       import, export, pull, push
 *	build.c      build: packs the context, shows the steps
 *	ignore.c     .dockerignore
 *	secrets.c    build --secret
 */
#pragma once

#include "cli/client.h"
#include "proto/image.h"

/* POST to the daemon. The body is the rest of `fd` (a pipe or a file), or `json` when fd is -1. Events go to on_event,
 * which returns -1 with *e to stop. An event of type "error" ends the call with its sentence. */
struct image_transfer {
	const char *target;
	int fd;
	struct str json;
	struct str before; /* goes before what `fd` has */
	int (*on_event)(void *arg, const struct json *event, struct err *e);
	void *arg;
};
int image_transfer(struct client *cl, const struct image_transfer *t, struct err *e);

/* --secret of a build as JSON: {"id": "base64"}. */
struct arg_list;
int image_secrets(const struct arg_list *all, struct buf *ret, struct err *e);

/* The body of a GET to a descriptor. */
int image_fetch(struct client *cl, const char *target, int out, struct err *e);

/* "/v1/images/<name, percent-encoded>" */
void image_path(struct buf *ret, const char *name);
void image_query(struct buf *to, const char *name, const char *value);

/* A child that writes the directory as a tar into the returned pipe; `ignore` may be NULL. `dockerfile` goes along as
 * IMAGE_STDIN_FILE unless it is empty. */
struct ignore;
int image_pack_dir(const char *dir, const struct ignore *ignore, struct str dockerfile, pid_t *ret_pid, struct err *e);
/* 0 when the child has packed everything. */
int image_pack_end(pid_t pid, struct err *e);

/* ---- ignore.c ---- */

/* Patterns of a .dockerignore: '*', '?', '[…]', '**', '!' takes a match back, the last match counts. */
struct ignore {
	char **v;
	size_t n;
};
void ignore_parse(struct str text, struct ignore *ret);
/* `path` is relative, without a slash at its end. */
bool ignore_has(const struct ignore *i, const char *path);
/* A directory that is ignored may still hold files that a '!' takes back. */
bool ignore_has_exceptions(const struct ignore *i);
void ignore_free(struct ignore *i);
