/*
 * fd_pass.h - records with descriptors over AF_UNIX sockets: the only place that knows ancillary data.
 *
 * A record is sent whole or not at all, with at most FD_PASS_MAX descriptors, which stay the sender's. The receiver
 * says how many it takes. A record with more descriptors is refused with -EPROTO, and all of them are closed.
 * Descriptors that arrive are CLOEXEC and belong to the caller. Both functions return -errno and retry EINTR.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"

enum { FD_PASS_MAX = 64 };

struct fd_record {
	void *data; /* in: where the bytes go */
	size_t size;
	int *fds; /* in: where the descriptors go; may be NULL when fds_max is 0 */
	size_t fds_max;
	size_t fds_n; /* out */
	pid_t pid;    /* out: the sender, when the socket has SO_PASSCRED; else 0 */
};

/* The bytes sent. `flags` are those of sendmsg; MSG_NOSIGNAL is always set. */
ssize_t fd_send(int sock, const void *data, size_t size, const int *fds, size_t fds_n, int flags);

/* The length of the record, which is more than `size` when it was cut; 0 at the end. `flags` are those of recvmsg. */
ssize_t fd_recv(int sock, struct fd_record *r, int flags);

/* Closes fds[0 .. fds_n) and sets fds_n to 0. */
void fd_record_close(struct fd_record *r);
