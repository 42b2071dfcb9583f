/*
 * build_impl.h - what the parts of the builder share: build.c (order of the steps), build_steps.c (instructions that
 * change the configuration), build_values.c (values of some of them), build_layers.c (instructions that make a layer),
 * build_run.c (RUN), build_mounts.h (RUN --mount), build_secrets.c.
 */
#pragma once

#include "images/build.h"
#include "images/dockerfile.h"

struct stage {
	char *name;	      /* of AS; NULL: none */
	bool needed, has_cmd; /* has_cmd: by an instruction of its own */
	struct image_config config;
	struct words scope; /* its ARG, when it has been built */
};

/* A secret of the request; it is kept in memory alone. */
struct secret {
	char *id;
	struct buf bytes;
};

struct build {
	struct order *order;
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
	struct secret *secrets;
	size_t secrets_n;
};

static inline struct image_config *build_config(struct build *b)
{
	return &b->stages[b->at].config;
}

/* The value of a variable: the environment, then arguments. */
const char *build_lookup(void *arg, struct str name);
/* The words of the step's text, with variables replaced. */
int build_words(struct build *b, const struct df_step *s, struct words *ret, struct err *e);
/* Refuses flags that do not begin with one of these, which end with NULL. */
int build_flags(const struct df_step *s, const char *const *known, struct err *e);
/* "a/../b" becomes "b"; ".." never leads above the root, which is ".". */
void build_clean_path(const char *path, struct buf *ret);
void build_say(const char *type, struct str text);

/* Everything that a step's result depends on: the layers so far, and these words. */
void step_key(struct build *b, const struct words *inputs, char ret[IMAGE_HEX + 1]);
bool from_cache(struct build *b, const char *step);
/* The box of the step, on these layers. */
int build_box(struct build *b, const struct words *layers, const char *network, const char *volumes, struct err *e);
/* The box of the step becomes the next layer, under a name of its own: two runs of one step may differ. */
int keep_layer(struct build *b, const char *step, struct err *e);

/* Files of the context (from NULL), of a stage or of an image, as a plain tar. */
struct build_files {
	int fd;
	uint64_t size;
	bool file; /* it is one file, not what is in a directory */
	char digest[IMAGE_HEX + 1];
};
/* source: NULL for all. */
int build_gather(struct build *b, const struct df_step *s, const char *from, const char *source,
	struct build_files *ret, struct err *e);

/* Secrets of the request: the first bytes of its body (build_secrets.c). */
int secrets_take(struct build *b, struct err *e);
/* NULL in .p: there is none. */
struct str secret_find(const struct build *b, const char *id);

int step_config(struct build *b, const struct df_step *s, struct err *e);
int step_expose(struct build *b, const struct df_step *s, struct words *list, struct err *e);
int step_healthcheck(struct build *b, const struct df_step *s, struct err *e);
int check_signal(const struct df_step *s, const char *name, struct err *e);
/* The directory of WORKDIR, as a layer. */
int step_make_workdir(struct build *b, const struct df_step *s, struct err *e);
int step_run(struct build *b, const struct df_step *s, struct err *e);
int step_copy(struct build *b, const struct df_step *s, struct err *e);
/* A reference of FROM or --from: a stage's config, or an image. */
int build_base(struct build *b, const char *ref, struct image_config *ret, struct err *e);
/* A file of the context. */
int build_context_file(struct build *b, const char *path, struct buf *ret, struct err *e);
