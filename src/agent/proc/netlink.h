/*
 * netlink.h - the broker of a box's NETLINK_ROUTE sockets.
 *
 * No cgroup counts the replies that wait in a netlink socket, so their number and their buffers are bounded here. A
 * seccomp filter stops every socket(AF_NETLINK, …) and every setsockopt of SO_RCVBUF or SO_SNDBUF in the box and tells
 * the broker, which makes the socket, or sets the size, in place of the caller:
 *
 *	caller			kernel			broker
 *	socket(AF_NETLINK) ────▶ filter ───────────────▶ counts; socket, small buffers
 *	◀──────────────────────── SECCOMP_IOCTL_NOTIF_ADDFD, SEND
 *
 * The broker is a thread of the agent that is older than the filter, so the filter does not watch it. It ends with
 * PID 1 and not before: nobody in the box can signal or trace it, and the kill of the warden, the daemon or `atoll up`
 * does not concern it. Every process of the box has the agent's filter by inheritance; a context that joins from the
 * zygote brings the listener of its own (proto/zygote.h).
 *
 * The kernel keeps the count: an epoll instance holds a socket until its last descriptor is closed, also a descriptor
 * that a fork or a message has copied, and lists its sockets in /proc/self/fdinfo. When all sockets are in use the
 * broker waits up to NETLINK_PATIENCE for one to be closed, then refuses with ENOBUFS.
 *
 * On a kernel that gives no listener (another supervisor holds one for us already) netlink sockets answer ENOSYS.
 */
#pragma once

#include "base/err.h"
#include "proto/limits.h"

/* In a box, before the first child. Starts the agent's only other thread. */
int netlink_init(struct err *e);
/* Serves the tasks behind this listener too, until the last of them is gone. Owns the descriptor. */
void netlink_adopt(int listener);
