/*
 * spec.h - the settings of a sandbox that PUT /v1/sandboxes/{id} may change: read from JSON, checked, merged.
 *
 * A missing field keeps its value (in a new sandbox: its default); an unknown field is refused by name. env and labels
 * are kept as the JSON text of one object whose values are all strings. The text is written anew here, so stored and
 * shown text is well-formed for every input. env replaces all variables; envChanges replaces those that it names, and
 * null unsets one.
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "proto/errc.h"
#include "proto/limits.h"
#include "proto/warden.h"

struct api_spec {
	struct box_limits limits;
	char image[BOX_IMAGE_NAME_MAX + 1];
	uint64_t sleep_after_ms; /* 0: never; SLEEP_DEFAULT: nobody chose */
	bool keep_alive;
	char *env, *labels; /* owned */
	char *network;	    /* owned; what was asked for: network.h */
	char *settings;	    /* owned; settings.h */
};

/* "30s", "10m", "1h", or a number of seconds. False: something else, or more than BOX_SLEEP_MAX. */
bool api_duration(struct str text, uint64_t *ret_ms);

void api_spec_default(struct api_spec *ret);
void api_spec_copy(struct api_spec *to, const struct api_spec *from); /* `to` is not freed before */
void api_spec_free(struct api_spec *s);
bool api_spec_equal(const struct api_spec *a, const struct api_spec *b);
/* What a sandbox has that a first request made, without any setting. */
bool api_spec_is_default(const struct api_spec *s);

/* Where files come from: one of them. */
struct api_from {
	char snapshot[SNAPSHOT_NAME_MAX + 1], sandbox[BOX_ID_MAX + 1];
	char backup[SNAPSHOT_NAME_MAX + 1];
};
/* {"snapshot": id}, {"sandbox": id} or {"backup": id}. -1: VALIDATION_FAILED. */
int api_from_read(const struct json *from, struct api_from *ret, struct err *e);

/* The change that a request asks for: a spec, and which of its fields are set. Zeroed: no change. */
struct api_change {
	struct api_spec spec;
	bool has_memory, has_cpu, has_pids, has_disk, has_image, has_sleep_after,
		has_keep_alive; /* env, labels, network: not NULL */
	bool has_from;
	struct api_from from;
	char image_ref[IMAGE_REF_MAX + 1]; /* as the client wrote it; images_resolve sets spec.image from it */
	struct err no_image;		   /* why its image cannot be had; no code: it is here */
	char *env_changes;		   /* owned; an object of texts and nulls, or NULL */
	const char *instance;		   /* static; whose limits are in it, or NULL */
	char *settings_changes;		   /* owned; the same, of any values */
};

void api_change_free(struct api_change *c);
#define auto_change __attribute__((cleanup(api_change_free)))

/* -1: INVALID_JSON, or VALIDATION_FAILED or INVALID_LIMITS with the field. An empty body asks for nothing. */
int api_change_parse(struct str body, struct api_change *ret, struct err *e);

/* Sets the fields of *s that `c` has. */
void api_change_apply(const struct api_change *c, struct api_spec *s);

/* INVALID_LIMITS about "limits" when the limits are past what the host has. */
int api_limits_check(const struct box_limits *l, const struct warden_host *host, struct err *e);
