/*
 * item.h - rows of any kind beside the sandboxes: secrets, snapshots, backups, volumes, images, containers …
 *
 * An item has a kind ("snapshot"), a key that is unique within its kind, the id of the sandbox that it belongs to (or
 * "") and a JSON text that only its owner understands. Each module of the daemon that has a kind loads its items before
 * store_start, keeps them in memory and writes every change. Deleting a sandbox leaves its items alone: their module
 * knows what may go, and looks for items without a sandbox when it loads.
 */
#pragma once

#include "store/store.h"

struct store_item {
	const char *kind, *key, *sandbox; /* at most ITEM_NAME_MAX bytes each, borrowed */
	int64_t created_ms;		  /* wall clock */
	const char *value;		  /* at most ITEM_VALUE_MAX bytes, borrowed */
	bool durable;			  /* of store_item_put: the answer waits for the disk; not kept */
};

/* Every item of a kind, sorted by key, before store_start. The callback returns 0, or -1 with *e to stop. */
typedef int (*store_on_item)(void *arg, const struct store_item *item, struct err *e);
int store_load_items(struct store *s, const char *kind, store_on_item on_item, void *arg, struct err *e);

/* Make or replace one; delete one (one that is not there is a success). Order and on_done as in store.h. */
void store_item_put(struct store *s, const struct store_item *item, store_on_done on_done, void *arg);
void store_item_delete(struct store *s, const char *kind, const char *key, store_on_done on_done, void *arg);
