/*
 * fuse.h - FUSE mounts of boxes. A box has no capability to mount; the warden makes mounts in it (proto/fuse.h,
 * docs/design/020-fuse.md).
 *
 * The agent rings (FUSE_RING in the pipe of asks). The warden starts a **joiner**: a child in the box's cgroups that
 * joins the box's user, mount and network namespaces, opens /dev/fuse there, and takes the agent's asks. It is the
 * joiner that meets what the box says: paths, options, file systems that hang. The warden's loop reads nothing of it,
 * and kills a joiner after FUSE_JOINER_MAX. One joiner a box at a time, so mounts of a box are made one after the other
 * and can be counted.
 *
 * The end of a box aborts its connections: a FUSE server that waits for itself cannot be killed otherwise. fusectl
 * shows every connection as a directory that belongs to the user of the mount, and that is one of the box's own range
 * of users.
 */
#pragma once

#include "base/loop.h"
#include "proto/errc.h"

struct warden;
struct warden_slot;
struct warden_request;
struct warden_asker;

/* What a slot has of it. */
struct slot_fuse {
	int joiner; /* pidfd; -1: none */
	bool rung;  /* again, while there was one, or too often */
	uint64_t rung_ms, tokens;
	struct loop_io exit_io;
	struct loop_timer timer;
};

/* What the warden has of it. */
struct fuse_host {
	int node;    /* O_PATH: a /dev/fuse that no box can replace; -1: the host has no FUSE */
	int proc;    /* the warden's own /proc */
	int control; /* fusectl; -1: connections cannot be aborted */
};

/* Called with the host's mounts and privileges still there. A host without FUSE is logged once. */
void fuse_prepare(struct warden *w);

void fuse_slot_init(struct warden_slot *c);
/* The agent of the slot's box has rung. */
void fuse_ring(struct warden_slot *c);
/* The box ends: ends its joiner and its connections. */
void fuse_end(struct warden_slot *c);
/* Ends the connections of the box that has, or had, this slot. */
void fuse_abort(struct warden *w, uint32_t slot);
/* WARDEN_FUSE. */
void fuse_allow(struct warden *w, const struct warden_request *rq, struct warden_asker who);

/* The joiner's life (fuse_join.c). Never returns. */
struct fuse_join {
	int node, proc; /* of struct fuse_host */
	int box;	/* pidfd of the box's first process */
	int go;		/* a byte comes when it is in all cgroups */
	pid_t pid;	/* of the box's first process */
	pid_t warden;
	const char *refusal; /* why nothing is mounted; NULL: mounts are made */
};
_Noreturn void fuse_join(const struct fuse_join *j);
