/*
 * layers.h - a box's root file system: the image below, read-only; the box's own layer above.
 *
 * The warden builds the overlay here from descriptors and hands it to the box as a mount. Both layers are mapped
 * through the box's user namespace, so ids on disk start at 0 and a layer fits any slot. The kernel does the overlay's
 * own work (its "work" directory, copy-ups) as the user that made the mount. Root is not mapped into the layers, so the
 * mount is made with the box's root as file-system user; otherwise the overlay silently turns read-only.
 *
 * A layer in a pool is mounted so that fsync inside a box reaches the disk. The price: every unmount of a box's root
 * syncs the whole file system below it, so helpers unmount. A `volatile` mount has neither: files of the last
 * seconds may be lost when the *host* dies. See docs/design/017-storage.md.
 */
#pragma once

#include "cage/sys.h"
#include "proto/errc.h"
#include "proto/limits.h"

/* Four empty directories in the warden's root, lower, tools, layer and overlay, for kernels before 6.13, which mount
 * overlays by path only. */
#define LAYERS_STAND "/stand"

struct image {
	char key[BOX_IMAGE_NAME_MAX + 1]; /* the directory that the name stands for, or an image made here */
	uint64_t inode;			  /* of its rootfs: an image that was built again in place has another inode */
	uint64_t made_ns;		  /* an image made here: its time, because inodes are used again */
	bool layered;			  /* made here: a list of layers (proto/image.h). Its code is a user's */
};

bool image_same(const struct image *a, const struct image *b);

/* `name` is a directory in `images` that holds rootfs/ and image.json, or a link to one beside it; or the key of an
 * image made here, whose layers meta/<key>.layers lists. */
int image_find(int images, const char *name, struct image *ret, struct err *e);

/* Opens the root directories of its layers for their paths, the highest first. */
int image_open(int images, const struct image *image, int ret[IMAGE_LAYERS_MAX], size_t *ret_n, struct err *e);

/* Makes `name` in `dir` with an empty upper/ and work/. Leaves nothing behind when it fails. */
int layer_make(int dir, const char *name, struct err *e);
/* Readies an old layer for another mount: a fresh work/, the old one goes to the trash. In a subvolume, which cannot
 * give a directory away, work/ stays. */
int layer_reuse(int dir, const char *name, int trash, struct err *e);

struct layer_mount_args {
	int images; /* directory */
	const struct image *image;
	int dir; /* of layers */
	const char *name;
	int userns;    /* the box's */
	uint32_t root; /* the user that is the box's root */
	bool is_volatile;
	int tools;	/* a tree that lies on the image (tools.h); 0: none */
	bool by_number; /* as on kernels before 6.13; the tests do that on every kernel */
};

/* The overlay of dir/name over the image, detached. *ret_spent are the mounts that it was made from. The overlay does
 * not need them any more, but closing one waits for an RCU grace period: the caller has another process do that. */
enum { LAYER_SPENT = 3 };
int layer_mount(const struct layer_mount_args *a, int ret_spent[LAYER_SPENT], struct err *e);
