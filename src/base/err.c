#include "base/err.h"

#include <stdio.h>
#include <string.h>

static const struct errc_info infos[] = {[ERRC_OK] = {"OK", 200, ""},
#define X(name, status, suggestion) [ERRC_##name] = {#name, status, suggestion},
	ERRC_TABLE(X)
#undef X
};

const struct errc_info *errc_info(enum errc code)
{
	if ((int)code < 0 || code >= ERRC_MAX)
		code = ERRC_UNKNOWN_ERROR;
	return &infos[code];
}

/* Through a copy: the arguments may point into the message that is there. */
PRINTF_LIKE(4, 0) static void err_vset(struct err *e, enum errc code, int os, const char *fmt, va_list ap)
{
	struct err fresh = {.code = code, .os = os};
	vsnprintf(fresh.msg, sizeof fresh.msg, fmt, ap);
	*e = fresh;
}

int err_set(struct err *e, enum errc code, const char *fmt, ...)
{
	if (!e)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, code, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int err_os(struct err *e, enum errc code, int os, const char *fmt, ...)
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

int err_wrap(struct err *e, const char *fmt, ...)
{
	if (!e)
		return -1;
	struct err inner = *e;
	inner.msg[sizeof inner.msg - 1] = 0; /* it may come from another process */
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, inner.code, inner.os, fmt, ap);
	va_end(ap);
	size_t n = strlen(e->msg);
	snprintf(e->msg + n, sizeof e->msg - n, ": %s", inner.msg);
	return -1;
}

enum errc errc_from_file_errno(int os)
{
	switch (os) {
	case ENOENT:
		return ERRC_FILE_NOT_FOUND;
	case EEXIST:
	case ENOTEMPTY:
		return ERRC_FILE_EXISTS;
	case EACCES:
	case EPERM:
		return ERRC_PERMISSION_DENIED;
	case EISDIR:
		return ERRC_IS_DIRECTORY;
	case ENOTDIR:
		return ERRC_NOT_DIRECTORY;
	case ENAMETOOLONG:
		return ERRC_NAME_TOO_LONG;
	case EROFS:
		return ERRC_READ_ONLY;
	case EBUSY:
	case ETXTBSY:
	case EAGAIN: /* somebody has a lease on it */
		return ERRC_RESOURCE_BUSY;
	case ENOSPC:
	case EDQUOT:
		return ERRC_NO_SPACE;
	case EMFILE:
	case ENFILE:
		return ERRC_TOO_MANY_FILES;
	case ELOOP:
	case EMLINK:
		return ERRC_TOO_MANY_LINKS;
	case EFBIG:
		return ERRC_FILE_TOO_LARGE;
	default:
		return ERRC_FILESYSTEM_ERROR;
	}
}
