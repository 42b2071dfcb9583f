/*
 * handoff.h - pipes and files that have a name for a moment: the only way to give a descriptor to a running shell.
 *
 * The name cannot be guessed. handoff_unlink removes it as soon as the shell has reported that it opened the file.
 */
#pragma once

#include "base/str.h"
#include "proto/errc.h"

struct handoff {
	char path[64]; /* "" when there is none */
	int fd;	       /* the agent's end of a pipe, non-blocking; -1 when taken, or for a file */
};
#define HANDOFF_NONE ((struct handoff){.fd = -1})

/* A pipe that the agent reads and the shell writes. */
int handoff_pipe(struct handoff *ret, struct err *e);
/* A pipe without a name, as an O_PATH descriptor: the agent and every process that inherits it can open it through
 * /proc/self/fd. While no process has it open it holds no bytes. Unlike with a reopened pipe(2), a reader that comes
 * first is not told "hung up" until a writer has come and gone. Returns the descriptor, or -1. */
int handoff_nameless(struct err *e);
/* A file with this content, for the shell to read. */
int handoff_file(struct handoff *ret, struct str content, struct err *e);
/* NULL when there is none. */
const char *handoff_path(const struct handoff *h);
void handoff_unlink(struct handoff *h);
/* Unlinks and closes. */
void handoff_free(struct handoff *h);
