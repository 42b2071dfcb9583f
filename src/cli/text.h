/*
 * text.h - makes texts from a box safe for a terminal; tables of such texts.
 *
 * A name in a box may hold escape sequences that move the cursor, rename the window or turn the reading direction
 * around. In listings every byte that is not plainly visible is written as an escape (\n, \x1b, \u202e), so that a
 * hostile name can do nothing and two different names never look alike by it. Output of programs (exec, cat, logs) is
 * never touched.
 */
#pragma once

#include "base/buf.h"
#include "base/str.h"

/* Appends s; invisible characters become escapes. */
void text_put_safe(struct buf *to, struct str s);
/* Prints s in the same way, as a line on stdout. */
void text_print(struct str s);
/* Columns that s takes on a terminal. */
size_t text_width(struct str s);
/* Columns of the terminal fd; `otherwise` when fd is not a terminal. */
size_t text_terminal_width(int fd, size_t otherwise);

/*
 * A table: cells are added row by row, left to right, and made safe; each column is as wide as its widest cell.
 *
 *	struct table t = {.columns = 2, .heads = (const char *[]){"ID", ">PIDS"}};
 *	table_add(&t, id); table_printf(&t, "%u", n); table_print(&t); table_free(&t);
 *
 * A head that begins with '>' aligns its column to the right, for numbers. Without heads (NULL) none are printed.
 */
struct table {
	size_t columns;
	const char *const *heads;
	char **cells;
	size_t n;
	size_t max_width; /* lines are cut at this width; 0: never */
};

void table_add(struct table *t, struct str cell);
void table_printf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Appends the table; heads are bold when stdout is a terminal. */
void table_put(const struct table *t, struct buf *to);
/* Prints the table to stdout. A table without rows prints the line `empty` to stderr (nothing when that is NULL). */
void table_print(const struct table *t, const char *empty);
void table_free(struct table *t);
