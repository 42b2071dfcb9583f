/*
 * err.h - an error as a plain value: what happened, to what, and which errno was behind it.
 *
 * It holds no pointers, so it can be copied, sent through the set-up pipe of a half-made child, and put into a warden
 * reply. A function logs an error or returns it, never both. Functions above src/base take `struct err *e` last and
 * return 0 or -1; `e` may be NULL when the caller does not care.
 */
#pragma once

#include <stdarg.h>

#include "base/base.h"
#include "base/errc.h"

struct err {
	enum errc code;
	int os; /* errno, or 0 */
	char msg[240];
};

/* Sets *e and returns -1, so that `return err_set(e, ERRC_X, "…")` ends a function. */
int err_set(struct err *e, enum errc code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same for a failed system call: appends ": <strerror(os)>". `os` is a positive errno. */
int err_os(struct err *e, enum errc code, int os, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Puts "context: " before the message that is there. Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The API code that a file operation's errno stands for (ENOENT -> FILE_NOT_FOUND …). */
enum errc errc_from_file_errno(int os);
