/*
 * limits.h - the limits of atoll-backup: quantities that a box, a client or a store of backups can drive, by name.
 */
#pragma once

#include "base/limits.h"

#define BACKUP_MANIFEST_MAX (1024u * KIB)
#define BACKUP_IDS_MAX	    4096	 /* named by one command line */
#define BACKUP_PIECE	    (256u * KIB) /* read and written at once */
#define BACKUP_TELL_BYTES   (8u * MIB)	 /* of a stream between two lines of progress */
#define BACKUP_COMMAND_MAX  (128u * KIB) /* of a stream; the kernel makes 64 KiB and a head */
#define BACKUP_PATH_MAX	    4096u

/* Of the stream of a sandbox that has `room` bytes: its disk limit, or what it uses if that is more. A stream holds
 * what is on the disk once, but for holes and for blocks that files share more often than the kernel follows (1,024
 * times; 64 times before Linux 6.2). The receiver gives a restore twice the disk and RECEIVE_MORE (cage/limits.h). */
#define BACKUP_KEPT_MAX(room)	    ((room) + (room) / 4 + 64ull * MIB) /* without the zeros that are left out */
#define BACKUP_CHAIN_KEPT_MAX(room) (2 * (room) + 64ull * MIB)		/* with the streams that it builds on */
#define BACKUP_READ_MAX(room)                                                                                          \
	(2 * (room) + 1024ull * MIB) /* with them: the kernel writes 1 GB or more of them a second */
