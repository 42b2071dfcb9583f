/*
 * warm.h - "atoll-agent warm": starts a Node worker in a half-made box, for the agent that the box will have.
 *
 * The half-made box (cage/init_warm.h) has given this process the confinement of every process of a box but the filter
 * of netlink sockets, which comes with a listener. It loads this filter, starts the worker as the agent does, sends
 * struct warm_record with the worker's descriptors and the listener into descriptor WARM_FD, and ends. The worker is
 * then a child of the box's first process. The record waits in the socket until that process is the agent
 * (spare_await). When the socket is closed instead, the worker reads the end of its own socket and ends.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

#define WARM_MAGIC 0x41545731u /* "ATW1" */

enum { WARM_FD = 6, WARM_FDS = 5 };

/* With it come descriptors: socket, stdout, stderr, interrupt, and the listener, where the kernel gives one. */
struct warm_record {
	uint32_t magic;
	pid_t pid;
	uint32_t typescript; /* it has the compiler */
};

/* Returns the exit code. */
int warm_run(bool typescript);
