/*
 * slot.h - a box made ahead: everything but its name, its files and its agent.
 *
 * A slot is a number (which names its cgroups, its agent's socket and its range of user ids) and a half-made box that
 * waits in all its namespaces (init.h), born into its cgroups. It is made in idle time; a create gives it a name and
 * lets it go. When an image is known ahead, the layer and the overlay are ready too.
 *
 * Parts that a slot needs before a create takes it (a pair of virtual network interfaces with an address) are added
 * when the half-made box has said that it is ready: its network namespace exists and nothing runs in it.
 *
 * The slot owns its descriptors. Paths are seen from the warden's own root (src/warden/isolate.h).
 */
#pragma once

#include "cage/cgroup.h"
#include "cage/ids.h"
#include "cage/layers.h"
#include "cage/pool/pool.h"
#include "proto/errc.h"

/* The parts of the host that slots are made from; borrowed. */
struct slot_host {
	const struct cgroups *cgroups;
	int agent;	   /* program_load */
	int images;	   /* directory */
	int layers;	   /* directory of layers made ahead: <slot>/ */
	int trash;	   /* directory, on the file system of `layers` */
	struct pool *pool; /* that `layers` is in */
	int sockets;	   /* directory of the agents' sockets */
	const char *sockets_path;
	uid_t user; /* may connect to an agent */
	gid_t group;
	int tools; /* directory (tools.h); 0: none */
};

struct slot {
	uint32_t number;
	pid_t pid;
	int pidfd;
	int control;
	int userns;
	int mntns;		/* held from READY on, so that the box's end does not wait for the end of its mounts */
	int ask, reply;		/* to and from the agent: contexts from the zygote (proto/zygote.h) */
	int overlay;		/* of a layer made ahead; -1: none */
	int spent[LAYER_SPENT]; /* see layer_mount; the owner takes them or slot_close closes them */
	struct image image;	/* of the overlay */
	bool is_volatile;	/* the overlay is */
	uint64_t start_time;	/* of the process, in the kernel's ticks: tells it from another with the same pid */
};

#define SLOT_EMPTY                                                                                                     \
	((struct slot){.pidfd = -1,                                                                                    \
		.control = -1,                                                                                         \
		.userns = -1,                                                                                          \
		.mntns = -1,                                                                                           \
		.ask = -1,                                                                                             \
		.reply = -1,                                                                                           \
		.overlay = -1,                                                                                         \
		.spent = {-1, -1, -1}})

/* Starts a half-made box; it tells on `control` when it is ready. `image` may be NULL: no layer is made ahead.
 * Leaves nothing behind when it fails. */
int slot_make(const struct slot_host *h, uint32_t number, const struct image *image, struct slot *ret, struct err *e);

/* Makes a layer of `image` ahead for a slot that has none. A slot without a layer is still of use: the create that
 * takes it makes one, and reports the error. */
void slot_make_layer(const struct slot_host *h, struct slot *s, const struct image *image);

/* The reading end of the pipe by which a box asks. It has a name, so that the next warden can open it again. */
int slot_open_ask(const struct slot_host *h, uint32_t number);

/* Removes the agent's socket, its pipe and the layer made ahead, if there are any. */
void slot_forget(const struct slot_host *h, uint32_t number);
void slot_drop_layer(const struct slot_host *h, uint32_t number);

/* A namespace ("user", "mnt") of a process; -1 and errno. */
int slot_open_ns(pid_t pid, const char *which);

/* Closes descriptors only. */
void slot_close(struct slot *s);

/* The field "starttime" of /proc/<pid>/stat; 0 when there is no such process. */
uint64_t slot_start_time(pid_t pid);
