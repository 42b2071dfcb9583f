/*
 * isolate.h - the warden's own walls, put up at start: a root of its own that shows only its directories, an empty
 * network namespace, fewer capabilities, its own seccomp filter. Descriptors that were opened before stay valid.
 *
 *	/proc    the host's            /run     $ATOLL_RUN       /images  $ATOLL_IMAGES
 *	/data    $ATOLL_DATA           /ids     the machine-wide directory of id ranges
 *	/pool    the pool (cage/pool/pool.h), or empty
 *	/box     empty, with proc/ and dev/: the first root of half-made boxes
 */
#pragma once

#include "proto/errc.h"

struct isolate_paths {
	const char *run, *data, *images, *ids;
	const char *pool; /* a directory of the host, or NULL */
	int pool_mount;	  /* a detached mount, or -1 */
};

int isolate_mounts(const struct isolate_paths *p, struct err *e);
/* The last step: afterwards the warden can only make and end boxes. */
int isolate_privileges(struct err *e);
