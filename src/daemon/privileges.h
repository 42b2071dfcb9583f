/*
 * privs.h - becoming an ordinary user for good.
 *
 * Started as root: groups, gid, uid of `user`, all capability sets empty, no_new_privs; then it is checked that root
 * cannot be had back. Started as an ordinary user: capabilities that came along are dropped all the same. Call it
 * before anything from outside is read, and before threads exist: the calls are per thread.
 */
#pragma once

#include <sys/types.h>

#include "proto/errc.h"

/* The user's ids, for what root must hand over before. NOT_FOUND with a sentence when there is no such user. */
int privs_lookup(const char *user, uid_t *ret_uid, gid_t *ret_gid, struct err *e);

/* uid and gid are used only when the process is root. */
int privs_drop(uid_t uid, gid_t gid, struct err *e);
