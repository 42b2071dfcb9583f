/*
 * size.h - sizes as people write them: bytes, or a number with K, M, G or T (powers of 1024).
 */
#pragma once

#include "base/str.h"

/* False when the text is no size, or one past INT64_MAX. */
bool size_parse(struct str text, uint64_t *ret);
