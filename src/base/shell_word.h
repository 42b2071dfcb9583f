/*
 * shell_word.h - a text as one word of a POSIX shell.
 */
#pragma once

#include "base/buf.h"

/* Appends it, quoted if it needs that. It must have no NUL. */
void shell_word(struct buf *ret, struct str word);
