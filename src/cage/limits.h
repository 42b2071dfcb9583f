/*
 * limits.h - the limits of the machinery of a box: quantities that a client, a box or the network can drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#include "base/limits.h"

/* The warden */
#define WARDEN_PIDS_PERCENT    75u  /* of the machine's process numbers, for all sandboxes together */
#define WARDEN_SOCKETS_PERCENT 50u  /* of the bytes that TCP may have, for all sandboxes together (cgroup v1) */
#define AGENT_CPU	       250u /* thousandths of a CPU that an agent has beside the box's commands */
#define AGENT_MEM_MIN	       (64ull * MIB) /* memory of an agent, where the box's limit is lower */
#define BACKGROUND_WEIGHT      10u	     /* percent of the processor time of a box, for work that can wait */
#define PROGRAM_WEIGHT	       10000u	     /* the same for the gate and for the daemon; the most that v2 has */
#define PROGRAM_MEM_SHARE      4u	     /* of the machine's memory: from a quarter on, v2 slows them down */
#define WARDEN_AGENT_MAX       (64u * MIB)   /* size of the agent's program */

/* Layers that move into the pool */
#define CARRY_DEPTH_MAX	 1000u
#define CARRY_PATH_MAX	 (64u * KIB) /* CARRY_DEPTH_MAX short names, or fewer long ones */
#define CARRY_LINKS_MAX	 1000000u    /* files with several names */
#define CARRY_XATTRS_MAX 65536	     /* names of one file */
#define CARRY_XATTR_MAX	 65536	     /* one value */

/* Comparisons */
#define DIFF_ENTRIES_MAX 100000u
#define DIFF_DEPTH_MAX	 100u /* directories below each other */
#define DIFF_PATH_MAX	 4096
#define DIFF_PIECE	 16384 /* written at once */

/* Backups */
#define RECEIVE_MORE	    (128ull * MIB) /* besides twice the disk, while the files of a backup are received */
#define RECEIVE_COMMAND_MAX (128u * KIB)   /* of a stream; the kernel makes 64 KiB and a head */

/* The pool */
#define POOL_MOUNT_WAIT	    20000	  /* for the end of an earlier mount of the same file */
#define POOL_MOUNT_PAUSE    10		  /* between attempts */
#define LAYER_MOUNT_ROOM    (1ull * MIB)  /* for the directories that an overlay makes at its mount */
#define POOL_FULL	    (32ull * MIB) /* free bytes below which no new sandbox is made */
#define POOL_METADATA_MIN   (16ull * MIB) /* set apart for metadata; a file has less only when it is new */
#define POOL_METADATA_SHARE 3u		  /* of the room for metadata is kept from boxes: a third … */
#define POOL_METADATA_KEPT  (64ull * MIB) /* … at most this; the kernel wants 9 MiB to rename a file */
#define POOL_METADATA_NEAR  2u		  /* times that: the file grows, and looks come often */
#define POOL_ROOM_WAIT	    5000	  /* a create in a full pool waits so long for space that is being freed … */
#define POOL_ROOM_QUIET	    500		  /* … and so long when nothing is seen to be freed … */
#define POOL_ROOM_PAUSE	    50		  /* … with a look so often */
#define POOL_AHEAD	    (1024ull * MIB)  /* free bytes below which the file grows … */
#define POOL_STEP_MIN	    (1024ull * MIB)  /* … by a quarter of its size, at least this … */
#define POOL_STEP_MAX	    (16384ull * MIB) /* … and at most this */
#define POOL_ALIGN	    (1ull * MIB)     /* of the file's size */
#define POOL_RESERVE_SHARE  20u		     /* of the file system below stays free: a twentieth … */
#define DEBT_EXTENTS_MAX    (4u << 20)	     /* extents of a fork that are compared with each other */
#define POOL_RESERVE_MAX    (2048ull * MIB)  /* … at most this */
#define TREE_DEPTH_MAX	    512		     /* directories in each other that are copied with a layer */
/* Certificates that a box trusts */
#define TRUST_BUNDLE_MAX (2 * 1024 * 1024) /* of the image */
