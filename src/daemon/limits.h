/*
 * limits.h - the limits of atolld: quantities that a client, a box or the network can drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#include "base/limits.h"

/* HTTP: the places of a server (http/server/places.h); shares are of the connections that it may have */
#define PREVIEW_BOX_SHARE 4 /* … of which one sandbox may have one in so many */

/* Exposed ports and previews */
#define PORT_MIN	    1024
#define PORTS_MAX	    64 /* exposed in one sandbox */
#define TUNNELS_MAX	    64 /* of one sandbox */
#define TUNNEL_LABEL_MAX    63 /* of a host name */
#define TUNNEL_ID_MAX	    64
#define TUNNEL_WANT_MAX	    4096 /* one wish of an agent */
#define PORT_LOG_MAX	    100	 /* requests remembered for each */
#define PORT_LOG_PATH_MAX   160	 /* of a path that is remembered */
#define PORT_LOG_HEADS	    16	 /* of the newest requests the headers are remembered … */
#define PORT_HEADS_MAX	    2048 /* … of a request, and of a response */
#define PORT_METRICS_MAX    256	 /* ports with series of their own in /metrics; the others share one */
#define PREVIEW_RETRY_AFTER "5"	 /* seconds, when all places of previews are taken */
#define PREVIEW_LABEL_MAX   63	 /* "8080-id-token": one label of a host name */
#define HOSTS_MAX	    32	 /* names in ATOLL_HOSTS */
#define TRUSTED_PROXIES_MAX 32
#define APP_TIMEOUT_MAX	    86400 /* s: of ATOLL_APP_TIMEOUT, until a server in a box begins its answer */
#define TLS_LOOK	    5000  /* how often the certificate is looked at */

/* Tunnels through Cloudflare */
#define TUNNEL_URL_MAX	   128	 /* that cloudflared gives */
#define TUNNEL_WAITING_MAX 64	 /* clients that wait for the URL of one tunnel, besides the first */
#define CLOUDFLARED_WAIT   30000 /* until cloudflared gives the URL */
#define CLOUDFLARED_SAID   16384 /* the end of its output that is searched for the URL */

/* Named tokens */
#define TOKENS_MAX	  256
#define TOKEN_NAME_MAX	  64
#define TOKEN_TTL_MAX	  (3650ull * 24 * 3600 * 1000)
#define TOKEN_USE_WRITTEN 300000  /* how often a use is written to the store */
#define TOKEN_LOOK	  3600000 /* the wall clock may be set: look for expired tokens so often at least */

/* Daemon */
#define BOX_TABLE_MAX	      100000 /* sandboxes known, living or stopped */
#define BOX_WAITERS_MAX	      4096   /* requests that wait for one box to be made, woken or destroyed */
#define BOX_EXCHANGES_MAX     4096   /* requests and tunnels to servers inside one box: others need connections too */
#define BOX_ENV_MAX	      (64u * KIB) /* a sandbox's variables as JSON */
#define BOX_LABELS_MAX	      (8u * KIB)
#define BOX_SETTINGS_MAX      65536
#define SNAPSHOTS_MAX	      4096 /* of one sandbox */
#define FORKS_MAX	      100  /* sandboxes made by one request */
#define DIFF_READ	      65536
#define DIFF_LIST_MAX	      (32u * MIB)	    /* names of a comparison … */
#define DIFF_STEP	      (256u * KIB)	    /* … that are looked through in one turn of the loop */
#define DIFF_TIMEOUT	      60000		    /* for a comparison */
#define SLEEP_DEFAULT	      ((uint64_t)INT64_MAX) /* a sleepAfter that nobody chose */
#define IDLE_CPU_PERCENT      1			    /* of a core; a box that uses more works */
#define BOX_STOP_GRACE	      7000 /* a stop: what the box gets to end by itself; its agent waits for 5 s */
#define BOX_SLEEP_MIN	      1000
#define BOX_SLEEP_MAX	      (7ull * 24 * 3600 * 1000)
#define API_BODY_MAX	      (256u * KIB) /* of a request that atolld itself answers */
#define API_LIST_MAX	      1000	   /* sandboxes in one answer */
#define API_PIECE_ITEMS	      32	   /* objects that one piece looks at */
#define API_PIECE	      (16u * KIB)  /* of a long answer that is made in one turn of the loop */
#define WARDEN_WAIT	      10000	   /* a create waits so long for a warden that is away */
#define STATE_LOCK_WAIT	      5000	   /* a start waits so long for the end of the daemon before … */
#define STATE_LOCK_PAUSE      20	   /* … with a look so often */
#define RECOVER_WAIT	      500	   /* a start waits so long for the warden before it serves */
#define WARDEN_REPLY_TIMEOUT  15000	   /* the handshake with the warden */
#define DAEMON_GRACE	      10000	   /* SIGTERM: time for running exchanges to end */
#define IMAGE_JOB_PROCESS_MAX 16	   /* jobs of atoll-images at a time; others wait */
#define IMAGE_PULL_TIMEOUT    1800000	   /* of one image, for the PUT that names it */
#define AGENT_ENV_TIMEOUT     5000	   /* a new box takes its variables */
#define AGENT_LOOK_TIMEOUT    1000
#define AGENT_FIRST_TIMEOUT   5000 /* the first answer of a new box, before a snapshot of it */
#define AGENT_ENV_REPLY_MAX   (4u * KIB)
#define DIAL_STOCK	      16    /* sockets of a box's network that wait to be connected, of each family */
#define DIAL_STOCK_MAX	      128   /* … after a rush */
#define DIAL_STOCKED_MAX      4096  /* of all boxes together; past this they are made when they are needed */
#define DIAL_IDLE	      30000 /* a stock that nobody used so long is closed */
#define DIAL_SIX	      16    /* ports of a box that are known to answer on ::1 only */
#define DIAL_POOL_IDLE_MAX    64    /* kept-alive connections to one port of a box … */
#define DIAL_POOL_IDLE	      4000  /* … for so long: servers mostly close after 5 s, and should not be first */

