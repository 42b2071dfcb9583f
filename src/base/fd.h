/*
 * fd.h - small helpers over descriptors. All return -errno on failure and retry EINTR.
 */
#pragma once

#include <sys/types.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/str.h"

int fd_set_nonblock(int fd, bool on);

/* Refuses descriptors over this AF_UNIX socket (Linux 6.16; before, and for other sockets, it does nothing). Call it
 * for every socket whose other end is not trusted: a receiver has to close descriptors that it did not ask for, and
 * closing a TCP socket with SO_LINGER takes as long as its sender likes. */
void fd_refuse_rights(int fd);

/* Blocking, whole transfers. fd_read_full returns the bytes read (short only at the end of file). */
ssize_t fd_read_full(int fd, void *p, size_t n);
int fd_write_full(int fd, const void *p, size_t n);

/* A whole small file, relative to dirfd (AT_FDCWD allowed), at most `max` bytes (-EFBIG past that), appended to *ret.
 */
int fd_read_file(int dirfd, const char *path, size_t max, struct buf *ret);
/* One write() to an existing file: for cgroup, proc and sys files, where partial writes have no meaning. */
int fd_write_file(int dirfd, const char *path, struct str content);
/* Writes `path`.tmp and renames it over `path`: readers see the old file or the new one. Syncs nothing. One writer. */
int fd_replace_file(int dirfd, const char *path, struct str content, mode_t mode);

/* AF_UNIX address; -ENAMETOOLONG when the path does not fit. The descriptor does not block. Listening replaces the
 * file at `path`: make sure before that no other program listens there. A connect is complete when it returns; -EAGAIN:
 * the listener's backlog is full. */
int fd_unix_listen(const char *path, int type, mode_t mode, int backlog);
int fd_unix_connect(const char *path, int type);
/* A socket that does not block and listens for TCP on 127.0.0.1; port 0: any, which *ret_port tells. */
int fd_loopback_listen(uint16_t port, int backlog, uint16_t *ret_port);
