/*
 * limits.h - the limits of atoll-warden: quantities that a client, a box or the network can drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#include "base/limits.h"

/* The warden */
#define WARDEN_BOXES_MAX     4096u
#define WARDEN_POOL	     16u   /* slots prepared ahead … */
#define WARDEN_POOL_IMAGES   4u	   /* … for so many images … */
#define WARDEN_POOL_SHARE    2u	   /* … each of which has so many, but for the last one used, which has the rest */
#define WARDEN_QUEUE_MAX     1024u /* replies that wait for a daemon that does not read; past this it is cut off */
#define WARDEN_BURST	     32	   /* requests taken in one turn of the loop */
#define WARDEN_CLOSING_MAX   256u  /* mounts that wait to be taken down; past this no slots are made */
#define WARDEN_PAGE_OUTS_MAX 4096u /* frozen boxes whose memory waits to go to swap */
#define WARDEN_RETRY	     20	   /* pause before a cgroup that is still busy is removed again */

/* File locks */
#define LOCKS_LOOK     500    /* between two looks at /proc/locks */
#define LOCKS_MAX      1024u  /* a box that holds more is ended */
#define LOCKS_ALL      16384u /* while all boxes hold more, the one with most is ended */
#define LOCKS_READ_MAX 65536u /* in one look; others than boxes may hold some */

/* The storer */
#define ROOM_WAITING_MAX      64u	   /* creates that wait for space in a full pool; more are refused at once */
#define STORER_JOBS	      16u	   /* at the same time */
#define SNAPSHOT_DIRTY_MAX    (256u * KIB) /* a box with more unwritten bytes writes them before it is frozen */
#define SNAPSHOT_FREEZES      10	   /* attempts to freeze a box for a snapshot, each of WARDEN_FREEZE_MAX … */
#define SNAPSHOT_FREEZE_PAUSE 100	   /* … and the time between them, in which the box runs */
#define DEBT_LOOK	      5000	   /* between two counts of the debts of forks that have changed */
#define CARRY_PAUSE	      500	   /* between two layers that move into the pool … */
#define CARRY_LOOK	      2000	   /* … and until the next look for layers whose boxes have stopped */
#define POOL_LOOK_NEAR	      20	   /* between two looks at the pool while its metadata is short … */
#define POOL_LOOK_BUSY	      100	   /* between two looks at the pool's free space while it changes … */
#define POOL_LOOK_IDLE	      250	   /* … and while it does not */
/* FUSE mounts */
#define FUSE_JOINER_MAX	   10000 /* a joiner that is not done after that is killed */
#define FUSE_BURST	   32u	 /* joiners of one box at once … */
#define FUSE_RATE	   10u	 /* … and per second in the long run */
#define FUSE_PAUSE	   200	 /* before a box that rings more often is heard again */
#define FUSE_MOUNTINFO_MAX (1u * MIB)
#define FUSE_CONF_MAX	   4096 /* of /etc/fuse.conf of a box that is read */

/* Zygotes */
#define ZYGOTES_MAX	 4u		 /* one per image; images past that start contexts plainly */
#define ZYGOTE_MEM	 (1024ull * MIB) /* of one, with the page tables of its children */
#define ZYGOTE_PIDS	 64u
#define ZYGOTE_TMP	 "64m"
#define ZYGOTE_DELAY	 300	/* after a start of the warden, so that boxes come first */
#define ZYGOTE_START_MAX 180000 /* a zygote that is not ready after that is killed */
#define ZYGOTE_RETRY_MIN 1000	/* pause before a zygote that ended is started again, doubled each time … */
#define ZYGOTE_RETRY_MAX 60000	/* … up to this */
#define ZYGOTE_IDLE	 60000	/* a zygote without asks for so long makes way for another image's */
#define ZYGOTE_BURST	 64u	/* contexts that one box may ask for at once … */
#define ZYGOTE_RATE	 20u	/* … and per second in the long run */
#define ZYGOTE_REFUSALS	 512u	/* a box that is told "no" so often, less ZYGOTE_RATE a second, is not heard any more */
#define ZYGOTE_ASKS_MAX	 256u	/* that wait in front of one zygote; past that contexts start plainly */
#define ZYGOTE_STUCK	 1000	/* a zygote that answers nothing for so long is given no more to do, and … */
#define ZYGOTE_GIVEN_UP	 4000	/* … is replaced after this much more */

/* Workers that wait in slots */
#define WARM_SLOTS	 2u		/* of the pool, when ATOLL_WARM_WORKERS does not say otherwise … */
#define WARM_SLOTS_MAX	 8u		/* … which is at most this */
#define WARM_CREDIT	 4u		/* slots that one box that uses JavaScript pays for … */
#define WARM_CREDIT_MAX	 16u		/* … and that are paid for at most */
#define WARM_REST	 60		/* after a start of a box, so that its first command comes first */
#define WARM_RETRY	 300		/* while the host has no place or memory for one */
#define WARM_KEEP	 600000		/* without a box that uses JavaScript: no worker waits any more */
#define WARM_MEM_FREE	 10u		/* percent of the host's memory that must be available */
#define WARM_BOX_MEM_MIN (256ull * MIB) /* a box with less memory … */
#define WARM_BOX_PIDS	 64u		/* … or fewer processes gets no worker that waits */

/* Images */
#define IMAGE_CONNS_MAX	    32
#define IMAGE_ENDED_SECONDS 604800 /* notes of a daemon whose data is gone are kept for so long */
#define IMAGE_USE_SECONDS   5	   /* a note of use this young is not taken back */
#define IMAGE_LAYER_SECONDS 5	   /* a layer this young may belong to a build that goes on */
#define STAGING_LOOK	    50 /* between two looks at the room of the image directory while layers are unpacked there */
