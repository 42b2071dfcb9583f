/*
 * options.h - the text behind -o of fusermount, as libfuse and FUSE programs write it, turned into a record.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/fuse.h"

/* Adds the options of one -o to `ask`. A backslash takes the next character as it is. Options that a box cannot have
 * are errors, options without an effect are taken. False: *ret_bad has the option that is not known or does not fit. */
bool options_take(const char *text, struct fuse_ask *ask, bool *ret_auto_unmount, char *ret_bad, size_t bad_size);
