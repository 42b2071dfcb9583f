/*
 * warden.h - the records between atolld and atoll-warden: AF_UNIX SEQPACKET, one fixed-size record a packet.
 *
 * atolld connects to $ATOLL_RUN/warden.sock. The warden asks the kernel who that is (SO_PEERCRED: the user it was told
 * to serve, or root) and trusts nothing else: every field of every request is checked again, texts must be terminated
 * and zero-padded, unknown operations, flags and magics are refused. A record of any other size ends the connection.
 *
 * Requests carry a `seq` chosen by atolld; the reply repeats it. Replies may come in another order than the requests:
 * a create waits for its half-made child while others go on. WARDEN_LIST is answered by one reply for each box with
 * `more` set and a last one without a box. Without being asked, the warden sends WARDEN_BOX_DIED when a box ends by
 * itself.
 *
 * The warden serves one daemon at a time: a new connection takes over from the old one (atolld was restarted), boxes
 * do not notice. A create that was under way when atolld vanished is finished and kept: atolld finds it by WARDEN_LIST.
 *
 * Both sides are built from one tree and run on one machine, so the structs are sent as they lie in memory;
 * WARDEN_MAGIC changes with the layout.
 */
#pragma once

#include "proto/errc.h"
#include "proto/limits.h"

#define WARDEN_MAGIC 0x41545739u /* "ATW9" */

enum warden_op {
	WARDEN_HELLO = 1, /* answers with `host` */
	WARDEN_CREATE,	  /* id, image, limits, flags, volumes; replies when the box's init runs; `info` is filled. With
			     the id of    a box that died by itself, or whose files were kept: starts it again on its files
			   */
	WARDEN_DESTROY,	  /* id; kills everything; replies when the box is gone from cgroups and state; files go in the
			     back */
	WARDEN_SIGNAL,	  /* id, signal: to the box's init */
	WARDEN_FREEZE, /* id; INVALID_STATE when a process cannot be frozen within WARDEN_FREEZE_MAX: all run on then */
	WARDEN_THAW,   /* id */
	WARDEN_PAGE_OUT, /* id of a frozen box: its memory goes to swap; `info` with live usage. HOST_UNSUPPORTED when
			    the host has no swap */
	WARDEN_INSPECT,	 /* id; `info` with live usage */
	WARDEN_LIST,
	WARDEN_SET_LIMITS, /* id, limits, volume_bytes: for a living box */
	WARDEN_SOCKETS, /* id, family, count: fresh unconnected TCP sockets of the box's network namespace, non-blocking
			   and with TCP_NODELAY, passed with the reply; all of them or an error. RESOURCE_BUSY: ask
			   again */
	WARDEN_NETWORK, /* id, steer: which of the box's connections the gate gets to see */
	WARDEN_DISK,	/* id: `info` with the disk numbers of a sandbox that has files, running or not */
	WARDEN_SNAPSHOT,      /* id, snapshot: keeps the files of this moment; `info` with the disk numbers */
	WARDEN_SNAPSHOT_DROP, /* snapshot; one that is not there is a success */
	WARDEN_CLONE,	      /* id, snapshot, limits.disk: the files of a new sandbox, for a later CREATE */
	WARDEN_REPLACE,	      /* id, snapshot: other files for a sandbox whose box does not live */
	WARDEN_DIFF,	      /* id, snapshot, image: a pipe is passed with the reply: cage/pool/diff.h */
	WARDEN_SEND,	      /* snapshot, parent ("": none): a pipe with a stream of btrfs comes with the reply. A
				 stream without its end failed */
	WARDEN_RECEIVE,	    /* snapshot, limits.disk, image, which must be here: a socket comes with the reply. It takes
			       streams and then WARDEN_RECEIVE_END, and answers with an errno in 4 bytes: 0, and the
			       snapshot is there */
	WARDEN_FUSE,	    /* id, flags: whether the box may make FUSE mounts; those that are there stay */
	WARDEN_TRUST,	    /* id, pem: programs in the box trust this authority (cage/trust.h) */
	WARDEN_IMAGES,	    /* a descriptor of the image directory's meta/ (proto/image.h) with the reply */
	WARDEN_VOLUME,	    /* volumes[0].name, limits.disk: makes a volume, or sets its limit */
	WARDEN_VOLUME_DISK, /* volumes[0].name: `info` with its disk numbers; NOT_FOUND */
	WARDEN_VOLUME_DROP, /* volumes[0].name; one that is not there is a success */
	WARDEN_BACKGROUND,  /* count: the number of a child of the daemon, which gets little processor time from now on
			     */
	WARDEN_BOX_DIED = 100, /* event, seq 0 */
};

enum warden_flag {
	WARDEN_NO_FUSE = 2,    /* CREATE, FUSE: the box makes no FUSE mounts */
	WARDEN_KEEP_FILES = 1, /* DESTROY: the box's own layer stays for a later CREATE with the same id */
	WARDEN_VOLATILE = 4,   /* CREATE: fsync in the box does not wait for the disk */
	WARDEN_ONLY_FILES = 8, /* SET_LIMITS: `limits` stay as they are, volume_bytes counts */
};

/* What the kernel lets through to the gate, which decides; without them it refuses at once. */
enum warden_steer {
	WARDEN_STEER_PRIVATE = 1,   /* addresses that are never reachable without an address rule */
	WARDEN_STEER_DATAGRAMS = 2, /* UDP to other ports than 53 */
	WARDEN_STEER_ALL = 3,
};

