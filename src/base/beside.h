/*
 * beside.h - the programs in the directory of this one, for a process that may not be able to walk there.
 *
 * Programs run in place, and a checkout may be where only root can go: root's home has mode 0700. So a process opens
 * the programs that it will need while it is root, or its parent hands them down, open, in ATOLL_BESIDE ("atoll=7:…").
 * A program that is executed from a descriptor has the number of the descriptor for a name until it calls beside_name.
 *
 * The descriptors stay open until the process ends; forks share them. One thread.
 */
#pragma once

#include "base/base.h"

enum { BESIDE_MAX = 4, BESIDE_PATH = 4096 };

/* The name of this process in ps and /proc/self/comm. */
void beside_name(const char *name);

/* Opens a program, or takes the descriptor of it that the parent has handed down. Call it before root is given up; a
 * program that cannot be opened is looked for again by beside_path. At most BESIDE_MAX. */
void beside_keep(const char *name);

/* A path that opens or executes the program: of a kept descriptor, else in the directory of this program. */
void beside_path(const char *name, char ret[BESIDE_PATH]);

/* The path of the program as a user knows it, for argv[0] and messages. This process may not be able to use it. */
void beside_shown(const char *name, char ret[BESIDE_PATH]);

/* In a child, between fork and exec: opens the programs of `dir` for the program that is executed next. Programs that
 * cannot be opened are left out. `names` ends with NULL. */
void beside_hand_down(const char *dir, const char *const *names);
