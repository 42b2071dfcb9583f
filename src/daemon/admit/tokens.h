/*
 * tokens.h - who may use the API over TCP: the token of the file (token.h), and named tokens.
 *
 * POST /v1/tokens makes a named token and tells its value once; the store keeps the name and a SHA-256 of the value. A
 * named token has the rights of the file's token, until it is revoked or its time is over. Revoking also ends the
 * tokens, console sessions, links and tickets that were made with it, and cuts its requests that are under way
 * (route/tokens_api.c). The file's token cannot be revoked here. Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "daemon/admit/token.h"
#include "daemon/limits.h"
#include "store/store.h"

struct tokens;

enum { NAMED_TOKEN_LEN = 6 + 64 }; /* "atoll_" and 32 random bytes in hex */

/* What a client asks for. */
struct token_wish {
	char name[TOKEN_NAME_MAX + 1];
	uint64_t ttl_ms;		  /* 0: for ever */
	char made_by[TOKEN_NAME_MAX + 1]; /* the named token of the request; "": none */
};

bool token_name_ok(struct str name);
/* Reads the body of POST /v1/tokens. */
int token_wish_read(struct str body, struct token_wish *ret, struct err *e);

struct tokens *tokens_new(const struct token *file);
/* The tokens of the store. Before store_start. */
int tokens_load(struct tokens *t, struct store *s, struct err *e);

/* The token of "Authorization: Bearer …"; p == NULL: it has none. */
struct str tokens_bearer(struct str authorization);
/* Whether the text is a token that is valid now. */
bool tokens_has(const struct tokens *t, struct str given);
/* The same for a client that uses it: its name ("" for the file's), or NULL. The time of use is remembered. */
const char *tokens_use(struct tokens *t, struct str given);
bool tokens_has_name(const struct tokens *t, const char *name);
/* When the token ends (wall clock, ms); 0: never, or there is none. */
int64_t tokens_expiry(const struct tokens *t, const char *name);
/* When the next of all ends; 0: none does. */
int64_t tokens_next_expiry(const struct tokens *t);
/* The name of a token whose time is over, or NULL. */
const char *tokens_expired(const struct tokens *t);

/* A token that was made with this one, or NULL. */
const char *tokens_made_by(const struct tokens *t, const char *name);

/* Makes one; on_done comes when the store has it. *ret_value is the only copy of the value. */
int tokens_make(struct tokens *t, const struct token_wish *wish, char ret_value[NAMED_TOKEN_LEN + 1],
	store_on_done on_done, void *arg, struct err *e);
/* It is worth nothing from now on; on_done comes when the store has forgotten it. No effect if there is none. */
void tokens_remove(struct tokens *t, const char *name, store_on_done on_done, void *arg);
/* Writes name, madeBy, createdAt, expiresAt and lastUsedAt into an object that has begun. */
void tokens_show(const struct tokens *t, const char *name, struct json_writer *w);
/* An array of them, oldest first. */
void tokens_list(const struct tokens *t, struct json_writer *w);
