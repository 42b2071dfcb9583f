/*
 * limits.h - every quantity that a client, a box or the network can drive, by name.
 *
 * Each is tested at the limit and one past it. Sizes are bytes, times are milliseconds.
 */
#pragma once

#define KIB (1024u)
#define MIB (1024u * 1024u)

/* base */
#define BUF_MAX_DEFAULT (64u * MIB)
#define BUF_KEEP	(16u * KIB) /* memory an empty buffer may hold on to */
#define JSON_DEPTH_MAX	64
#define JSON_NODES_MAX	65536
#define JSON_NUMBER_MAX 63    /* characters */
#define LOG_BURST	64    /* lines of one place in the code that others can cause, at once … */
#define LOG_RATE	4     /* … and per second in the long run */
#define LOG_SETTLED	10000 /* how long a place is quiet before other lines say what it has left out */

/* HTTP: one connection */
#define HTTP_HEAD_MAX	       (32u * KIB) /* request or response head, all lines together */
#define HTTP_TARGET_MAX	       (8u * KIB)
#define HTTP_HEADERS_MAX       100
#define HTTP_REASON_MAX	       256 /* of a server behind, passed on */
#define HTTP_CHUNK_EXT_MAX     256
#define HTTP_OUT_HIGH	       (64u * KIB) /* a writer is told to stop here … */
#define HTTP_OUT_LOW	       (16u * KIB) /* … and to go on here */
#define HTTP_READ_CHUNK	       (64u * KIB)
#define HTTP_KEEP	       (1u * KIB) /* memory that an empty buffer of a connection keeps for the next bytes */
#define HTTP_TURN_MAX	       (1u * MIB) /* bytes sent before a writer must let others have their turn */
#define HTTP_HEAD_TIMEOUT      10000	  /* first byte of a head to its last */
#define HTTP_IDLE_TIMEOUT      75000	  /* kept-alive connection without a request */
#define HTTP_BODY_STALL	       60000	  /* no byte of a body that was announced */
#define HTTP_SEND_STALL	       300000	  /* a client that takes no byte of a response */
#define HTTP_LINGER	       2000	  /* after a refusal, for the client to read it */
#define HTTP_GONE_PROBE	       100	  /* half-closed TCP client: when to find out whether it is still there */
#define HTTP_CONNECT_TIMEOUT   5000
#define HTTP_CONTINUE_WAIT     1000  /* for the 100 Continue of a server behind a proxy */
#define HTTP_STARVED	       1000  /* a call to a box's server without an answer: idle connections are let go */
#define HTTP_POOL_IDLE_TIMEOUT 30000 /* shorter than HTTP_IDLE_TIMEOUT: the client lets go first */
#define HTTP_DRAIN_MAX	       (256u * KIB) /* rest of a body nobody wants, read to keep the connection */
#define HTTP_POOL_IDLE_MAX     8	    /* kept-alive connections to one box */
#define WS_FRAME_MAX	       (1u * MIB)   /* longer messages are sent in several frames */
#define WS_MESSAGE_MAX	       (4u * MIB)
#define WS_CLOSE_TIMEOUT       3000
#define SSE_EVENT_MAX	       (4u * MIB)

/* HTTP: the places of a server (http/server/places.h); shares are of the connections that it may have */
#define HTTP_CONNS_MAX		  8192
#define HTTP_LOCAL_SHARE	  16  /* one in so many is kept for the unix socket */
#define HTTP_STRANGERS_SHARE	  4   /* one in so many for clients that have not authenticated … */
#define HTTP_STRANGERS_KEPT_SHARE 4   /* … of which one in so many stays while idle connections can go instead */
#define HTTP_GUESTS_SHARE	  2   /* one in so many for previews … */
#define PREVIEW_BOX_SHARE	  4   /* … of which one sandbox may have one in so many */
#define HTTP_ADDRESS_MAX	  256 /* clients of one address that have not authenticated */
#define HTTP_LINGERING_MAX	  512 /* of those, how many may read a refusal at once */

/* Sandboxes */
#define BOX_ID_MAX	   63
#define BOX_MEM_DEFAULT	   (512ull * MIB)
#define BOX_MEM_MIN	   (16ull * MIB)
#define BOX_CPU_DEFAULT	   1000u /* thousandths of a CPU */
#define BOX_CPU_MIN	   10u
#define BOX_PIDS_DEFAULT   256u
#define BOX_PIDS_MIN	   8u
#define BOX_PIDS_MAX	   32768u
#define BOX_PTYS_MAX	   64
#define BOX_UID_RANGE	   65536u
#define BOX_IMAGE_NAME_MAX 63
#define BOX_CREATE_TIMEOUT 20000

