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
 * The broker is a thread of the agent that is older than the filter, so the filter does not apply to it. It lives as
 * long as PID 1: no process of the box can signal or trace it, and it survives the end of the warden, the daemon and
 * `atoll up`. Every process of the box inherits the agent's filter. A worker that joins from the zygote brings a
 * listener of its own (proto/zygote.h).
 *
 * The kernel keeps the count: an epoll instance holds a socket until its last descriptor is closed, also a descriptor
 * that a fork or a message has copied, and lists its sockets in /proc/self/fdinfo. When all sockets are in use the
 * broker waits up to NETLINK_PATIENCE for one to be closed, then refuses with ENOBUFS.
 *
 * On a kernel that gives no listener (another supervisor has one already) netlink sockets fail with ENOSYS.
 */
#pragma once

#include "proto/errc.h"
#include "proto/limits.h"

/* For a box; call it before the first child is started. Starts the agent's only other thread. */
int netlink_init(struct err *e);
/* Loads the filter into this process, and no broker: for a process whose listener the agent adopts later. *ret is -1
 * where the kernel gives no listener. */
int netlink_load_filter(int *ret_listener, struct err *e);
/* Also serves the tasks of this listener, until the last of them is gone. Owns the descriptor. */
void netlink_adopt(int listener);
