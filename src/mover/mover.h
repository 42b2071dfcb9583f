/*
 * mover.h - atoll-mover: moves files into and out of images. It runs inside a box, as its PID 1's child.
 *
 * The image service (src/images) copies this program into a box that has no network and no files but those of the image
 * it works on, and runs it there. What it reads is hostile: archives from registries, from users and from builds. So it
 * has what every command in a box has: root of a user namespace of its own, the box's seccomp filter and memory limit,
 * ids that are mapped on the way to the disk; and it restricts itself with Landlock to the tree it writes. The overlay
 * of the box makes whiteouts: removing a file of a lower layer is an ordinary unlink here.
 *
 *	atoll-mover unpack [options] <archive >report		an archive into the tree; --listen: not from stdin but
 *								from a connection to a port that the first line says
 *	atoll-mover pack ROOT [--copy] PATH... >archive		files of the tree as an archive
 *	atoll-mover run [--volatile UID:GID:MODE:PATH | --own UID:GID:MODE:PATH | --file KIND:UID:GID:MODE:SIZE:PATH]...
 *		USER CWD [NAME=value]... -- COMMAND...		as a user of the image; bytes of files come on stdin
 *	atoll-mover places PATH...				where mounts go (places.c)
 *	atoll-mover unplace [PATH TOP]...			takes empty directories away
 *	atoll-mover mkdir PATH USER				a directory with its parents
 *	atoll-mover packages >list				what package managers have installed
 *
 * The program deletes its own file first, so that it does not become part of the layer; --keep before the verb, in a box
 * that becomes none, leaves it there. Errors are one line on stderr, exit code 1. Static with glibc: libarchive is not built for musl in Debian.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "mover/limits.h"
#include "proto/user.h"

struct archive;
struct archive_entry;

/* Prints "atoll-mover: …" and ends with 1. */
_Noreturn void mover_die(const char *fmt, ...) PRINTF_LIKE(1, 2);

int mover_unpack(int argc, char **argv);
int mover_pack(int argc, char **argv);
int mover_run(int argc, char **argv);
int mover_places(int argc, char **argv);
int mover_unplace(int argc, char **argv);
int mover_mkdir(int argc, char **argv);
int mover_packages(int argc, char **argv);

/* ---- source.c: an archive of any compression as a plain tar, hashed and bounded ---- */

struct archive_source;
/* Opens descriptor 0 and returns a reader of its entries. */
struct archive *source_open(uint64_t max_bytes, struct archive_source **ret);
/* Reads the rest, so that the digest is of the whole. `hex` has 65 bytes. */
void source_finish(struct archive_source *s, char *hex, uint64_t *ret_bytes);

/* ---- tree.c: writes entries below a root ---- */

struct mover_tree {
	int root;
	bool layer; /* ".wh." names are whiteouts */
	bool keep_setuid;
	bool has_owner, has_mode; /* all entries get these */
	uid_t uid;
	gid_t gid;
	mode_t mode;
	struct map made;  /* paths of this archive */
	struct buf times; /* of directories, set at the end */
	uint64_t entries, stripped;
};

void tree_open(struct mover_tree *t, const char *root);
void tree_add(struct mover_tree *t, struct archive *a, struct archive_entry *entry);
void tree_close(struct mover_tree *t);

/* ---- places.c: RUN --mount ---- */

void place_file(const char *spec);
bool place_any(void);
void place_clean(void);

/* ---- user.c ---- */

/* user_find by the image's /etc/passwd and /etc/group; ends the program when there is none. */
void mover_user(const char *text, struct user *ret);
/* mkdir -p; new directories get the owner. */
void make_path(const char *path, const struct user *owner);
