/*
 * filesize.h - how long the files of a box may be (RLIMIT_FSIZE): BOX_FILE_SHARE times its disk, or the largest of its
 * volumes if that is larger. The limit belongs to processes, not to places, so it counts in all directories alike.
 *
 * A box gets the limit with its start (cage/init.c), a context with its fork (worker/join.c). This sets another one for
 * all processes of a box that runs. For that the warden needs CAP_SYS_RESOURCE, which some containers do not give it:
 * then the limit counts from the next start of the box.
 */
#pragma once

#include "base/base.h"

struct box;

uint64_t filesize_of(const struct box *b);
/* For all processes of the box. */
void filesize_set(const struct box *b);