/* Exposed ports and previews */
#define PORT_MIN	    1024
#define PORT_RESERVED	    3000 /* the agent's own, as in an upstream container */
#define PORT_TOKEN_MAX	    16
#define PORT_NAME_MAX	    100 /* bytes */
#define PORTS_MAX	    64	/* exposed in one sandbox */
#define PORT_LOG_MAX	    100 /* requests remembered for each */
#define PORT_LOG_PATH_MAX   160 /* of a path that is remembered */
#define PORT_METRICS_MAX    256 /* ports with series of their own in /metrics; the others share one */
#define PREVIEW_RETRY_AFTER "5" /* seconds, when all places of previews are taken */
#define PREVIEW_LABEL_MAX   63	/* "8080-id-token": one label of a host name */
#define HOSTS_MAX	    32	/* names in ATOLL_HOSTS */
#define TRUSTED_PROXIES_MAX 32
#define APP_TIMEOUT_MAX	    86400 /* s: of ATOLL_APP_TIMEOUT, until a server in a box begins its answer */
#define TLS_LOOK	    5000  /* how often the certificate is looked at */

/* The inside of a sandbox */
#define BOX_SHM_BYTES	      (256ull * MIB) /* /dev/shm; charged to the box's memory like all it touches */
#define BOX_SHM_INODES	      65536u
#define BOX_NOFILE	      16384u /* open files of one process */
#define BOX_INOTIFY_INSTANCES 128
#define BOX_INOTIFY_WATCHES   131072
#define BOX_AGENT_BACKLOG     1024
#define BOX_OOM_SCORE	      "200"	   /* oom_score_adj of all but the agent: the kernel picks a command first */
#define BOX_NETLINK_SOCKETS   64	   /* open at once, of all processes */
#define NETLINK_BUFFER	      32768	   /* SO_RCVBUF and SO_SNDBUF of one, at most; the kernel doubles it */
#define NETLINK_PATIENCE      200	   /* a socket past the limit waits so long for another's end … */
#define NETLINK_PAUSE	      5		   /* … and looks this often */
#define BOX_SOMAXCONN	      256	   /* connections that wait for one accept() */
#define BOX_OPTMEM	      20480	   /* options of one socket */
#define BOX_TIME_WAIT	      16384	   /* connections in TIME_WAIT */
#define BOX_SOCKETS_SHARE     8		   /* buffers of TCP and UDP, on cgroup v1: an eighth of the memory limit … */
#define BOX_SOCKETS_MIN	      (4ull * MIB) /* … at least this … */
#define BOX_SOCKETS_MAX	      (64ull * MIB) /* … and at most this */

/* Network policies */
#define NET_RULES_MAX	   256	  /* in `allow`, and in `deny`, with the daemon's defaults */
#define NET_RULE_MAX	   320	  /* characters of one */
#define NET_NAME_MAX	   253	  /* of a host name */
#define NET_CONNS	   1024u  /* of one box, when its policy says nothing … */
#define NET_CONNS_MAX	   16384u /* … and at most */
#define NET_RATE_MIN	   1024u  /* bytes a second */
#define NET_LOG_MAX	   256	  /* records kept for a sandbox */
#define NET_LOG_RECORD_MAX 1024
#define NET_FOLLOWERS_MAX  16 /* clients that follow the log of one sandbox */

/* The warden */
#define WARDEN_BOXES_MAX       4096u
#define WARDEN_PIDS_PERCENT    75u   /* of the machine's process numbers, for all sandboxes together */
#define WARDEN_SOCKETS_PERCENT 50u   /* of the bytes that TCP may have, for all sandboxes together (cgroup v1) */
#define WARDEN_POOL	       16u   /* slots prepared ahead */
#define WARDEN_QUEUE_MAX       1024u /* replies that wait for a daemon that does not read; past this it is cut off */
#define WARDEN_BURST	       32    /* requests taken in one turn of the loop */
#define WARDEN_AGENT_MAX       (64u * MIB) /* size of the agent's program */
#define WARDEN_SOCKETS_MAX     32u	   /* sockets of a box handed out at once */
#define WARDEN_CLOSING_MAX     256u	   /* mounts that wait to be taken down; past this no slots are made */
#define WARDEN_RETRY	       20	   /* pause before a cgroup that is still busy is removed again */

