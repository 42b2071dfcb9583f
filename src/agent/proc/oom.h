/*
 * oom.h - how often the kernel has killed for lack of memory in this box.
 *
 * The counter is the line "oom_kill N" of a cgroup file (v1 memory.oom_control, v2 memory.events). In a box the warden
 * hands a descriptor over; alone, the agent looks where container runtimes put it.
 */
#pragma once

#include "base/base.h"

/* Owns fd (-1: look for the file). */
void oom_init(int fd);
/* 0 when there is no counter. */
uint64_t oom_kills(void);
