/*
 * glob.h - the patterns of watch's include and exclude: '*' (within a name), '**' (across names), '?' (one character).
 *
 * Anything else stands for itself: no brackets, no braces, as upstream. A pattern matches a path when it matches one or
 * more consecutive whole names of it, anywhere: "node_modules" and "src/gen" match every path below such a directory,
 * "src/?.ts" also matches "lib/src/a.ts". Matching takes time linear in pattern × path for every pattern.
 */
#pragma once

#include "base/str.h"

/* `path` is relative to the watched directory, or absolute when the pattern is. */
bool glob_match(struct str pattern, struct str path);
