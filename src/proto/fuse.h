/*
 * fuse.h - the records of a FUSE mount's way into a box: fusermount → agent → the warden's joiner, and back.
 *
 * The agent listens on an abstract SEQPACKET socket in the box's network namespace. Two kinds of clients connect:
 *
 *	fusermount	any program of the box (src/fusermount). Sends one struct fuse_ask, gets one struct fuse_reply.
 *	the joiner	a short-lived child of the warden that has joined the box (src/warden/fuse/fuse.h). The agent
 * sends it the asks, one after the other, and closes the connection when there is none left.
 *
 * The kernel tells them apart (SO_PEERCRED): a process that is not in the box's pid namespace has the pid 0 there, and
 * no program of the box can have it. The joiner checks in the same way that the box's first process listens.
 *
 * The agent calls the warden with FUSE_RING in the pipe of proto/zygote.h: a number, nothing else. So no text of a box
 * reaches the warden itself. Texts are terminated and zero-padded. All sides are built from one tree.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FUSE_MAGIC  0x41544631u /* "ATF1" */
#define FUSE_SOCKET "\0atoll-fuse"
#define FUSE_RING   0xffffffffu /* in the pipe of asks, where a context's serial number stands otherwise */

enum { FUSE_PATH = 4096, FUSE_SOURCE = 1024, FUSE_SUBTYPE = 64, FUSE_SAID = 160 };

enum fuse_op { FUSE_MOUNT = 1, FUSE_UNMOUNT };

enum fuse_flag {
	FUSE_READ_ONLY = 1,
	FUSE_NO_EXEC = 2,
	FUSE_NO_ATIME = 4,
	FUSE_NO_DIRATIME = 8,
	FUSE_SYNC = 16,
	FUSE_ALLOW_OTHER = 32,
	FUSE_DEFAULT_PERMISSIONS = 64,
	FUSE_MOUNT_FLAGS = 127,
	FUSE_LAZY = 128, /* UNMOUNT: also while files are open */
};

struct fuse_ask {
	uint32_t magic;
	uint32_t op;
	uint32_t uid, gid; /* of the caller; the agent sets them */
	uint32_t flags;
	uint32_t max_read; /* 0: the kernel's default */
	char source[FUSE_SOURCE];
	char subtype[FUSE_SUBTYPE]; /* letters, digits and ".-_"; may be empty */
	char path[FUSE_PATH];	    /* absolute */
};

/* With the descriptor of /dev/fuse when a MOUNT has succeeded. */
struct fuse_reply {
	uint32_t magic;
	int32_t error;	      /* errno, or 0 */
	char said[FUSE_SAID]; /* more than the errno says; may be empty */
};

static inline bool fuse_text_ok(const char *text, size_t size)
{
	size_t n = strnlen(text, size);
	for (size_t i = n; i < size; i++)
		if (text[i])
			return false;
	return n < size;
}

/* Checks the form of a record that came from a box. */
static inline bool fuse_ask_ok(const struct fuse_ask *a)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	if (a->magic != FUSE_MAGIC || !fuse_text_ok(a->source, sizeof a->source) ||
		!fuse_text_ok(a->subtype, sizeof a->subtype) || !fuse_text_ok(a->path, sizeof a->path))
		return false;
	uint32_t allowed = a->op == FUSE_MOUNT ? FUSE_MOUNT_FLAGS : a->op == FUSE_UNMOUNT ? FUSE_LAZY : 0;
	if ((a->op != FUSE_MOUNT && a->op != FUSE_UNMOUNT) || (a->flags & ~allowed))
		return false;
	return a->path[0] == '/' && strspn(a->subtype, letters) == strlen(a->subtype);
}
