/*
 * join_image.h - which file a process runs from.
 *
 * /proc/PID/exe leads to the executed file in its own mount. For a context that would be the image's own file, which
 * all boxes share: boxes that watch or lock it would meet there. So the zygote leaves its file, and each child takes
 * the box's view of it, as if the box's agent had executed it.
 */
#pragma once

#include <linux/prctl.h>

/* Once, in the zygote. Copies the program's segments into memory of no file: the kernel lets a process take another
 * file only when no mapping of the old one is left. `phdr` and `n` are the program headers. 0 or a negative errno. */
long zygote_leave_file(const void *phdr, long n, long page);

/* In a child with all capabilities over its user namespace. `map` holds the kernel's addresses of this process. */
long image_take_file(const char *path, const struct prctl_mm_map *map);
