/*
 * broker.h - FUSE mounts of a box: between fusermount and the warden's joiner (proto/fuse.h).
 *
 * The agent cannot mount. It takes asks from programs of the box, notes who asks (the kernel says it), rings for a
 * joiner and hands it one ask at a time. The reply, with the descriptor of a mounted /dev/fuse, goes to the program. A
 * warden that is away is rung again every FUSE_AGAIN; an ask that has no answer after FUSE_WAIT fails with ETIMEDOUT.
 *
 * Nothing here touches a mount point: a file system that hangs must not hang the agent.
 * Thread: the loop's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* For a box; call it before the first child is started. `ask_fd` is descriptor 4 of a box's first process, which stays
 * the caller's. Without it, or when the socket cannot be made, fusermount says that the agent does not answer. */
void fuse_broker_init(int ask_fd);

/* A program of the box called umount2 and waits (agent/proc/netlink.h). */
struct fuse_notice {
	int listener; /* answers it … */
	uint64_t id;  /* … with this number */
	bool lazy;
	char path[4096];
};

/* Hands it to the loop, which answers it: 0 when a FUSE mount was there and is gone, EPERM when there was none. For
 * another thread. False: the caller answers. */
bool fuse_broker_pass(const struct fuse_notice *n);
