/*
 * cp.h - `atoll cp`: files and trees between this machine and a box, as a tar stream through one command in the box.
 *
 *	cp.c         the verb: source and destination, progress
 *	cp_up.c      into a box: the script that unpacks there
 *	cp_pack.c    a local tree to a tar stream
 *	cp_down.c    out of a box: finds the destination here, moves the tree there
 *	cp_unpack.c  a tar stream to a local tree
 *
 * In both directions the tree is gathered in a hidden directory beside its destination and moved there when it is
 * whole. Until then the destination does not change, and a transfer that breaks leaves nothing behind. An existing
 * directory is merged with the new one, file by file; each file is replaced in one step.
 *
 * A stream from a box is hostile. Names are followed component by component from the gathering directory and never
 * through a symbolic link. '..' and absolute names end the transfer. Set-id bits are dropped, and the umask applies.
 * Only files, directories and symbolic links are made. A symbolic link may point anywhere: cp does not follow it.
 */
#pragma once

#include <sys/stat.h>

#include "cli/stream/stream.h"

struct cp_progress {
	bool shown;
	uint64_t done, total; /* total 0: unknown */
	uint64_t began, drawn;
	uint64_t files;
};

/* One side: a box and a path in it, or (id NULL) a path here. "-" is stdin or stdout. */
struct cp_side {
	char *id;
	const char *path;
};

struct cp {
	struct client *cl;
	struct cp_side from, to;
	struct cp_progress progress;
	bool told; /* the error has been printed already */
};

void cp_progress_add(struct cp_progress *p, uint64_t bytes);
void cp_progress_end(struct cp_progress *p);

int cp_up(struct cp *cp, struct err *e);
int cp_down(struct cp *cp, struct err *e);

/* Makes an error from the stderr of a command in the box. */
int cp_command_failed(const struct stream_result *r, struct buf *said, const char *what, struct err *e);
/* The last component of a path, "" for paths that name the content of a directory: ".", "dir/.", "/". */
struct str cp_base_name(const char *path);
/* ".atoll-tmp-n" and sixteen hexadecimal digits; watches in a box ignore such names. */
enum { CP_TEMP_NAME = 32 };
int cp_temp_name(char ret[CP_TEMP_NAME], struct err *e);

/* ---- cp_pack.c ---- */

/* Writes the tree at `path` to fd as tar entries "x", "x/…", then an empty file "end". Blocks. */
int cp_pack(const char *path, int fd, struct err *e);
/* The same for what is in a directory, under its own names, without those that `skips` says. */
enum cp_skip {
	CP_TAKE,
	CP_SKIP,   /* with all that is in it */
	CP_INSIDE, /* a directory without an entry of its own, but what is in it is asked for */
};
typedef enum cp_skip (*cp_skips)(void *arg, const char *name, bool dir);
int cp_pack_content(const char *path, int fd, cp_skips skips, void *arg, struct err *e);
/* One file of the given content, before what cp_pack_content writes. */
int cp_pack_text(const char *name, struct str text, int fd, struct err *e);
/* The approximate number of bytes that cp_pack writes. */
uint64_t cp_pack_size(const char *path);

/* ---- cp_unpack.c ---- */

struct cp_unpack;
/* Unpacks a stream below `root` (borrowed); its top entry becomes "x". */
struct cp_unpack *cp_unpack_new(int root, struct cp_progress *progress);
int cp_unpack_feed(struct cp_unpack *u, struct str bytes, struct err *e);
/* Called at the end of the stream: -1 when it ended too early. *ret_skipped counts devices, pipes and sockets. */
int cp_unpack_end(struct cp_unpack *u, uint64_t *ret_skipped, struct err *e);
void cp_unpack_free(struct cp_unpack *u);
