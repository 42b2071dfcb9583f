/*
 * err.h - an error as a plain value: what happened, to what, and which errno was behind it.
 *
 * It holds no pointers, so it can be copied, sent through the set-up pipe of a half-made child, and put into a warden
 * reply. A function logs an error or returns it, never both. Functions above src/base take `struct err *e` last and
 * return 0 or -1; `e` may be NULL when the caller does not care.
 *
 * `code` is a number whose meaning the programs share (proto/errc.h). This layer knows the two that its JSON reader
 * needs. 0 is no error.
 */
#pragma once

#include <stdarg.h>

#include "base/base.h"

enum {
	ERR_BAD_JSON = 1,  /* a text is not JSON */
	ERR_BAD_FIELD = 2, /* a field of an input has a value that is not allowed; `field` names it */
};

enum { ERR_FIELD_MAX = 47 };

struct err {
	int code;
	int os;			       /* errno, or 0 */
	char field[ERR_FIELD_MAX + 1]; /* of the input that the error is about, or "" */
	char msg[240];
};

/* Sets *e and returns -1, so that `return err_set(e, code, "…")` ends a function. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same for a failed system call: appends ": <strerror(os)>". `os` is a positive errno. */
int err_os(struct err *e, int code, int os, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* The same for a field with a bad value: ERR_BAD_FIELD, about `field`. */
int err_field(struct err *e, const char *field, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Says which field the error that is there is about. A longer name is cut. Returns -1. */
int err_about(struct err *e, const char *field);

/* Puts "context: " before the message that is there; the field stays. Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Makes an error that came from another process safe to read: ends its texts. */
void err_seal(struct err *e);