/* Jobs: job_process.h */
#define JOB_LINE_MAX (2u * MIB) /* of what one says */

/* Backups */
#define BACKUPS_AT_ONCE	    4	       /* jobs of atoll-backup that move files */
#define BACKUPS_QUEUED_MAX  256	       /* … and that wait */
#define BACKUP_SLOW	    10000      /* a job that has run so long leaves a place free for others */
#define BACKUP_PACE	    (8u * MIB) /* bytes of a disk that add a second to ATOLL_BACKUP_TIME */
#define BACKUPS_MAX	    100000
#define BACKUP_CHAIN_MAX    24			       /* backups that build on each other; then a whole one */
#define BACKUP_TTL_MAX	    (100ull * 365 * 24 * 3600) /* s */
#define BACKUP_EVERY_MIN    1000		       /* of ATOLL_BACKUP_EVERY_MIN */
#define BACKUP_KEEP_MAX	    1000
#define BACKUP_KEEP_DEFAULT 24
#define BACKUP_LOOK	    1000   /* how often expired ones are looked for */
#define BACKUP_SWEEP_AGAIN  60000  /* … and one that could not be deleted is tried again */
#define BACKUP_FAILED_KEEP  600000 /* a failed one can be asked about so long */

/* Outbound handlers */
#define HOOK_WAIT	 10000			 /* a request waits so long for a handler that is away */
#define HOOK_WINDOW	 (256u * KIB)		 /* bytes of a body on their way, in each direction */
#define HOOK_MESSAGE_MAX (1u * MIB)		 /* of a WebSocket that a handler has taken */
#define HOOK_FRAME_MAX	 (HOOK_MESSAGE_MAX + 1u) /* behind the head of a message; a request's head fits in JSON too */
#define HOOK_STREAMS_MAX 256			 /* requests of one sandbox at once */
#define HOOK_PING	 20000

#define TRUST_WAIT	   5000	 /* a box that needs the gate's authority waits so long for the gate */
#define SECRET_USE_WRITTEN 60000 /* how often the last use of a secret is written down */

/* The log of a sandbox's connections */
#define NET_LOG_MAX	   256 /* records kept for a sandbox */
#define NET_LOG_RECORD_MAX 1024
#define NET_FOLLOWERS_MAX  16	/* clients that follow the log of one sandbox; that follow approvals */
#define NET_METRICS_MAX	   1000 /* sandboxes whose networks have series of their own in /metrics */
#define NET_APPROVALS_MAX  4096 /* questions that wait, of all sandboxes */
#define NET_ALWAYS_MAX	   256	/* rules for all sandboxes that approvals left */

/* Volumes */
#define VOLUMES_MAX	    1024 /* of a daemon */
#define VOLUME_SIZE_DEFAULT (8192ull * MIB)
#define VOLUME_USERS_SHOWN  100 /* sandboxes that are named in the description of a volume */

/* Buckets */
#define BUCKET_MOUNTS_MAX 16	/* of one sandbox */
#define BUCKET_TIMEOUT	  60000 /* for s3fs to mount all buckets of a box */
#define BUCKET_REPLY_MAX  (64u * KIB)

/* Events, tickets and console sessions. */
#define EVENTS_MAX	     1000 /* kept for clients that come later */
#define EVENTS_FOLLOWERS_MAX 256
#define EVENTS_KEEP_ALIVE    15000
#define USAGE_LIVE_EVERY     2000  /* while a client follows the events */
#define USAGE_KEPT_EVERY     60000 /* a sample of the last hour */
#define USAGE_SAMPLES	     60
#define AUDIT_MAX	     1000	  /* records of changes */
#define CHECKS_TEXT_MAX	     (256u * KIB) /* what `atoll doctor` prints */
#define TICKETS_MAX	     1024
#define TICKET_LIFE	     60000
#define TICKET_PATH_MAX	     4096
#define CONSOLE_SESSIONS_MAX 256
#define CONSOLE_CLIENT_MAX   160 /* of the User-Agent of a session */
#define CONSOLE_LINKS_MAX    64
#define CONSOLE_LINK_LIFE    300000   /* a link of `atoll console` */
#define CONSOLE_SESSION_IDLE 3600000  /* without a request */
#define CONSOLE_SESSION_LIFE 43200000 /* at all */
#define CONSOLE_RENEW_EVERY  300000   /* how often a use is written to the store */