/* Zygotes */
#define ZYGOTES_MAX	 4u		 /* one per image; images past that start contexts plainly */
#define ZYGOTE_MEM	 (1024ull * MIB) /* of one, with the page tables of its children */
#define ZYGOTE_PIDS	 64u
#define ZYGOTE_TMP	 "64m"
#define ZYGOTE_DELAY	 300	/* after a start of the warden, so that boxes come first */
#define ZYGOTE_START_MAX 180000 /* one that is not ready after that is ended */
#define ZYGOTE_RETRY_MIN 1000	/* pause before an ended one is started again, doubled each time … */
#define ZYGOTE_RETRY_MAX 60000	/* … up to this */
#define ZYGOTE_IDLE	 60000	/* one that nobody has asked for so long makes way for another image's */
#define ZYGOTE_BURST	 64u	/* contexts that one box may ask for at once … */
#define ZYGOTE_RATE	 20u	/* … and per second in the long run */
#define ZYGOTE_REFUSALS	 512u	/* a box that is told "no" so often, less ZYGOTE_RATE a second, is not heard any more */
#define ZYGOTE_ASKS_MAX	 256u	/* that wait in front of one zygote; past that contexts start plainly */
#define ZYGOTE_STUCK	 1000	/* a zygote that answers nothing for so long is given no more to do, and … */
#define ZYGOTE_GIVEN_UP	 4000	/* … is replaced after this much more */
#define ZYGOTE_WAIT	 5000	/* an agent that has no answer after that starts the context plainly */

/* Daemon */
#define BOX_TABLE_MAX	     100000 /* sandboxes known, living or stopped */
#define BOX_WAITERS_MAX	     4096   /* requests that wait for one box to be made, woken or destroyed */
#define BOX_EXCHANGES_MAX    4096   /* requests and tunnels to servers inside one box: others need connections too */
#define BOX_ENV_MAX	     (64u * KIB) /* a sandbox's variables as JSON */
#define BOX_LABELS_MAX	     (8u * KIB)
#define BOX_SLEEP_MIN	     1000
#define BOX_SLEEP_MAX	     (7ull * 24 * 3600 * 1000)
#define API_BODY_MAX	     (256u * KIB) /* of a request that atolld itself answers */
#define API_LIST_MAX	     1000	  /* sandboxes in one answer */
#define STORE_QUEUE_MAX	     65536	  /* changes that wait for the disk */
#define STORE_SOON_MS	     100	  /* a change that nobody waits for */
#define WARDEN_WAIT	     10000	  /* a create waits so long for a warden that is away */
#define RECOVER_WAIT	     500	  /* a start waits so long for the warden before it serves */
#define WARDEN_REPLY_TIMEOUT 15000	  /* the handshake with the warden */
#define DAEMON_GRACE	     10000	  /* SIGTERM: time for running exchanges to end */
#define AGENT_ENV_TIMEOUT    5000	  /* a new box takes its variables */
#define AGENT_ENV_REPLY_MAX  (4u * KIB)

#define DIAL_STOCK	   16	 /* sockets of a box's network that wait to be connected, of each family */
#define DIAL_STOCK_MAX	   128	 /* … after a rush */
#define DIAL_STOCKED_MAX   4096	 /* of all boxes together; past this they are made when they are needed */
#define DIAL_IDLE	   30000 /* a stock that nobody used so long is closed */
#define DIAL_SIX	   16	 /* ports of a box that are known to answer on ::1 only */
#define DIAL_POOL_IDLE_MAX 64	 /* kept-alive connections to one port of a box … */
#define DIAL_POOL_IDLE	   4000	 /* … for so long: servers mostly close after 5 s, and should not be first */

/* Agent: commands */
#define AGENT_BODY_MAX	   (32u * MIB)	/* a JSON request; longer input goes through streaming routes */
#define SPOOL_MEM	   (64u * KIB)	/* output of a command kept in memory, per stream; more goes to a file */
#define EVENTS_BUFFER_KEPT (256u * KIB) /* a longer event's buffer is given back */
#define GLOB_TEXT_MAX	   4096		/* a longer path matches no pattern */
#define CMD_READ_CHUNK	   (64u * KIB)
#define CMD_STDIN_HIGH	   (64u * KIB) /* input that a command has not read yet: the sender is told to stop … */
#define CMD_STDIN_LOW	   (16u * KIB) /* … and to go on */
#define CMD_TIMEOUT_MAX	   (7ull * 24 * 3600 * 1000)
#define ENV_VARS_MAX	   8192	 /* in one request; the kernel takes 2 MiB of them together */
#define CMD_HANGUP_GRACE   2000	 /* a foreground command whose client is gone: SIGHUP, then SIGKILL */
#define DRAIN_PAUSE	   20	 /* output that nobody waits for is emptied this often */
#define AGENT_STOP_GRACE   5000	 /* SIGTERM to the agent: what the box's processes get between SIGTERM and SIGKILL */
#define WS_EXEC_FIRST	   10000 /* a socket that names no command */
#define WS_EXEC_PING	   30000 /* on every socket of the agent */
#define WS_EXEC_PROBE	   1000	 /* while its command reads nothing: is the client still there? */
#define AGENT_PATH_MAX	   4096
#define SESSION_QUEUE_MAX  256 /* commands that wait for their turn in one session */
#define SESSION_ID_MAX	   256

