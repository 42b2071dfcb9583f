/*
 * registry.h - images out of and into archives and registries. Pulls are ours (pull.c); skopeo pushes. It runs as this
 * service's user, with the host's network.
 */
#pragma once

#include "images/images.h"

/* POST /v1/images/pull and /push. */
int do_pull(struct order *o, struct store *s, struct err *e);
int do_push(struct order *o, struct store *s, struct err *e);
void remove_tree(const char *dir);

/* POST /v1/images/commit. */
int do_commit(struct order *o, struct store *s, struct err *e);

/* The image's files as one tar. */
int export_rootfs(struct store *s, struct work *w, const char *key, int out, struct err *e);
/* As an OCI layout in a tar, with one layer. */
int export_oci(struct store *s, struct work *w, const char *key, const char *name, int out, struct err *e);
/* Removes layers of pulls that did not end: all, or those that are older than a day. The bytes on the disk. */
uint64_t pull_sweep(bool all, bool dry);
/* Forgets which layers registries have; the next push finds out. */
void push_sweep(void);
/* Pulls a reference under its name. */
int registry_pull(struct store *s, const char *ref, const char *credentials, struct err *e);
