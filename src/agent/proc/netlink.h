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
 * The count is the kernel's: an epoll instance keeps a socket until the last descriptor of it is closed, wherever that
 * one is (fork, SCM_RIGHTS), and lists what it keeps in /proc/self/fdinfo. When all are in use the broker waits a
 * little for one to be closed (NETLINK_PATIENCE), then refuses with ENOBUFS.
 *
 * On a kernel that gives no listener (another supervisor holds one for us already) netlink sockets answer ENOSYS.
 */
#pragma once

#include "proto/errc.h"
#include "proto/limits.h"

/* In a box, before the first child. Starts the agent's only other thread. */
int netlink_init(struct err *e);
/* Serves the tasks behind this listener too, until the last of them is gone. Owns the descriptor. */
void netlink_adopt(int listener);