/* Files, watches and terminals in a box */
#define READ_MAX	      (32u * MIB)  /* encoded content of one /api/read */
#define PUMP_TURN	      (512u * KIB) /* of an answer in one turn of the loop, so that others have theirs */
#define WRITE_SPILL	      (64u * KIB)  /* content of a /api/write that stays in memory */
#define WRITE_STEP	      (1u * MIB) /* of a long write that is decoded or copied at its end, in one turn of the loop */
#define FILE_CHUNK	      65535	 /* source bytes in one event of /api/read/stream: a multiple of 3 */
#define LIST_DEPTH_MAX	      1000
#define MOVE_SAID_MAX	      (4u * KIB) /* complaints of a move to another file system */
#define WATCHERS_MAX	      64
#define WATCH_COALESCE	      75
#define WATCH_PENDING_MAX     1000
#define WATCH_PATTERNS_MAX    64
#define WATCH_PATTERN_LEN_MAX 256
#define WATCH_RETAIN	      600000 /* between two calls of /api/watch/check */
#define SSE_BEAT	      15000  /* comment on an event stream that has nothing to say */
#define TERMINAL_RING	      (256u * KIB)
#define TERMINAL_INPUT_HIGH   (64u * KIB)
#define TERMINAL_VIEWERS_MAX  64
#define TERMINAL_SIZE_MAX     10000 /* columns or rows */
#define GIT_URL_MAX	      2048
#define GIT_TIMEOUT	      600000
#define GIT_TIMEOUT_MAX	      (24u * 3600 * 1000)
#define GIT_SAID_MAX	      (8u * KIB) /* the end of git's stderr that is kept for the error */
#define MUX_ID_MAX	      128	 /* of a request on /ws */
#define MUX_CALLS_MAX	      64	 /* requests at once on one /ws */

/* Agent: sessions */
#define SHELL_REPORT_MAX   (4u * KIB) /* a line on the control channel that never ends */
#define SHELL_WATCH	   1000	      /* how often a busy shell is looked after … */
#define SHELL_LOOKS_MAX	   30	      /* … and how often in vain; a look at one that sleeps counts for half of them */
#define SHELL_ABORT_MAX	   2000 /* a command past its time limit that cannot be interrupted: its shell is killed */
#define SHELL_ABORT_AGAIN  30
#define SHELL_SYNC_AGAIN   50
#define HANDOFF_MEMORY_MAX MIB /* input of a command that is put down in memory; more goes to the disk */
#define SESSIONS_MAX	   4096

/* Code contexts of a box */
#define CODE_CONTEXTS_MAX    256
#define CODE_QUEUE_MAX	     64		 /* runs that wait in one context */
#define CODE_QUEUE_BYTES     (64u * MIB) /* code that waits, in all contexts together */
#define CODE_FRAME_MAX	     (64u * MIB) /* one result of a worker; passed through, not held */
#define CODE_ERROR_MAX	     (1u * MIB)	 /* one error of a worker */
#define CODE_REPLY_MAX	     (4u * KIB)	 /* other frames of a worker */
#define CODE_BETWEEN_MAX     (64u * KIB) /* output between two runs that is kept, per stream */
#define CODE_START_TIMEOUT   60000	 /* a worker that does not say that it is ready */
#define CODE_INTERRUPT_GRACE 2000	 /* between the interrupt and the kill */
#define CODE_CLOSED_WAIT     1000	 /* between the end of a worker's socket and its own end */
#define CODE_SPARE_DELAY     300	 /* between a context's start and that of the next one's process, ahead */
#define CODE_SPARE_KEEP	     600000	 /* a process that was started ahead and nobody wants */
#define CODE_RETRY_AFTER     "5"	 /* seconds, when no worker could be started in time */

/* Command streams that a client may come back to */
#define KEPT_ID_MAX	 64
#define KEPT_STREAMS_MAX 128	     /* at once; of more, those that are over go, or the new one is not kept */
#define KEPT_MAX_BYTES	 (16u * MIB) /* of one, that were sent: more than the sockets on the way can hold */
#define KEPT_GRACE	 30000	     /* without a connection; then the command is ended */

/* Background processes of a box */
#define PROCESSES_MAX	   256 /* ended ones that are remembered */
#define PROCESS_ID_MAX	   128
#define PROCESS_LOG_MAX	   (16u * MIB) /* output of one process; when it is full the oldest half goes */
#define PROCLOG_MEM	   (4u * KIB)  /* of a log in memory, twice for each process; more goes to a file */
#define PROCLOG_PIECE	   8192	       /* output in one record, and so in one event */
#define PROCESS_KILL_GRACE 5000	       /* between SIGTERM and SIGKILL */
#define PROCESS_KILL_POLL  50	       /* is the tree of a killed one gone? */
#define PROCESS_KILL_LOOKS 16	       /* at /proc for one signal, while new members of the tree turn up */
#define PROCESS_YOUNG	   200	       /* one that was killed at this age or less is told twice */
