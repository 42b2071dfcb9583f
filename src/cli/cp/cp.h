/*
 * cp.h - `atoll cp`: files and trees between this machine and a box, as a tar stream through one command in the box.
 *
 *	cp.c         the verb: which side is where, progress
 *	cp_up.c      into a box: what is to become of it there
 *	cp_pack.c    a local tree as a tar stream
 *	cp_down.c    out of a box: a place for it here, and putting it there
 *	cp_unpack.c  a tar stream as a local tree
 *
 * Both ways what comes is gathered in a hidden directory beside its destination and moved there when it is whole: until
 * then nothing is changed, and a transfer that breaks leaves nothing behind. A directory that is already there is
 * merged into, file by file, each of them replaced in one step.
 *
 * What comes out of a box is hostile. Names are followed component by component from the gathering directory and never
 * through a symbolic link; '..' and absolute names end the transfer; set-id bits are dropped, the umask is honoured;
 * only files, directories and symbolic links are made. A symbolic link may point anywhere: nothing here follows it.
 */
#pragma once

#include <sys/stat.h>

#include "cli/verb/stream.h"

struct cp_progress {
	bool shown;
	uint64_t done, total; /* total 0: not known */
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
	bool told; /* what went wrong has been said already */
};

void cp_progress_add(struct cp_progress *p, uint64_t bytes);
void cp_progress_end(struct cp_progress *p);

int cp_up(struct cp *cp, struct err *e);
int cp_down(struct cp *cp, struct err *e);

/* What a command in the box complained about, as an error. */
int cp_command_failed(const struct stream_result *r, struct buf *said, const char *what, struct err *e);
/* The last component of a path, "" for those that name a directory's content: ".", "dir/.", "/". */
struct str cp_base_name(const char *path);
/* ".atoll-tmp-n" and sixteen hexadecimal digits, which watches in a box pass over. */
enum { CP_TEMP_NAME = 32 };
int cp_temp_name(char ret[CP_TEMP_NAME], struct err *e);

/* ---- cp_pack.c ---- */

/* Writes the tree at `path` to fd as tar entries "x", "x/…", then an empty file "end". Blocks. */
int cp_pack(const char *path, int fd, struct err *e);
/* How many bytes that will be, about. */
uint64_t cp_pack_size(const char *path);

/* ---- cp_unpack.c ---- */

struct cp_unpack;
/* Makes what comes below `root` (borrowed), its top as "x". */
struct cp_unpack *cp_unpack_new(int root, struct cp_progress *progress);
int cp_unpack_feed(struct cp_unpack *u, struct str bytes, struct err *e);
/* The stream has ended: -1 when that was too early. *ret_skipped counts what was no file, directory or link. */
int cp_unpack_end(struct cp_unpack *u, uint64_t *ret_skipped, struct err *e);
void cp_unpack_free(struct cp_unpack *u);
