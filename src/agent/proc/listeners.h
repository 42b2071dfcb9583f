/*
 * listeners.h - how many TCP sockets of a box listen.
 *
 * No cgroup counts a connection that nobody has accepted: the kernel makes its socket while a packet arrives, in
 * nobody's name. The network namespace bounds the queue of one listening socket (BOX_SOMAXCONN), this module the number
 * of such sockets, so the product is small. The broker (netlink.h) asks before it lets a listen(2) go on.
 *
 * Older kernels, 6.1 among them, hide net.core.somaxconn in the namespace of a box. There the broker makes the call
 * itself when the caller wants a longer queue. The files of a process that gave up root and has not executed a program
 * since are closed to it: that call goes on as it is, and its socket counts as many times as its queue may be longer.
 *
 * The count comes from the kernel's table in /proc/net. It is taken again only when as many calls were allowed as may
 * listen. Calls that are under way at that moment are missed, so a box can have a few more than BOX_LISTENERS, at most
 * one for each of its threads. Thread: the broker's.
 */
#pragma once

#include "base/base.h"

/* Whether the network namespace bounds the queues. */
bool listeners_have_short_queues(void);
/* Whether one more socket may listen. Counts it. */
bool listeners_take(void);
/* Whether the socket that was counted just now may have a queue as long as the kernel allows. */
bool listeners_lengthen(void);
