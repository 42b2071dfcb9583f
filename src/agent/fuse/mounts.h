/*
 * mounts.h - which paths of the box can make a system call wait for a FUSE server.
 *
 * A FUSE server is a program of the box. When it does not answer, a call that needs it sleeps, and SIGKILL may not end
 * it. The loop must not make such a call: files there are served by helpers (request/aside.h), and programs that begin
 * there are started apart (proc/spawn.h). Nothing here asks a FUSE server.
 *
 * Until the broker has made the first mount of the box, each question is one comparison. Afterwards it is two or three
 * system calls: one tells whether the table of mounts has changed since it was read. A mount that appears between the
 * question and the call that it is about is not seen. Thread: the loop's.
 */
#pragma once

#include "base/base.h"

/* The broker has made a mount. */
void fuse_mounts_begin(void);
/* Whether the box has a FUSE mount now. */
bool fuse_mounts_any(void);
/* Whether the path, absolute, may lead into a FUSE mount. */
bool fuse_mounts_on(const char *path);
/* The same, or a FUSE mount may be below it: for what looks at a directory's entries. */
bool fuse_mounts_on_or_below(const char *path);
/* Whether executing the program may wait for a FUSE server: because of its own place, or of the program that its "#!"
 * line or its ELF header names. Relative paths begin at `cwd` (NULL: the agent's). */
bool fuse_mounts_run(const char *cwd, const char *program);
