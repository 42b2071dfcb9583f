/*
 * secrets.h - the secrets of this daemon: kept sealed, told to the gate, never shown.
 *
 * A secret is an item of the store (store/item.h). Memory holds it sealed as well (vault.h); the value is in the clear
 * only while a line to the gate is written, in buffers that are wiped. A sandbox names the secrets that it is given in
 * its setting `secrets`; each has a placeholder for it, derived from the daemon's key, the sandbox and the secret's
 * name: no box can guess it, and a sandbox made anew gets another one.
 */
#pragma once

#include "base/json.h"
#include "base/map.h"
#include "proto/errc.h"
#include "proto/limits.h"

struct daemon;
struct sandbox;
struct store;

struct secrets;

/* Reads key and items. Before store_start. */
int secrets_open(struct daemon *d, struct err *e);

/* Makes or changes one: PUT's body. 1: made, 0: changed, -1: VALIDATION_FAILED about the field, LIMIT_REACHED. Wipes
 * the document. Sandboxes that have it get the new one at once. */
int secrets_put(struct daemon *d, const char *name, struct json_doc *body, struct err *e);
/* False: there is none. */
bool secrets_delete(struct daemon *d, const char *name);
/* Its description, without the value; false: there is none. */
bool secrets_show(const struct daemon *d, const char *name, struct json_writer *w);
/* Their names, sorted. */
void secrets_names(const struct daemon *d, void (*each)(void *arg, const char *name), void *arg);
/* A name that can be one. */
bool secrets_name_ok(struct str name);
void secrets_used(struct daemon *d, const char *name, int64_t time_ms);

/* ---- of a sandbox ---- */

/* The setting `secrets`: a list of names (settings.c). */
int secrets_check_setting(const struct json *value, struct err *e);
/* The first name of the setting that there is no secret of: NOT_FOUND. */
int secrets_check_known(const struct daemon *d, const char *settings, struct err *e);
/* Whether the sandbox's setting names it. */
bool secrets_has(const struct sandbox *s, const char *name);
bool secrets_known(const struct daemon *d, struct str name);
/* Whether there is a secret of this name that signs for AWS. */
bool secrets_is_aws(const struct daemon *d, const char *name);
/* The sandbox's placeholder for it. */
void secrets_placeholder(const struct sandbox *s, struct str name, char ret[SECRET_PLACEHOLDER + 1]);
/* Whether its box must trust the gate's authority. */
bool secrets_need_trust(const struct sandbox *s, const char *env, const char *settings);
/* Its variables with those of secrets and trust: an object of texts. The caller frees. */
char *secrets_env(const struct sandbox *s, const char *env, const char *settings);
/* What of them differs between two settings: texts and nulls, with `changes` (or NULL) before. NULL: nothing. */
char *secrets_env_changes(
	const struct sandbox *s, const char *env, const char *before, const char *after, const char *changes);
/* "secrets": [ … ] for the gate, values included. */
void secrets_write(const struct sandbox *s, struct json_writer *w);
