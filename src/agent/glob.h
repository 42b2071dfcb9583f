/*
 * glob.h - the patterns of watch's include and exclude: '*' (within a name), '**' (across names), '?' (one character).
 *
 * Anything else stands for itself: no brackets, no braces, as upstream. A pattern without '/' is matched against every
 * name on the path ("node_modules" excludes whatever lies below one); a pattern with '/' against the whole relative
 * path. Matching takes time linear in pattern × path, whatever the pattern.
 */
#pragma once

#include "base/str.h"

/* `path` is relative to the watched directory, without a leading '/'. */
bool glob_match(struct str pattern, struct str path);
