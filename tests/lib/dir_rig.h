/*
 * dir_rig.h - directories on a disk for one test, as root; they go with it.
 */
#pragma once

/* A directory of this name in the test's own one. Skips (`why`) when not root. */
int dir_rig(const char *name, const char *why);
