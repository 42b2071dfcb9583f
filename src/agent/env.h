/*
 * env.h - environments and changes to them.
 *
 * An environment is a list of "NAME=value", sorted by name, ready for execve. A change list may also hold a "NAME"
 * without '=', which unsets the variable. Order of inheritance: the box's environment, then the session's changes, then
 * the command's.
 */
#pragma once

#include "base/json.h"
#include "base/str.h"
#include "proto/errc.h"

struct env {
	char **v; /* NULL at the end, once anything was set */
	size_t n, cap;
};

void env_free(struct env *e);
#define auto_env __attribute__((cleanup(env_free)))

void env_put(struct env *env, struct str name, struct str value);
void env_unset(struct env *env, struct str name);
/* NULL when the variable is not set. */
const char *env_get(const struct env *env, const char *name);
/* Copies every entry of `from` over `env`; "NAME" entries unset. */
void env_apply(struct env *env, const struct env *from);
/* Joins two change lists: "NAME" entries are copied like others. */
void env_apply_raw(struct env *env, const struct env *from);
/* For execve; never NULL. */
const char *const *env_vector(const struct env *env);
/* Adds all of an environ-style vector. */
void env_import(struct env *env, char *const *v);

/* ^[A-Za-z_][A-Za-z0-9_]*$ */
bool env_name_ok(struct str name);

/* Reads object member `key` as a change list: strings set, null unsets. A missing member is no change.
 * COMMAND_EXECUTION_ERROR "Invalid environment variable name: A-B" (upstream's words), VALIDATION_FAILED otherwise. */
int env_read(const struct json *object, const char *key, struct env *ret, struct err *e);
