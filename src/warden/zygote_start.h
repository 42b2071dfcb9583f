/*
 * zygote_start.h - starts a zygote: a Python process that sees one image and can fork into boxes.
 *
 * It runs in namespaces of its own (mount, net, ipc, uts) but in the warden's pid namespace, because a process can give
 * its children only a pid namespace below its own. Its root is the image, read-only, with a small /dev and /tmp; there
 * is no /proc. Its user is the first id of a slot of its own, which no other process has. It has one capability,
 * CAP_SYS_ADMIN, which setns into a box needs. Its seccomp filter is the box's and setns, so the capability serves for
 * nothing else. It ends when the warden closes the control socket.
 */
#pragma once

#include "cage/slot.h"

struct zygote_process {
	pid_t pid;
	int pidfd, control;
};

/* `slot` names its user and cgroups and must be free. The set-up record is sent; it says when it is ready (struct
 * zygote_note). Leaves nothing behind when it fails. */
int zygote_spawn(
	const struct slot_host *h, uint32_t slot, const struct image *image, struct zygote_process *ret, struct err *e);

/* The exit code of a half-made process whose image has no python3. */
enum { ZYGOTE_NO_PYTHON = 3 };
