/*
 * shell_text.h - makes the text that a session's shell runs. Pure functions: no process is touched here.
 *
 * docs/design/003-sessions.md explains the mechanism. In short: the shell reads two lines from its input (`feed`); the
 * first makes it take up a memory file (`script`), the second reports. Everything that varies is in the script, which
 * bash reads in one go. Answers come over the control descriptor, one line each: a letter, the number of the command
 * and a value:
 *
 *	d N STATUS   the command is done            c N 0     its directory could not be entered
 *	p N PID      a background process is there  g N 0     … and begins: its parent has gone
 *	e N STATUS   the shell is back at its input y N 0     the shell is in step again
 */
#pragma once

#include "agent/env.h"
#include "base/buf.h"

/* Descriptors inside the shell: above the numbers that people use (200 is popular with flock, bash itself takes 10 and
 * up, and 63 and down), and low enough for a small `ulimit -n`. */
enum {
	SHELL_FD_OUT = 40,     /* O_PATH: the pipe for stdout, opened anew for each command */
	SHELL_FD_ERR = 41,     /* O_PATH: the pipe for stderr */
	SHELL_FD_CONTROL = 42, /* answers to the agent */
	SHELL_FD_SCRIPT = 43,  /* the memory file */
	SHELL_FD_GO = 44,      /* a background process waits here until its parent has gone, */
	SHELL_FD_STREAMS = 45, /* … with its own 0, 1 and 2 at hand here */
	SHELL_FD_LAST = 47,
	SHELL_FD_BACK = 48, /* the session's directory, while a command has one of its own */
};

/* bash takes its input in blocks of 1024 bytes; a line is one of them. */
enum { SHELL_LINE_MAX = 1024 };

struct shell_text {
	struct str command;
	const struct env *env; /* changes for this command alone */
	const char *cwd;       /* absolute, or NULL: stay */
	const char *in;	       /* paths; NULL: /dev/null, and the shell's own pipes */
	const char *out, *err;
	const char *go; /* for shell_text_background: a pipe to wait at */
	uint64_t seq;
	int last_status; /* $? at the start */
	bool stoppable;	 /* it has a time limit: see put_monitor */
};

/* The usual form: the command as a group `{ … }` of the shell itself. A command with a syntax error fails as a whole,
 * before any part of it runs. */
void shell_text_group(const struct shell_text *t, struct buf *script, struct buf *feed);
/* For a command that does not parse as a group (syntax error, unbalanced quote, open here-document): bash takes it line
 * by line and reports the error, as `bash -c` would. */
void shell_text_eval(const struct shell_text *t, struct buf *script, struct buf *feed);
/* Runs the command in a copy of the shell that becomes the agent's child. `out`, `err` and `go` must be set. */
void shell_text_background(const struct shell_text *t, struct buf *script, struct buf *feed);
/* After an interruption: a line that the shell answers with y. */
void shell_text_sync(uint64_t seq, struct buf *feed);

/* Appends one word of bash that stands for exactly these bytes (no NUL): 'it'\''s'. */
void shell_quote(struct buf *b, struct str s);
