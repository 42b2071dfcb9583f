/*
 * caps.h - sets of capabilities. All are masks of (1 << CAP_X).
 */
#pragma once

#include "proto/errc.h"

/* For root in a box: enough to own files, switch users and bind low ports; nothing that reaches the kernel. */
#define CAPS_BOX                                                                                                       \
	(1ull << 0 /* CHOWN */ | 1ull << 1 /* DAC_OVERRIDE */ | 1ull << 3 /* FOWNER */ | 1ull << 4 /* FSETID */ |      \
		1ull << 5 /* KILL */ | 1ull << 6 /* SETGID */ | 1ull << 7 /* SETUID */ | 1ull << 8 /* SETPCAP */ |     \
		1ull << 10 /* NET_BIND_SERVICE */ | 1ull << 18 /* SYS_CHROOT */ | 1ull << 31 /* SETFCAP */)

/* For the warden, which makes boxes. */
#define CAPS_WARDEN                                                                                                    \
	(1ull << 0 /* CHOWN */ | 1ull << 1 /* DAC_OVERRIDE */ | 1ull << 2 /* DAC_READ_SEARCH */ |                      \
		1ull << 3 /* FOWNER */ | 1ull << 4 /* FSETID: the storer copies files */ | 1ull << 5 /* KILL */ |      \
		1ull << 6 /* SETGID */ | 1ull << 7 /* SETUID */ | 1ull << 31 /* SETFCAP: the storer */ |               \
		1ull << 8 /* SETPCAP */ | 1ull << 18 /* SYS_CHROOT */ | 1ull << 19 /* SYS_PTRACE */ |                  \
		1ull << 21 /* SYS_ADMIN */ | 1ull << 23 /* SYS_NICE */ | 1ull << 24 /* SYS_RESOURCE */ |               \
		1ull << 27 /* MKNOD */)

/* For the warden besides, on kernels that ask for it when a map of sockets is made. */
#define CAPS_SOCKMAP (1ull << 12 /* NET_ADMIN */)

/* For the reaper, which deletes the files of destroyed boxes. */
#define CAPS_REAPER (1ull << 1 /* DAC_OVERRIDE */ | 1ull << 3 /* FOWNER */)

/* For the storer, which makes, copies and deletes subvolumes. */
#define CAPS_STORER                                                                                                    \
	(1ull << 0 /* CHOWN */ | 1ull << 1 /* DAC_OVERRIDE */ | 1ull << 3 /* FOWNER */ | 1ull << 4 /* FSETID */ |      \
		1ull << 18 /* SYS_CHROOT: receive_life */ | 1ull << 21 /* SYS_ADMIN */ |                               \
		1ull << 24 /* SYS_RESOURCE */ | 1ull << 27 /* MKNOD */ | 1ull << 31 /* SETFCAP */)

/* Cuts the bounding set down to `keep`: no exec of this process or its children brings more back. */
int caps_bound(uint64_t keep, struct err *e);
/* Cuts permitted and effective down to `keep`, as far as they have it; inheritable and ambient become empty. */
int caps_limit(uint64_t keep, struct err *e);
