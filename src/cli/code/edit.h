/*
 * edit.h - edits one line at a terminal, with a cursor and a history.
 *
 * Left, right, home, end (also Ctrl-B F A E), up and down for the lines before, backspace, delete, Ctrl-U, Ctrl-K and
 * Ctrl-W. A line that is longer than the terminal is wide is shown in part, around the cursor.
 *
 * The terminal is raw while a line is typed (tty.h) and restored in between. Signals come through the client's loop.
 */
#pragma once

#include "cli/client.h"

enum { EDIT_LINE_MAX = 64 * 1024, EDIT_HISTORY_MAX = 500 };

struct edit {
	struct client *cl;
	char *history[EDIT_HISTORY_MAX]; /* oldest first */
	size_t history_n;
	struct buf typed; /* keys that belong to the next line */
	/* while a line is typed */
	const char *prompt;
	struct buf line;
	size_t at;    /* offset of the cursor */
	size_t shown; /* index in the history; history_n: not in the history */
	char *kept;   /* the typed line, while a line of the history is shown */
	struct loop_io io;
	int end; /* enum edit_end + 1; 0: the line goes on */
};

enum edit_end { EDIT_LINE, EDIT_EOF, EDIT_CANCEL /* Ctrl-C */, EDIT_SIGNAL, EDIT_ERROR };

/* The line, without its end, is in ed->line until the next call. */
enum edit_end edit_read(struct edit *ed, const char *prompt, struct err *e);
void edit_remember(struct edit *ed, const char *text);
void edit_free(struct edit *ed);
