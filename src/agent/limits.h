/*
 * limits.h - the limits of atoll-agent: quantities that a client, a box or the network can drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#include "base/limits.h"

/* Zygotes */
#define ZYGOTE_WAIT 5000 /* an agent that has no answer after that starts the context plainly */

/* Backups of a directory */
#define BACKUP_TIMEOUT	   3600000    /* for one archive, mount or upload */
#define BACKUP_SAID_MAX	   (8u * KIB) /* the end of the tools' stderr that is kept for the error */
#define BACKUP_OUT_MAX	   (1u * MIB) /* of their output: a line a part */
#define BACKUP_EXCLUDE_MAX 4096
#define BACKUP_URL_MAX	   8192
#define BACKUP_PARTS_MAX   10000

/* FUSE mounts */
#define FUSE_ASKERS_MAX 64	   /* programs that ask for mounts at once; more are hung up on */
#define FUSE_WAIT	15000	   /* a mount that is not answered after that has failed */
#define FUSE_AGAIN	250	   /* between two rings for a warden that is away */
#define FUSE_TABLE_MAX	(1u * MIB) /* of the box's table of mounts that is read */

#define FUSE_PROGRAM_HEAD                                                                                              \
	257 /* of a program that is read to know what it needs: as much as the kernel reads, and a 0 */
#define FUSE_PROGRAM_HEADERS_MAX 64 /* of an ELF file that are searched for its loader */
#define FUSE_PROGRAM_DEPTH_MAX	 6  /* scripts that name scripts; the kernel takes 5 */

/* File operations in FUSE mounts, in helpers (request/aside.h) */
#define ASIDE_MAX     16     /* helpers at once; more are refused */
#define ASIDE_WATCHES 32     /* helpers with a watch, which are not among them; more are refused */
#define ASIDE_WAIT    30000  /* until an answer begins, and between two pieces of it */
#define ASIDE_LONG    600000 /* the same for writes and moves: a server may upload meanwhile */
#define ASIDE_GRACE   2000   /* for a helper to clean up after its client has gone */

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
#define ENDING_POLL	   50	 /* is the tree gone that is being ended? */
#define CMD_HANGUP_GRACE   2000	 /* a foreground command whose client is gone: SIGHUP, then SIGKILL */
#define DRAIN_PAUSE	   20	 /* output that nobody waits for is emptied this often */
#define AGENT_STOP_GRACE   5000	 /* SIGTERM to the agent: what the box's processes get between SIGTERM and SIGKILL */
#define AGENT_KILL_WAIT	   500	 /* … and what their results get to go out after SIGKILL */
#define WS_EXEC_FIRST	   10000 /* a socket that names no command */
#define WS_EXEC_PING	   30000 /* on every socket of the agent */
#define WS_EXEC_PROBE	   1000	 /* while its command reads nothing: is the client still there? */
#define AGENT_PATH_MAX	   4096
#define SESSION_QUEUE_MAX  256 /* commands that wait for their turn in one session */
#define FIELD_WARNINGS_MAX 16  /* members of a request that its answer tells of */
#define FIELD_SHOWN_MAX	   60  /* bytes of such a member's name that are shown */
#define SESSION_ID_MAX	   256
#define SHELLS_AHEAD_MAX   4 /* shells of created sessions that wait for their first command */

/* Files, watches and terminals in a box */
#define READ_MAX	      (32u * MIB)  /* encoded content of one /api/read */
#define PUMP_TURN	      (512u * KIB) /* of an answer in one turn of the loop, so that others have theirs */
#define WRITE_ASK_MAX	      (1 * MIB)	   /* body of a /api/write that is read whole in a box with FUSE mounts */
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
#define TERMINAL_PIECE	      (32u * KIB) /* so much output goes to the viewers at once, … */
#define TERMINAL_FEED_EVERY   2		  /* … and less after so long */
#define TERMINAL_INPUT_HIGH   (64u * KIB)
#define TERMINAL_VIEWERS_MAX  64
#define TERMINAL_SIZE_MAX     10000	  /* columns or rows */
#define TERMINAL_WINDOW_MAX   (16u * MIB) /* of a viewer that acknowledges */
#define GIT_URL_MAX	      2048
#define GIT_SAID_MAX	      (8u * KIB) /* the end of git's stderr that is kept for the error */
#define MUX_ID_MAX	      128	 /* of a request on /ws */
#define MUX_CALLS_MAX	      64	 /* requests at once on one /ws */
#define MUX_STOP_WAIT	      250	 /* for the peer's close frame of /ws or /rpc, while the agent stops */

