/*
 * limits.h - the limits of every program: quantities that a client, a box or the network can drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#define KIB (1024u)
#define MIB (1024u * 1024u)

#define BUF_MAX_DEFAULT (64u * MIB)
#define BUF_KEEP	(16u * KIB) /* memory an empty buffer may hold on to */
#define JSON_DEPTH_MAX	64
#define JSON_NODES_MAX	65536
#define JSON_NUMBER_MAX 63    /* characters */
#define LOG_BURST	64    /* lines of one place in the code that others can cause, at once … */
#define LOG_RATE	4     /* … and per second in the long run */
#define LOG_SETTLED	10000 /* how long a place is quiet before other lines report its count */

/* The disk below what clients and boxes make grow: uploads, blobs, backups */
#define DISK_RESERVE_SHARE 20u		   /* of a file system stays free: a twentieth … */
#define DISK_RESERVE_MAX   (1024ull * MIB) /* … at most this */
#define DISK_LOOK	   (8u * MIB)	   /* bytes that are written between two looks */

/* Memory of TCP that the connections of one owner hold (tcp_owner.h) */
#define TCP_WINDOW_FEW	   16	       /* with more connections an owner has smaller windows … */
#define TCP_WINDOW_MIN	   (64u * KIB) /* … of four times, twice and once this */
#define TCP_HOST_SHARE	   4	       /* they are the smallest while TCP has one in so many pages of its low mark */
#define TCP_LOOK	   1000	       /* between two looks */
#define TCP_OWNER_MAX	   (64u * MIB) /* with more in the buffers, connections that stand still are reset … */
#define TCP_OWNER_PATIENCE 60000       /* … and after that any that wait */
#define TCP_OWNER_KEPT	   (8u * MIB)  /* the same while the host is short, for those who hold most … */
#define TCP_STUCK_SHORT	   2000	       /* … by connections that stand still for so long */
#define TCP_UNSENT_MIN	   (32u * KIB) /* bytes that wait in a socket: fewer may be on their way */

/* One direction of a connection stands still when it moves less than this many bytes in this time, while bytes wait. */
#define TCP_WAY_MOVES (64u * KIB)
#define TCP_WAY_SPAN  10000

/* A turn of a loop (turn.h), in microseconds. */
#define TURN_PART      50   /* every party may work so long in each turn … */
#define TURN_SHARED    2000 /* … and those that want more divide this among themselves */
#define TURN_STRANGERS 2000 /* all strangers together */
#define TURN_BATCHES   32   /* of events, before work that waits is served: epoll reports 128 at once */
