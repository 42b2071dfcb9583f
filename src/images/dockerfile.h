/*
 * dockerfile.h - reads a Dockerfile: instructions with their flags, words and here-documents, each with its place.
 *
 * Pure functions over text; the text is a client's. Errors name line and column ("Dockerfile:3:1: …"). Variables are
 * not replaced here: their values are known when an instruction runs (dockerfile_expand).
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "images/images.h"
#include "proto/errc.h"

enum {
	DOCKERFILE_MAX = 1024 * 1024,
	DOCKERFILE_STEPS_MAX = 1000,
	DOCKERFILE_VALUE_MAX = 256 * 1024, /* of a text with its variables replaced */
	DOCKERFILE_PATTERN_MAX = 200,	   /* of a pattern, and of the value that it is used on */
};

enum df_kind {
	DF_ADD,
	DF_ARG,
	DF_CMD,
	DF_COPY,
	DF_ENTRYPOINT,
	DF_ENV,
	DF_EXPOSE,
	DF_FROM,
	DF_HEALTHCHECK,
	DF_LABEL,
	DF_MAINTAINER,
	DF_ONBUILD,
	DF_RUN,
	DF_SHELL,
	DF_STOPSIGNAL,
	DF_USER,
	DF_VOLUME,
	DF_WORKDIR,
	DF_KINDS
};

struct heredoc {
	char *name, *content;
	bool expand; /* its end mark was not quoted */
};

struct df_step {
	enum df_kind kind;
	unsigned line, column; /* of the instruction */
	struct words flags;    /* "--from=x" */
	char *text;	       /* behind the flags, continued lines joined */
	struct words json;     /* of the exec form */
	bool is_json;
	struct heredoc docs[8];
	size_t docs_n;
};

struct dockerfile {
	struct df_step *v;
	size_t n;
	char escape;
};

int dockerfile_parse(struct str text, struct dockerfile *ret, struct err *e);
/* The instruction of an ONBUILD: it is v[1] of *ret. */
int dockerfile_onbuild(const char *text, struct dockerfile *ret, struct err *e);
void dockerfile_free(struct dockerfile *d);
const char *dockerfile_name(enum df_kind kind);
/* The value of --name=…, or NULL. */
const char *dockerfile_flag(const struct df_step *s, const char *name);
/* "Dockerfile:3:1: …" */
int dockerfile_error(const struct df_step *s, struct err *e, const char *fmt, ...) PRINTF_LIKE(3, 4);

typedef const char *(*df_lookup)(void *arg, struct str name);
/* Replaces $a, ${a}, ${a:-b}, ${a:+b}, ${a:?b}, ${a#b}, ${a%b}, ${a/b/c} in a plain text, where quotes mean nothing and
 * only an escaped '$' loses its escape character. */
int dockerfile_expand(struct str text, char escape, df_lookup lookup, void *arg, struct buf *ret, struct err *e);
/* The same for one word: quotes and escape characters are taken off. */
int dockerfile_word(struct str text, char escape, df_lookup lookup, void *arg, struct buf *ret, struct err *e);
/* Splits at blanks outside of quotes, then reads each word. lookup NULL: '$' is a plain byte. */
int dockerfile_words(struct str text, char escape, df_lookup lookup, void *arg, struct words *ret, struct err *e);
