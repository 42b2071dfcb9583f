/*
 * limits.h - the limits of atoll-backup: quantities that a box, a client or a store of backups can drive, by name.
 */
#pragma once

#include "base/limits.h"

#define BACKUP_MANIFEST_MAX (1024u * KIB)
#define BACKUP_IDS_MAX	    4096	 /* named by one command line */
#define BACKUP_PIECE	    (256u * KIB) /* read and written at once */
#define BACKUP_TELL_BYTES   (8u * MIB)	 /* of a stream between two lines of progress */
