/*
 * secret_text.h - random names that are secrets: tickets, links, sessions.
 */
#pragma once

#include "base/str.h"

enum { SECRET_TEXT_LEN = 40, SECRET_HASH_LEN = 64 };

/* 200 random bits, as lower-case letters and digits. */
void secret_text(char ret[SECRET_TEXT_LEN + 1]);
/* SHA-256 in hex: what is stored of a secret. */
void secret_hash(struct str secret, char ret[SECRET_HASH_LEN + 1]);
