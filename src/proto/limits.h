/*
 * limits.h - the limits of what several programs must agree on: quantities that a client, a box or the network can
 * drive, by name.
 *
 * Sizes are bytes, times are milliseconds. tools/check-limits finds limits that nothing uses. A limit that a request
 * can exceed is tested at the limit and one past it.
 */
#pragma once

#include "base/limits.h"

/* Sandboxes */
#define BOX_ID_MAX	      63
#define BOX_HOSTS_MAX	      65536u /* of /etc/hosts; a longer file is left to its owner */
#define BOX_MEM_DEFAULT	      (512ull * MIB)
#define BOX_MEM_MIN	      (16ull * MIB)
#define BOX_CPU_DEFAULT	      1000u /* thousandths of a CPU */
#define BOX_CPU_MIN	      10u
#define BOX_PIDS_DEFAULT      256u
#define BOX_DISK_DEFAULT      (8192ull * MIB)
#define BOX_DISK_MIN	      (16ull * MIB)
#define BOX_DISK_MAX	      (1ull << 50)
#define BOX_PIDS_MIN	      8u
#define BOX_PIDS_MAX	      32768u
#define BOX_PTYS_MAX	      64
#define BOX_UID_RANGE	      65536u
#define BOX_FUSE_MOUNTS	      64u
#define BOX_IMAGE_NAME_MAX    63
#define BOX_USER_MAX	      255  /* USER[:GROUP] */
#define BOX_COMMAND_WORDS_MAX 1024 /* of a box's program */
#define SNAPSHOT_NAME_MAX     63
#define VOLUME_NAME_MAX	      63
#define VOLUME_PATH_MAX	      255		  /* of the place of a volume in a box */
#define BOX_VOLUMES_MAX	      8			  /* volumes of one sandbox */
#define IMAGE_REF_MAX	      220		  /* of a name that a client gives, with tag and digest */
#define IMAGE_LINK_MAX	      250		  /* of a name as a file */
#define IMAGE_LAYERS_MAX      128		  /* of one image */
#define IMAGE_PACKAGES_MAX    (16u * 1024 * 1024) /* of the list of an image's packages */
#define IMAGE_CONFIG_MAX      (4u * 1024 * 1024)
#define IMAGE_RESERVE_SHARE   20u	      /* of the image directory's disk stays free: a twentieth … */
#define IMAGE_RESERVE_MAX     (1024ull * MIB) /* … at most this */
#define IMAGE_RESERVE_INODES  100u	      /* … and a hundredth of its inodes */
#define BOX_CREATE_TIMEOUT    20000

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
#define BOX_LISTENERS	      128	   /* TCP sockets that listen; a few more when many threads ask at once */
#define BOX_SOMAXCONN	      256	   /* connections that wait for one accept() */
#define BOX_OPTMEM	      20480	   /* options of one socket */
#define BOX_TIME_WAIT	      16384	   /* connections in TIME_WAIT */
#define BOX_SOCKETS_SHARE     8		   /* buffers of TCP and UDP, on cgroup v1: an eighth of the memory limit … */
#define BOX_SOCKETS_MIN	      (4ull * MIB) /* … at least this … */
#define BOX_SOCKETS_MAX	      (64ull * MIB) /* … and at most this */

/* The warden */
/* Network policies */
#define NET_RULES_MAX 256      /* in `allow`, and in `deny`, of one sandbox … */
#define NET_RULES_ALL 768      /* … and with the daemon's defaults and the rules of approvals */
#define NET_RULE_MAX  320      /* characters of one rule */
#define NET_NAME_MAX  253      /* of a host name */
#define NET_CONNS     1024u    /* of one box, when its policy has no limit … */
#define NET_CONNS_MAX 16384u   /* … and at most */
#define NET_RATE_MIN  1024u    /* bytes a second */
#define NET_ASK	      30000u   /* ms that a connection waits for an approval, when its policy does not say … */
#define NET_ASK_MAX   3600000u /* … and at most */

#define GATE_CONNS_MAX	   32768u /* of all boxes; fewer where the gate may open fewer files … */
#define GATE_CONNS_MIN	   64u	  /* … but at least so many */
#define GATE_FILES_RESERVE 256u	  /* descriptors of the gate itself */

#define GATE_HOOKS_MAX 256 /* hosts of outbound handlers, for HTTP and for HTTPS */

/* Secrets */
#define SECRETS_MAX	   1024 /* of a daemon … */
#define SECRETS_BOX_MAX	   32	/* … and of one sandbox */
#define SECRET_NAME_MAX	   64
#define SECRET_VALUE_MAX   4096 /* it stands in the head of a request */
#define SECRET_HOSTS_MAX   16
#define SECRET_HEADER_MAX  256	    /* of the template of a header */
#define SECRET_IN_MAX	   16	    /* places of its placeholder in a head … */
#define SECRET_IN_TEXT_MAX 128	    /* … and characters of one */
#define SECRET_PREFIX	   "atoll_" /* of a placeholder; then SECRET_RANDOM characters 0-9 and a-f */
#define SECRET_RANDOM	   32
#define SECRET_PLACEHOLDER (sizeof SECRET_PREFIX - 1 + SECRET_RANDOM)

#define WARDEN_PEM_MAX	   1535 /* of one certificate as PEM */
#define WARDEN_FREEZE_MAX  200	/* a box that is not frozen after that runs on */
#define WARDEN_SOCKETS_MAX 32u	/* sockets of a box handed out at once */

/* Files, watches and terminals in a box */
#define GIT_TIMEOUT	600000
#define GIT_TIMEOUT_MAX (24u * 3600 * 1000)
