/*
 * dockerfile.h - reads a Dockerfile as far as Atoll can build it: FROM of upstream's image, EXPOSE, ENV, WORKDIR, USER,
 * LABEL, ARG and CMD.
 *
 * Every other instruction is an error with its line: wrangler shows it and does not start, instead of a container that
 * never comes. Variables ($NAME, ${NAME}, ${NAME:-word}) are replaced by what ARG, --build-arg and ENV have set. Pure
 * functions; the text may be hostile.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { DOCKERFILE_MAX = 1024 * 1024, DOCKERFILE_VARS_MAX = 1024, DOCKERFILE_VALUE_MAX = 64 * 1024 };

struct dockerfile_var {
	char *name, *value;
	bool env; /* of ENV; else of ARG */
};

struct dockerfile {
	struct dockerfile_var *vars;
	size_t vars_n;
	size_t visible; /* those that were set before the current instruction */
	char *cmd;	/* a JSON array, or NULL */
	char *workdir;	/* or NULL */
	char *warning;	/* for the user, or NULL */
	bool from;
};

/* `args` are "NAME=value" of --build-arg. -1: e->msg begins with "Dockerfile:LINE: ". */
int dockerfile_read(struct str text, const char *const *args, size_t args_n, struct dockerfile *ret, struct err *e);
void dockerfile_free(struct dockerfile *d);
/* {"env":{…},"cmd":[…]}, as POST /atoll/build takes it. */
void dockerfile_json(const struct dockerfile *d, struct buf *ret);