/* Where the files of sandboxes live (cage/pool/pool.h). */
enum warden_pool { WARDEN_POOL_PLAIN, WARDEN_POOL_DIRECTORY, WARDEN_POOL_FILE };
enum { WARDEN_WHY_MAX = 239 };

/* What the kernel can tell of a living (or just ended) box. */
enum box_state { BOX_CREATING = 1, BOX_RUNNING, BOX_FROZEN, BOX_DEAD };

struct box_limits {
	uint64_t mem_bytes;
	uint32_t cpu_milli; /* thousandths of a CPU */
	uint32_t pids;
	uint64_t disk_bytes; /* files that differ from the image, and their snapshots */
};

struct box_info {
	char id[BOX_ID_MAX + 1];
	char image[BOX_IMAGE_NAME_MAX + 1]; /* the key that the asked name stood for */
	uint32_t state;			    /* enum box_state */
	uint32_t slot;	   /* which of the warden's slots: names its agent socket, cgroups and id range */
	int32_t pid;	   /* of the box's init, outside; 0 when dead */
	uint32_t uid_base; /* root inside is this user outside */
	struct box_limits limits;
	uint32_t no_fuse;   /* 1: it makes no FUSE mounts */
	int64_t created_ms; /* wall clock */

	/* When dead: how the init ended. `exit_known` is 0 when another process reaped it (the warden was restarted).
	 */
	uint32_t exit_known;
	int32_t exit_code;   /* or -1 */
	int32_t exit_signal; /* or 0 */

	/* Live usage; zero where the host cannot tell. */
	uint64_t mem_swapped;
	uint64_t mem_used, mem_peak, cpu_usec, pids_used, oom_kills;
	uint64_t disk_used;
	uint32_t disk_known; /* 1: disk_used counts, and limits.disk_bytes is enforced */
	uint32_t no_network; /* 1: its connections are not steered to the gate; it has loopback and nothing else */
};

/* What the host offers, and how: for limits, /v1/health, `atoll doctor`. */
struct warden_host {
	uint64_t mem_total;
	uint32_t cpus_milli;
	uint32_t pids_max;
	uint32_t cgroup_version; /* 1, 2, or 12 for v1 controllers beside a v2 hierarchy */
	uint32_t dynmods;	 /* 1: a hierarchy with favordynmods is mounted, attaching is fast after idle */
	uint32_t slots_ready;	 /* prepared slots in the pool */
	uint32_t boxes;
	uint32_t network;		    /* 1: connections of boxes can be steered to the gate */
	uint32_t pool;			    /* enum warden_pool */
	uint32_t quota;			    /* 0: no limits, 1: full quota groups, 2: simple ones */
	uint32_t pool_inconsistent;	    /* 1: the kernel has given up counting, no disk limit holds */
	uint32_t pool_direct;		    /* 1: the pool's file is not cached twice */
	uint32_t plain_layers;		    /* sandboxes whose files still have to move into the pool */
	uint64_t pool_size, pool_used;	    /* bytes; the size is what it may grow to */
	char image[BOX_IMAGE_NAME_MAX + 1]; /* the key that 'default' stands for, or "" */
	char pool_why[WARDEN_WHY_MAX + 1];  /* of WARDEN_POOL_PLAIN: why there is no other */
};

/* A named volume and its place in a box (proto/id.h: volume_name_ok, volume_path_ok). */
struct warden_volume {
	char name[VOLUME_NAME_MAX + 1];
	char path[VOLUME_PATH_MAX + 1];
	uint32_t read_only;
};

struct warden_request {
	uint32_t magic;
	uint32_t op;
	uint64_t seq;
	char id[BOX_ID_MAX + 1];
	char image[BOX_IMAGE_NAME_MAX + 1];
	char snapshot[SNAPSHOT_NAME_MAX + 1];
	char parent[SNAPSHOT_NAME_MAX + 1]; /* SEND */
	struct box_limits limits;
	uint64_t volume_bytes; /* CREATE, SET_LIMITS: the limit of the largest volume of the box; 0: it has none */
	int32_t signal;
	uint32_t flags;
	uint32_t family; /* SOCKETS: AF_INET or AF_INET6 */
	uint32_t count;	 /* SOCKETS: 1 to WARDEN_SOCKETS_MAX; BACKGROUND: a process */
	uint32_t steer;	 /* CREATE, NETWORK: enum warden_steer */
	uint32_t volumes_n;
	union {
		struct warden_volume volumes[BOX_VOLUMES_MAX]; /* CREATE, and one for the operations on a volume */
		char pem[WARDEN_PEM_MAX + 1];		       /* TRUST: a certificate */
	};
};

struct warden_reply {
	uint32_t magic;
	uint32_t op; /* of the request, or WARDEN_BOX_DIED */
	uint64_t seq;
	uint32_t more;
	uint32_t has_info;
	struct err err; /* code ERRC_OK on success */
	union {
		struct box_info info;
		struct warden_host host; /* HELLO */
	};
};

/* The agent of a box listens on $ATOLL_RUN/s/<slot>.sock, owned by the daemon's user. */
#define WARDEN_AGENT_SOCKET_FMT "%s/s/%u.sock"

/* Ends the streams of a RECEIVE. With its NUL it is as long as the head of a stream (17 bytes). */
#define WARDEN_RECEIVE_END "atoll-backup-end"
