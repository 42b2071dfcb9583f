/*
 * groups.h - what atoll-warden sends to `atoll up`: the cgroups of the gate and of the daemon.
 *
 * One packet over the socket that `atoll up` hands down (LISTEN_FDNAMES=groups), as early as the warden knows its
 * hierarchies, and again after each of its restarts. With it come descriptors of cgroup.procs, one for each hierarchy,
 * those of the gate first. A program that writes "0" to each of them is in its group.
 */
#pragma once

#include <stdint.h>

#define GROUPS_MAGIC 0x41544731u /* "ATG1" */

enum groups_program { GROUPS_GATE, GROUPS_DAEMON, GROUPS_PROGRAMS };
enum { GROUPS_FILES = 2 }; /* of one program, at most: the unified hierarchy, or memory and cpu */

struct groups_record {
	uint32_t magic;
	uint32_t n[GROUPS_PROGRAMS]; /* descriptors of each */
};
