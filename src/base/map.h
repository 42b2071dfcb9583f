/*
 * map.h - hash table from byte strings to pointers. Keys are copied; values belong to the caller.
 *
 * Clients choose the keys, so the hash is SipHash-2-4 under a key that each map draws from the kernel when it first
 * grows: a client cannot aim at one slot.
 */
#pragma once

#include "base/str.h"

struct map_slot {
	char *key; /* NULL: empty */
	size_t key_len;
	uint64_t hash;
	void *value;
};

struct map {
	struct map_slot *slots;
	size_t cap, count;
	uint64_t secret[2];
};

void map_free(struct map *m);
void *map_get(const struct map *m, struct str key);
/* Replaces; returns the value that was there or NULL. `value` is not NULL. */
void *map_put(struct map *m, struct str key, void *value);
/* Returns the value that was there or NULL. */
void *map_del(struct map *m, struct str key);
/* Iterates in no order: start with *it = 0; returns false at the end. The map must not change meanwhile. */
bool map_next(const struct map *m, size_t *it, struct str *ret_key, void **ret_value);

/* The hash itself. */
uint64_t map_hash(const uint64_t secret[2], struct str key);
