/*
 * filesize.h - how long the files of a box may be (RLIMIT_FSIZE): BOX_FILE_SHARE times its disk.
 *
 * A box gets the limit with its start (cage/init.c), a context with its fork (worker/join.c). This sets another one for
 * all processes of a box that runs. For that the warden needs CAP_SYS_RESOURCE, which some containers do not give it:
 * then the limit counts from the next start of the box.
 */
#pragma once

#include "base/base.h"

struct warden;

void filesize_set(struct warden *w, uint32_t slot, uint64_t disk_bytes);
