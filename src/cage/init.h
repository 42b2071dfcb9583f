/*
 * init.h - the half-made box: the process that becomes PID 1.
 *
 * The process is born into its user and pid namespace. It does all work that does not depend on the box's name, waits
 * (parked), and finishes when it is told. It makes its other namespaces itself: that uses another CPU, and namespaces
 * made by the box's own root belong to the box's user namespace. It speaks with the warden over a SEQPACKET pair:
 *
 *	warden				child
 *	clone3 ───────────────────────▶ keeps the descriptors it needs, closes the rest
 *	id maps, cgroups; "maps" ─────▶ namespaces and their insides: /proc, /dev, loopback, limits, bounding set
 *	◀──────────────────── READY	parked
 *	(WARM + the overlay's mount ──▶ root; a Node worker is started in it: init_warm.h)
 *	GO + the overlay's mount ─────▶ host name, root, capabilities, seccomp, exec of the agent
 *	◀──────── end of file (exec closed it), or FAILED with the error as a value
 *
 * When the warden dies before GO the child reads the end of file and exits: only finished boxes outlive their warden.
 */
#pragma once

#include "cage/cgroup.h"
#include "proto/errc.h"
#include "proto/limits.h"
#include "proto/warden.h"

struct init_fds {
	int control;		   /* the child's end */
	int dev, shm;		   /* dev_make */
	int listen;		   /* the agent's socket: becomes fd 0 */
	int oom;		   /* cgroup_open_oom: becomes fd 1 */
	int agent;		   /* the agent's program, sealed: executed */
	int reply;		   /* answers of the zygote (proto/zygote.h): becomes fd 3 */
	int ask;		   /* requests to the zygote: becomes fd 4 */
	int leaves[CGROUP_LEAVES]; /* cgroup_open_leaves: become fds 7 and 8 */
};

enum init_note_kind { INIT_READY = 1, INIT_FAILED };
struct init_note {
	uint32_t kind;
	struct err err; /* of FAILED */
};

enum init_order { INIT_GO = 1, INIT_WARM };
/* With it come descriptors: the overlay's mount, then one mount for each volume. WARM has no id, limits and volumes,
 * and comes at most once. The GO behind it brings the same overlay. */
struct init_go {
	uint32_t order;
	uint32_t typescript; /* WARM: the worker loads the compiler */
	uint32_t bare;	     /* GO: nothing is added to the files: no /workspace */
	char id[BOX_ID_MAX + 1];
	struct box_limits limits;
	uint64_t file_max; /* how long its files may be */
	uint32_t volumes_n;
	char volumes[BOX_VOLUMES_MAX][VOLUME_PATH_MAX + 1]; /* their places */
};

/* Where in the warden's own root the empty directory lies that a half-made box takes as its root; it has an empty
 * proc/ and dev/. */
#define INIT_ANCHOR "/box"

/* The child's life until exec. Never returns. */
_Noreturn void init_run(const struct init_fds *fds);

/* The warden's side. */
int init_send_maps(int control, struct err *e);
int init_send_go(int control, const struct init_go *go, const int mounts[1 + BOX_VOLUMES_MAX], struct err *e);
int init_send_warm(int control, int overlay, bool typescript, struct err *e);
/* 1: *ret is filled. 0: the other end is closed. -1: nothing there yet (errno EAGAIN) or a broken record. */
int init_receive(int control, struct init_note *ret);

/* Sets the limits of open files and core dumps that every box and every zygote has. */
int init_limit_self(struct err *e);

/* An id as a host name: letters, digits and hyphens, none at the ends. */
void init_hostname(const char *id, char ret[BOX_ID_MAX + 1]);
