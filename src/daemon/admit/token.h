/*
 * token.h - the secret that a TCP client must show: "Authorization: Bearer <token>".
 *
 * The token is the only line of a file with mode 0600. A file that other users may read, or that is too short to be a
 * secret, is refused. A comparison takes the same time for every input.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

enum { TOKEN_MIN = 16, TOKEN_MAX = 256 };

struct token {
	char text[TOKEN_MAX + 1];
	size_t n;
};

/* Reads the file. If there is none, makes it with 32 random bytes in hex. */
int token_load(const char *path, struct token *ret, struct err *e);

/* The token alone, without its scheme. */
bool token_equals(const struct token *t, struct str given);
