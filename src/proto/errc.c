#include "proto/errc.h"

#include <errno.h>

static const struct errc_info infos[] = {[ERRC_OK] = {"OK", 200, ""},
#define X(name, status, suggestion) [ERRC_##name] = {#name, status, suggestion},
	ERRC_TABLE(X)
#undef X
};

const struct errc_info *errc_info(int code)
{
	if (code < 0 || code >= ERRC_MAX)
		code = ERRC_UNKNOWN_ERROR;
	return &infos[code];
}

enum errc errc_from_name(struct str name)
{
	for (int i = 1; i < ERRC_MAX; i++)
		if (str_eq_c(name, infos[i].code))
			return (enum errc)i;
	return ERRC_INTERNAL_ERROR;
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
