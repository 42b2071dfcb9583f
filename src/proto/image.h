/*
 * image.h - what the warden, the daemon and the image service agree on about images: names, files and records.
 *
 * The image directory (ATOLL_IMAGES) belongs to root. The warden alone writes it:
 *
 *	default -> KEY, KEY/rootfs, KEY/image.json	images of Atoll's own, made by tools/image/build
 *	layers/HEX/			one layer: a tree with the kernel's own whiteouts, stored once
 *	meta/KEY.layers			an image made here: its layers, lowest first, one a line
 *	meta/KEY.json			its configuration (src/images)
 *	meta/KEY.packages		what is installed in it (src/images, tools/image/build)
 *	meta/names/NAME -> KEY		references that people use
 *	meta/cache/HEX -> KEY		steps of builds
 *	meta/sizes/NAME			bytes of a layer, or of the rootfs of an image of Atoll's own, on the disk
 *	users/INSTANCE/KEY		"a sandbox of this daemon uses it": collection leaves it alone
 *	staging/INSTANCE/		layers of boxes that unpack archives (src/warden/staging.h)
 *	making/ trash/ lock
 *
 * A line of KEY.layers is 64 hexadecimal digits (layers/HEX), or the key of an image with a rootfs.
 *
 * Records of the image service go to the warden over $ATOLL_RUN/images.sock, AF_UNIX SEQPACKET, one request and its
 * reply at a time. The warden checks every field again; it parses no JSON: a configuration is bytes to it.
 */
#pragma once

#include "base/buf.h"
#include "proto/errc.h"
#include "proto/limits.h"

#define IMAGE_MAGIC 0x41544931u /* "ATI1" */
/* The image with nothing in it. */
#define IMAGE_SCRATCH	  "scratch"
#define IMAGE_EMPTY_LAYER "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define IMAGE_BOX	  "image-"	      /* sandboxes of the image service begin with it */
#define IMAGE_SOCKET	  "images.sock"	      /* the warden's, in ATOLL_RUN */
#define IMAGE_STDIN_FILE  ".atoll-Dockerfile" /* in a context: the Dockerfile that came beside it */
enum { IMAGE_HEX = 64 };
enum { IMAGE_BOX_DIGITS = 32 }; /* of a job's boxes: IMAGE_BOX, its process, '-', digits that no client can guess */

/* What registries call the processor that boxes run on. */
#if defined __x86_64__
#define IMAGE_PROCESSOR "amd64"
#elif defined __aarch64__
#define IMAGE_PROCESSOR "arm64"
#else
#error "registries have a name for this processor"
#endif

enum image_op {
	IMAGE_META = 1, /* replies with a descriptor of meta/ */
	IMAGE_TAKE,	/* box, layer: ends the box; its own layer becomes layers/<layer> */
	IMAGE_PUT,	/* key; two descriptors: the text of KEY.layers, the text of KEY.json */
	IMAGE_LINK,	/* name, key ("": remove); flags: IMAGE_CACHE */
	IMAGE_UNUSE,	/* key: no sandbox of this daemon uses it any more */
	IMAGE_MEASURE,	/* writes the sizes that are missing in meta/sizes */
	IMAGE_COLLECT,	/* removes what nothing refers to; flags: IMAGE_CACHE also forgets the steps of builds */
	IMAGE_PACKAGES, /* key; a descriptor: the text of KEY.packages */
	IMAGE_REACH,	/* box: replies with an unconnected TCP socket of its network */
	IMAGE_STAGE,	/* box, to be created: its layer is made here, so that TAKE is a rename */
	IMAGE_ENDED,	/* box of STAGE: NO_SPACE when the warden has ended it because it filled the disk */
};

enum image_flag {
	IMAGE_CACHE = 1,
	IMAGE_DRY = 2,	/* COLLECT removes nothing and counts what it would */
	IMAGE_READS = 4 /* STAGE: the box reads the image and writes next to nothing, also when the disk is full */
};

struct image_request {
	uint32_t magic, op;
	char box[BOX_ID_MAX + 1];
	char key[BOX_IMAGE_NAME_MAX + 1];
	char layer[IMAGE_HEX + 1];
	char name[IMAGE_LINK_MAX + 1];
	uint32_t flags;
};

struct image_reply {
	uint32_t magic, op;
	struct err err;			  /* code ERRC_OK on success */
	uint32_t images, layers;	  /* COLLECT: how many were removed … */
	uint64_t bytes;			  /* … and the size of the layers on the disk */
	uint32_t stored;		  /* COLLECT: the layers that were there before … */
	uint64_t stored_bytes;		  /* … and their size */
	char own[BOX_IMAGE_NAME_MAX + 1]; /* META: the key of 'default', or "" */
};

/* Whether the file system of the image directory has room for more than its reserve. */
bool image_has_room(int dir);

bool image_hex_ok(struct str s); /* 64 lower-case hexadecimal digits */
/* A line of KEY.layers. */
bool image_layer_ok(struct str s);

/* The next line of a layers file; false at its end. *ret_ok is false when the line is none. */
bool image_layer_next(struct str *rest, struct str *ret, bool *ret_ok);

/*
 * A reference: "mytools", "mytools:2", "registry.example:5000/team/app:1", "sha256:…" (12 to 64 digits),
 * "name@sha256:…". The canonical form has a tag and no "docker.io/library/".
 */
struct image_ref {
	char name[IMAGE_REF_MAX + 1];	  /* canonical, with its tag; "" for a digest alone */
	char key[BOX_IMAGE_NAME_MAX + 1]; /* of the digest, maybe only its beginning; "" without */
};
/* -1: VALIDATION_FAILED with the rule that is broken. */
int image_ref_parse(struct str text, struct image_ref *ret, struct err *e);

/* A canonical name of upstream's images: "cloudflare/sandbox:<any>". Atoll's default image stands for them. */
bool image_is_sandbox(const char *name);

/* "sha256-" and the first 56 digits of a digest. */
void image_key_of(const char *hex, char ret[BOX_IMAGE_NAME_MAX + 1]);
bool image_key_made_here(struct str key);

/* A name as a file name and back: letters, digits, '.', '_', '-' stay, other bytes become %XX. */
void image_name_encode(const char *name, char ret[IMAGE_LINK_MAX + 1]);
bool image_name_decode(const char *file, char ret[IMAGE_REF_MAX + 1]);

/* Looks a reference up in meta/. 0: *ret_key is an image made here. 1: there is none of this name. -1 with *e. */
int image_lookup(int meta, const struct image_ref *ref, char ret_key[BOX_IMAGE_NAME_MAX + 1], struct err *e);
/* Up to three names that look alike, as " Did you mean 'a' or 'b'?", or nothing. */
void image_near(int meta, const char *name, struct buf *ret);