/* The rpc transport; src/capnweb/limits.h has the limits of its protocol */
#define RPC_OPEN_MAX	  2048	      /* calls and streams of one socket; one more is rejected */
#define RPC_ANSWERS_HIGH  (32u * MIB) /* answers that are being gathered: above it, one after the other */
#define RPC_BODIES_HIGH	  (64u * MIB) /* arguments that routes have not taken: no frame is read above it */
#define RPC_WANT_MAX	  2048	      /* one wish for a tunnel */
#define RPC_WANT_WAIT	  10000	      /* … until atolld reads it, … */
#define RPC_WANT_ANSWER	  45000	      /* … and until it answers: cloudflared may have to start */
#define RPC_EXITS_MAX	  1024	      /* ends of tunnels that a client has not answered; one more ends its session */
#define RPC_CALLBACKS_MAX 16	      /* callbacks of one run of code that the client has not answered */

/* Agent: sessions */
#define SHELL_REPORT_MAX   (4u * KIB) /* a line on the control channel that never ends */
#define SHELL_WATCH	   1000	      /* how often a busy shell is looked after … */
#define SHELL_LOOKS_MAX	   30	      /* … and how often in vain; a look at one that sleeps counts for half of them */
#define SHELL_ABORT_MAX	   2000 /* a command past its time limit that cannot be interrupted: its shell is killed */
#define SHELL_ABORT_AGAIN  30
#define SHELL_LATE_MAX	   (64u * KIB) /* stderr that is held back while a command is interrupted */
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
#define CODE_WARM_KEEP	     15000	 /* the same, that was started before its box was made */
#define NURSERY_TRIES	     3		 /* nurseries that ended before they were ready */
#define CODE_RETRY_AFTER     "5"	 /* seconds, when no worker could be started in time */

/* Command streams that a client may come back to */
#define KEPT_ID_MAX	 64
#define KEPT_STREAMS_MAX 128	     /* at once; of more, those that are over go, or the new one is not kept */
#define KEPT_MAX_BYTES	 (16u * MIB) /* of one, that were sent: more than the sockets on the way can hold */
#define KEPT_GRACE	 30000	     /* without a connection; then the command is ended */

/* Background processes of a box */
#define PROCESSES_MAX	     256	 /* ended ones that are remembered; those that ended first are forgotten */
#define PROCESS_COMMANDS_MAX (32u * MIB) /* … and the bytes of their commands */
#define PROCESS_ID_MAX	     128
#define SERVICES_MAX	     64
#define SERVICES_FILE_MAX    (256u * KIB)
#define SERVICE_RETRY_MIN    1000	 /* a service that ended is started again after that; the pause doubles … */
#define SERVICE_RETRY_MAX    60000	 /* … up to this … */
#define SERVICE_STEADY	     60000	 /* … and begins anew after a run of this */
#define PROCESS_LOG_MAX	     (16u * MIB) /* output of one process; when it is full the oldest half goes */
#define PROCLOG_MEM	     (4u * KIB)	 /* of a log in memory, twice for each process; more goes to a file */
#define PROCLOG_PIECE	     8192	 /* output in one record, and so in one event */
#define PROCESS_KILL_GRACE   5000	 /* between SIGTERM and SIGKILL */
#define PROCESS_KILL_POLL    50		 /* is the tree of a killed one gone? */
#define PROCESS_SIGNAL_POLL  250	 /* … and of one whose shell died of another signal? */
#define PROCESS_KILL_LOOKS   16		 /* at /proc for one signal, while new members of the tree turn up */
#define PROCESS_YOUNG	     200	 /* one that was killed at this age or less is told twice */
