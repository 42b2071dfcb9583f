/*
 * dir_rig.h - directories on a disk for one test, as root; they go with it.
 */
#pragma once

/* A directory of this name in the test's own one. Skips (`why`) when not root. */
int dir_rig(const char *name, const char *why);

/* Before the first directory: they are in memory, where a great many files are quickly made. No trusted attributes. */
void dir_rig_in_memory(void);
