/*
 * user.h - the user that the programs of the box run as: root, or the USER of its image.
 *
 * The agent stays root of the box. spawn drops to the user right before exec; what the agent makes for programs of
 * the user (files of the API, pipes of shells, terminals) is given to them.
 */
#pragma once

#include "proto/user.h"

/* Finds the user in the box's /etc/passwd. From now on every program runs as it. -1: there is none of that name. */
int box_user_set(const char *who, struct err *e);
/* NULL: root. */
const struct user *box_user(void);
/* Gives a file to the user, if there is one; a link itself, not its target. 0 or -errno. */
int box_user_give(const char *path);
int box_user_give_fd(int fd);

/* readlink of a link in /proc that only a process of the same user may read. */
ssize_t box_user_readlink(const char *path, char *ret, size_t size);

/* In a child of spawn: system calls only. 0 or -1 with errno. */
int box_user_become(void);
