/*
 * cgroup.h - a box's control groups: one directory "<slot>" in our own directory of every hierarchy that matters.
 *
 * The unified (v2) hierarchy is always used: it kills, freezes, counts CPU time and takes a child at birth
 * (CLONE_INTO_CGROUP). Where the host does not show it, we mount it for ourselves; every kernel has it. The
 * controllers memory, pids and cpu are taken from the v1 hierarchy that holds them, else from v2. So there is one
 * path for v1, hybrid and v2 hosts, and only the file names differ.
 *
 * A box has leaves where memory and CPU time are limited: its commands are in "<slot>/commands", which has the box's
 * limits, and its agent is outside: in "<slot>" itself on v1, in "<slot>/agent" on v2, which allows no process there.
 * So what commands do with memory and time neither ends the agent nor holds it up. The files that count, freeze and
 * kill belong to "<slot>" and mean all of it. Zygotes have no leaves, nor have boxes that an older warden made.
 *
 * All directories are held as descriptors, opened before the warden leaves the host's mounts, and reached by
 * "<slot>/<file>". Nothing here logs. One thread.
 */
#pragma once

#include "cage/sys.h"
#include "proto/errc.h"
#include "proto/warden.h"

/* v1: the limit for the memory of TCP and UDP sockets. */
#define CGROUP_BACKGROUND "background" /* directories beside those of boxes */
#define CGROUP_GATE	  "gate"
#define CGROUP_DAEMON	  "daemon"
#define CGROUP_V1_SOCKETS "memory.kmem.tcp.limit_in_bytes"

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CONTROLLERS };

/* Hierarchies in which a box has leaves, at most: the unified one, or memory and cpu. */
enum { CGROUP_LEAVES = 2 };

struct cgroups {
	int v2;				   /* our directory in the unified hierarchy */
	int unit;			   /* of the systemd service that we run in, with v2 alone; else -1 */
	bool in_service;		   /* we run in one, with v2 alone */
	int roots[1 + CGROUP_CONTROLLERS]; /* of the hierarchies: v2, then as v1 */
	int v1[CGROUP_CONTROLLERS];	   /* our directory in the controller's v1 hierarchy; -1: v2 has it */
	int private_mount; /* a hierarchy with favordynmods that we mounted; -1: not needed or not possible */
	bool dynmods;	   /* attaching is fast after idle */
	bool memsw;	   /* v1: memory + swap can be limited */
	uint32_t version;  /* 1, 2 or 12: as struct warden_host says it */
	char name[32];	   /* of our directory: "atoll-1a2b3c4d" */
};

/* Finds the hierarchies in /proc/self/mountinfo and makes our directory in each. HOST_UNSUPPORTED with one sentence
 * when a controller is nowhere or a hierarchy cannot be written. */
int cgroup_open(struct cgroups *c, const char *name, struct err *e);
void cgroup_close(struct cgroups *c);
/* Removes our own directories; those that still hold boxes stay. */
void cgroup_retire(const struct cgroups *c);
/* The group beside those of boxes for work that can wait, as making backups: it gets a tenth of the processor time of
 * one box when others want it. The file that takes a process in, for writing, or -1 and errno. */
int cgroup_open_background(const struct cgroups *c);
/* The group beside those of boxes for a program that holds their connections, CGROUP_GATE or CGROUP_DAEMON: in memory
 * and cpu. In a systemd service with v2 it is in that service, so that the journal knows whose lines the program writes;
 * 0 files when the service has no say over its own groups (Delegate=). It gets as much processor time as a hundred boxes, and on v2, which counts sockets as memory, it is slowed
 * down from a share of the machine's memory on. The files that take a process in, for writing, or -1 and errno. */
int cgroup_open_program(const struct cgroups *c, const char *name, int ret[CGROUP_LEAVES]);
/* Finds the service that we run in and moves its processes into a group of their own, as v2 wants it of a group that
 * has groups in it. */
void cgroup_open_unit(struct cgroups *c);
/* Removes the groups beside those of boxes, where no process is in them. */
void cgroup_remove_beside(const struct cgroups *c);
/* Does any process live in the directory of that name beside ours? */
bool cgroup_name_lives(const struct cgroups *c, const char *name);

/* One box. cgroup_make leaves nothing behind when it fails. */
int cgroup_make(const struct cgroups *c, uint32_t slot, struct err *e);
/* Makes the leaves of a new box. cgroup_remove takes them too. */
int cgroup_split(const struct cgroups *c, uint32_t slot, struct err *e);
/* The agent's v2 directory, for CLONE_INTO_CGROUP. */
int cgroup_open_v2(const struct cgroups *c, uint32_t slot, struct err *e);
/* Moves a process that was born in the v2 directory into the v1 directories, to the agent's places. */
int cgroup_attach(const struct cgroups *c, uint32_t slot, pid_t pid, struct err *e);
int cgroup_limit(const struct cgroups *c, uint32_t slot, const struct box_limits *l, struct err *e);
/* The file that counts the box's out-of-memory kills ("oom_kill N"), for reading. */
int cgroup_open_oom(const struct cgroups *c, uint32_t slot, struct err *e);
/* Opens the files that take a process in as a command, one for each hierarchy, for writing. Returns their number (at
 * most 1 + CGROUP_CONTROLLERS), or -1 and errno; the caller closes all that were opened in both cases. */
int cgroup_open_procs(const struct cgroups *c, uint32_t slot, int ret[1 + CGROUP_CONTROLLERS]);
/* The same for the hierarchies with leaves alone, which is all that a child of the agent needs. Entries that this host
 * does not need stay as they are. The caller closes all that were opened, also after a failure. */
int cgroup_open_leaves(const struct cgroups *c, uint32_t slot, int ret[CGROUP_LEAVES], struct err *e);
/* How many processes are in it. */
uint64_t cgroup_pids(const struct cgroups *c, uint32_t slot);
/* Live usage; a number that cannot be read stays 0. */
void cgroup_usage(const struct cgroups *c, uint32_t slot, struct box_info *info);
/* Bytes that its processes have written to files and that are not on their way to the disk yet; UINT64_MAX: unknown. */
uint64_t cgroup_dirty(const struct cgroups *c, uint32_t slot);

/* Whether the box's memory may go to swap. Prepared boxes start without; only a frozen one may have it. */
int cgroup_allow_swap(const struct cgroups *c, uint32_t slot, bool on, struct err *e);
/* The file that pushes the box's memory out, for writing, and the text to write. The write lasts as long as the memory
 * takes, so it belongs into a process of its own. */
int cgroup_open_reclaim(const struct cgroups *c, uint32_t slot, char ret_text[24], struct err *e);

int cgroup_freeze(const struct cgroups *c, uint32_t slot, bool on, struct err *e);
bool cgroup_is_frozen(const struct cgroups *c, uint32_t slot);
/* SIGKILL to everything in it, frozen or not. */
void cgroup_kill(const struct cgroups *c, uint32_t slot);
bool cgroup_is_populated(const struct cgroups *c, uint32_t slot);
/* Calls `each` for every process in it. */
void cgroup_each_pid(const struct cgroups *c, uint32_t slot, void (*each)(void *arg, pid_t pid), void *arg);
bool cgroup_has_pid(const struct cgroups *c, uint32_t slot, pid_t pid);

/* Removes the directories. 0 when all are gone, -EBUSY when a process has not left yet: ask again later. */
int cgroup_remove(const struct cgroups *c, uint32_t slot);
/* Calls `each` for every slot that has a directory in any hierarchy (a slot may come more than once). */
void cgroup_each(const struct cgroups *c, void (*each)(void *arg, uint32_t slot), void *arg);
