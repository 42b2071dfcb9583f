/*
 * token.h - the secret that a TCP client must show: "Authorization: Bearer <token>".
 *
 * It lies in one file, mode 0600, one line. A file that others may read, or that is too short to be a secret, is
 * refused. Comparing takes the same time whatever is sent.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

enum { TOKEN_MIN = 16, TOKEN_MAX = 256 };

struct token {
	char text[TOKEN_MAX + 1];
	size_t n;
};

/* Reads the file; makes it (32 random bytes in hex) when it is not there and the directory is writable. */
int token_load(const char *path, struct token *ret, struct err *e);

/* The token alone, without its scheme. */
bool token_equals(const struct token *t, struct str given);
/* `authorization` is the header's value; p == NULL when there was none. */
bool token_matches(const struct token *t, struct str authorization);
