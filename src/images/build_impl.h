/*
 * build_impl.h - what the parts of the builder share: build.c (order of the steps), build_steps.c (instructions that
 * change the configuration), build_layers.c (instructions that make a layer), build_mounts.c (RUN --mount).
 */
#pragma once

#include "images/build.h"
#include "images/dockerfile.h"

struct stage {
	char *name; /* of AS; NULL: none */
	bool needed;
	struct image_config config;
};

struct build {
	struct conn *conn;
	struct store *store;
	struct work work, context; /* the box of a step; the box that holds the context */
	struct dockerfile file;
	struct words given;  /* build arguments of the request, NAME=value */
	struct words global; /* ARG before the first FROM */
	struct words scope;  /* ARG of this stage */
	struct stage *stages;
	size_t stages_n, at; /* at: the stage that is being built */
	bool no_cache;
	unsigned step, steps;
	struct buf target; /* the stage that is wanted, or "" */
};

static inline struct image_config *build_config(struct build *b)
{
	return &b->stages[b->at].config;
}

/* The value of a variable: the environment, then arguments. */
const char *build_lookup(void *arg, struct str name);
/* The step's text with variables replaced. */
int build_text(struct build *b, const struct df_step *s, struct buf *ret, struct err *e);
void build_say(struct build *b, const char *type, struct str text);

/* RUN --mount as options of the mover; refuses flags that RUN does not have. */
int build_mounts(struct build *b, const struct df_step *s, struct words *ret, struct err *e);
int step_config(struct build *b, const struct df_step *s, struct err *e);
int step_run(struct build *b, const struct df_step *s, struct err *e);
int step_copy(struct build *b, const struct df_step *s, struct err *e);
/* A reference of FROM or --from: a stage's config, or an image. */
int build_base(struct build *b, const char *ref, struct image_config *ret, struct err *e);
/* A file of the context. */
int build_context_file(struct build *b, const char *path, struct buf *ret, struct err *e);
