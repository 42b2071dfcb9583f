/*
 * settings.h - what a sandbox has beside its limits, image, variables, labels, sleep and network: one JSON object.
 *
 * A member has a line in the table of settings.c: its name, as in PUT /v1/sandboxes/{id}, and a function that checks
 * its value. PUT gives members at its top level; a member that is missing keeps its value, null takes it away. The
 * object is a column of the sandbox's row, and GET shows its members at the top level again. So a new setting needs a
 * line in the table, its check, and the code that acts on it (settings_get or settings_bool).
 */
#pragma once

#include "base/json.h"
#include "proto/errc.h"

/* Whether PUT takes a member of this name as a setting. */
bool settings_knows(struct str name);

/* The settings that a request names, checked, as the text of an object (nulls stay), for settings_merge. *ret is NULL
 * if it names none. -1: VALIDATION_FAILED about the member. The caller frees. */
int settings_changes(const struct json *request, char **ret, struct err *e);

/* The members of `own` that `changes` does not name, then those that it sets. The caller frees. */
char *settings_merge(const char *own, const char *changes);

/* A member of a settings text; the caller frees the document. NULL in *ret_value: not set. */
struct json_doc *settings_get(const char *settings, const char *name, const struct json **ret_value);
bool settings_bool(const char *settings, const char *name, bool otherwise);

/* Sets or adds a note of the daemon's own: a member whose name begins with '.'. *settings may be NULL; it is replaced.
 */
void settings_note(char **settings, const char *name, struct str json);

/* The members, into an object that is being written. Names that begin with '.' are notes of the daemon's own. */
void settings_write(struct json_writer *w, const char *settings);
