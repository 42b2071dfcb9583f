/*
 * handoff.h - pipes and files that have a name for a moment: the one way to hand something to a shell that already
 * runs.
 *
 * The name cannot be guessed and is taken away (handoff_unlink) as soon as the shell has said that it opened it.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

struct handoff {
	char path[64]; /* "" when there is none */
	int fd;	       /* our end of a pipe, non-blocking; -1 when taken, or for a file */
};
#define HANDOFF_NONE ((struct handoff){.fd = -1})

/* A pipe that we read and the shell will write. */
int handoff_pipe(struct handoff *ret, struct err *e);
/* A pipe without a name, as an O_PATH descriptor: something that can be opened through /proc/self/fd, by us and by who
 * inherits it. While nobody has it open it holds nothing. Unlike a reopened pipe(2), a reader that comes first is not
 * told "hung up" until a writer has come and gone. Returns the descriptor, or -1. */
int handoff_nameless(struct err *e);
/* A file with this content, for the shell to read. */
int handoff_file(struct handoff *ret, struct str content, struct err *e);
/* NULL when there is none. */
const char *handoff_path(const struct handoff *h);
void handoff_unlink(struct handoff *h);
/* Unlinks and closes. */
void handoff_free(struct handoff *h);
