#include "base/err.h"

#include <stdio.h>
#include <string.h>

/* Through a copy: the arguments may point into the message that is there. */
PRINTF_LIKE(4, 0) static void err_vset(struct err *e, int code, int os, const char *fmt, va_list ap)
{
	struct err fresh = {.code = code, .os = os};
	vsnprintf(fresh.msg, sizeof fresh.msg, fmt, ap);
	*e = fresh;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	if (!e)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, code, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int err_os(struct err *e, int code, int os, const char *fmt, ...)
{
	if (!e)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, code, os, fmt, ap);
	va_end(ap);
	size_t n = strlen(e->msg);
	snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(os));
	return -1;
}

int err_field(struct err *e, const char *field, const char *fmt, ...)
{
	if (!e)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, ERR_BAD_FIELD, 0, fmt, ap);
	va_end(ap);
	return err_about(e, field);
}

int err_about(struct err *e, const char *field)
{
	if (e)
		snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	if (!e)
		return -1;
	struct err inner = *e;
	err_seal(&inner); /* it may come from another process */
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, inner.code, inner.os, fmt, ap);
	va_end(ap);
	size_t n = strlen(e->msg);
	snprintf(e->msg + n, sizeof e->msg - n, ": %s", inner.msg);
	return err_about(e, inner.field);
}

void err_seal(struct err *e)
{
	e->field[sizeof e->field - 1] = 0;
	e->msg[sizeof e->msg - 1] = 0;
}
