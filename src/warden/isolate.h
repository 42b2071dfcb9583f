/*
 * isolate.h - the warden's own walls, put up at start: a root of its own that shows only its directories, an empty
 * network namespace, fewer capabilities, its own seccomp filter. Descriptors that were opened before stay valid.
 *
 *	/proc    the host's            /run     $ATOLL_RUN       /images  $ATOLL_IMAGES
 *	/data    $ATOLL_DATA           /ids     the machine-wide directory of id ranges
 *	/box     empty, with proc/ and dev/: what half-made boxes take as their first root
 */
#pragma once

#include "proto/errc.h"

struct isolate_paths {
	const char *run, *data, *images, *ids;
};

int isolate_mounts(const struct isolate_paths *p, struct err *e);
/* Last: afterwards nothing but making boxes works. */
int isolate_privileges(struct err *e);
