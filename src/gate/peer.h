/*
 * peer.h - whether a program in a box has closed its socket for good.
 *
 * The end of a client's bytes may mean both: it has closed, or it only says no more (shutdown) and still reads. TCP
 * does not tell. The kernel of the box's namespace does, through a sock_diag socket that was made there: a socket that
 * no program holds has no inode. A client that has closed gets nothing more, so its server need not be waited for.
 */
#pragma once

#include "proto/ip.h"

struct peer_end {
	struct ip ip;
	uint16_t port;
};

/* `diag`: the box's socket for such questions, or -1; `client`: the program's end, `wanted`: what it connected to.
 * False also when the kernel does not say. */
bool peer_has_closed(int diag, const struct peer_end *client, const struct peer_end *wanted);
