/*
 * zygote.h - the records of a context's way into a box: agent → warden → zygote → child → agent.
 *
 * The agent asks by writing a serial number (4 bytes) into a pipe: a pipe carries no descriptors, so nothing hostile
 * can be left for the warden to close. The warden sends struct zygote_ask with the box's namespaces and cgroups to the
 * image's zygote. The child that this forks joins the box, makes the worker's socket and pipes in there and sends the
 * agent its ends with struct zygote_reply; the kernel adds the child's pid (SCM_CREDENTIALS). Whoever fails on the way
 * sends a reply with an error and no descriptors. See docs/design/008-interpreter.md.
 *
 * All sides come from one tree and run on one machine. Also included by code without a C library (src/worker/join.c).
 */
#pragma once

#include <linux/filter.h>
#include <linux/types.h>

#define ZYGOTE_MAGIC 0x41545a32u /* "ATZ2" */

enum { ZYGOTE_FILTER_MAX = 1024, ZYGOTE_CGROUPS_MAX = 4, ZYGOTE_NAMESPACES = 8, ZYGOTE_REPLY_FDS = 4 };

/* Descriptors that go with struct zygote_ask, in this order; then the cgroups' files, open for writing. */
enum zygote_fd {
	ZYGOTE_FD_REPLY, /* to the agent */
	ZYGOTE_FD_PIDNS,
	ZYGOTE_FD_USERNS,
	ZYGOTE_FD_IPCNS,
	ZYGOTE_FD_UTSNS,
	ZYGOTE_FD_NETNS,
	ZYGOTE_FD_CGROUPNS,
	ZYGOTE_FD_MNTNS,
	ZYGOTE_FD_TIMENS, /* where the kernel has none: the uts namespace again */
	ZYGOTE_FD_CGROUPS
};
enum { ZYGOTE_FDS_MAX = ZYGOTE_FD_CGROUPS + ZYGOTE_CGROUPS_MAX };

/* Warden → zygote, first: what every child gets. */
struct zygote_setup {
	__u32 magic;
	__u32 filter_n;
	__u64 caps;
	struct sock_filter filter[ZYGOTE_FILTER_MAX];
};

/* Warden → zygote. */
struct zygote_ask {
	__u32 magic, serial, cgroups;
	__u32 noshare;	/* 1: the box has several volumes (proto/noshare.h) */
	__u64 file_max; /* how long the files of the box may be */
};

/* Zygote → warden: ready, or how a fork went. */
struct zygote_note {
	__u32 magic, serial; /* serial 0: ready */
	__s32 error;	     /* errno, or 0 */
};

/* To the agent: with descriptors when error is 0: socket, stdout, stderr and the listener of its netlink filter
 * (proto/netlink.h), which is missing where the kernel gives none. */
struct zygote_reply {
	__u32 magic, serial;
	__s32 error;
};
