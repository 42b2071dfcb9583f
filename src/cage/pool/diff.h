/*
 * diff.h - what has changed between a snapshot of a layer and the layer: names and kinds of files, never their content.
 *
 * A snapshot keeps the numbers and times of files, so a file is the same if those are the same. Deleted files of the
 * image are whiteouts in a layer; one for a directory stands for all that is in it. A directory in the place of a
 * deleted one has a mark of the overlay.
 *
 * The result goes to a descriptor as a row of records: a byte, a path below the root of the box, a NUL. The byte is
 * 'A' (added), 'C' (changed) or 'D' (deleted). The last record is 'E', or 'T' when there was more; both have no path.
 * Names are what the box made of them: any bytes but NUL and '/'.
 */
#pragma once

#include "proto/errc.h"

struct diff_image {
	const int *roots; /* of its layers, the highest first */
	size_t n;
};

/* `layer` and `snapshot` are root directories of layers. 0 or -errno. */
int diff_write(int layer, int snapshot, const struct diff_image *image, int out);
