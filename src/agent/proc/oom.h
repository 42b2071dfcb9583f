/*
 * oom.h - counts the processes of this box that the kernel has killed for lack of memory.
 *
 * The counter is the line "oom_kill N" of a cgroup file (v1 memory.oom_control, v2 memory.events). In a box the warden
 * hands over a descriptor of the file. Alone, the agent looks in the places where container runtimes mount it.
 */
#pragma once

#include "base/base.h"

/* Owns fd (-1: look for the file). */
void oom_init(int fd);
/* 0 when there is no counter. */
uint64_t oom_kills(void);
