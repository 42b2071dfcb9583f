/*
 * privileges.h - becoming an ordinary user for good.
 *
 * If started as root, the process takes the groups, gid and uid of `user`, empties all capability sets and sets
 * no_new_privs; then it checks that it cannot become root again. If started as an ordinary user, it drops inherited
 * capabilities. Call it before any input from outside is read, and before threads exist: the system calls act on one
 * thread.
 */
#pragma once

#include <sys/types.h>

#include "proto/errc.h"

/* The user's ids, for files that root must hand over first. NOT_FOUND with a sentence when there is no such user. */
int privs_lookup(const char *user, uid_t *ret_uid, gid_t *ret_gid, struct err *e);

/* uid and gid are used only when the process is root. */
int privs_drop(uid_t uid, gid_t gid, struct err *e);
