/*
 * init_warm.h - a Node worker that a half-made box starts ahead, and the descriptors of a half-made box.
 *
 * The half-made box is in its root. It forks a process that becomes what every process of a box is: the box's
 * capabilities, its filter, its namespaces and cgroups. This process executes "atoll-agent warm" (agent/code/warm.h),
 * which starts the worker and sends the worker's descriptors into a socket. The other end of the socket waits in the
 * half-made box, and is descriptor FD_WARM of the agent that it becomes. Nothing here waits for the worker.
 */
#pragma once

#include <sys/types.h>

#include "cage/init.h"
#include "proto/errc.h"

/* Where a half-made box keeps its descriptors; everything else is closed before anything is done. */
enum {
	FD_LISTEN = 0,
	FD_OOM = 1,
	FD_NULL = 2,
	FD_REPLY = 3,
	FD_ASK = 4,
	FD_PROC = 5,
	FD_WARM = 6, /* closed by exec when there is no worker */
	FD_LEAF = 7, /* CGROUP_LEAVES of them; closed by exec where there is none */
	FD_CONTROL = FD_LEAF + CGROUP_LEAVES,
	FD_DEV,
	FD_SHM,
	FD_AGENT,
	FD_KEPT
};

/* A failure leaves a box without a worker, and its first context starts one. */
void init_warm(bool typescript);
