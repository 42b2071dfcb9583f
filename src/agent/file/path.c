#include "agent/file/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/fuse/mounts.h"
#include "agent/limits.h"
#include "agent/proc/user.h"
#include "agent/shell/session.h"

int path_absolute(struct str path, struct str session, const char *key, char **ret, struct err *e)
{
	if (path.n == 0)
		return err_field(e, key, "field '%s' must not be empty", key);
	if (path.n > AGENT_PATH_MAX)
		return err_field(e, key, "field '%s' must have at most %d bytes", key, AGENT_PATH_MAX);
	if (memchr(path.p, 0, path.n))
		return err_field(e, key, "field '%s' must not contain NUL", key);
	auto_free char *text = str_dup(path);
	*ret = session_path(session.n ? session_find(session) : NULL, text);
	return 0;
}

int agent_request_path(const struct agent_request *r, const char *key, char **ret, struct err *e)
{
	auto_buf struct buf mem = {0};
	struct str path = STR_NULL, session;
	if (json_read_str(r->body, key, &path, e) < 0 || agent_request_session(r, &mem, &session, e) < 0)
		return -1;
	return path_absolute(path, session, key, ret, e);
}

int agent_request_query_path(const struct agent_request *r, char **ret, char **ret_given, struct err *e)
{
	auto_buf struct buf mem = {0}, session_mem = {0};
	struct str session, given = agent_request_query(r, STR("path"), &mem);
	if (agent_request_session(r, &session_mem, &session, e) < 0 ||
		path_absolute(given, session, "path", ret, e) < 0)
		return -1;
	*ret_given = str_dup(given);
	return 0;
}

/* A path that is not valid is refused by the handler. */
static char *first_waiting(const struct agent_request *r, const char *fields, bool (*waits)(const char *path))
{
	struct err e;
	for (struct str rest = str_of(r->body ? fields : ""); rest.n;) {
		auto_free char *field = str_dup(str_split(rest, ' ', &rest)), *path = NULL;
		if (agent_request_path(r, field, &path, &e) == 0 && waits(path))
			return take_ptr(&path);
	}
	return NULL;
}

char *path_waits(const struct agent_request *r, const char *fields)
{
	return first_waiting(r, fields, fuse_mounts_on);
}

char *path_waits_below(const struct agent_request *r, const char *fields)
{
	return first_waiting(r, fields, fuse_mounts_on_or_below);
}

char *path_waits_query(const struct agent_request *r, const char *fields)
{
	auto_free char *path = NULL, *given = NULL;
	struct err e;
	(void)fields;
	if (agent_request_query_path(r, &path, &given, &e) < 0 || !fuse_mounts_on(path))
		return NULL;
	return take_ptr(&path);
}

const char *agent_request_given(const struct agent_request *r, const char *key)
{
	const char *text = "";
	json_read_cstr(r->body, key, &text, NULL);
	return text;
}

char *path_clean(const char *path)
{
	auto_buf struct buf out = {0};
	for (struct str rest = str_of(path); rest.n;) {
		struct str name = str_split(rest, '/', &rest);
		if (str_eq_c(name, "..")) {
			/* Only the kernel knows the parent of a link's target. */
			auto_free char *real = realpath(path, NULL);
			return xstrdup(!real ? path : strcmp(real, "/") == 0 ? "" : real);
		}
		if (name.n && !str_eq_c(name, "."))
			buf_printf(&out, "/%.*s", STR_ARG(name));
	}
	return str_dup(buf_str(&out));
}

struct str path_basename(struct str path)
{
	while (path.n && path.p[path.n - 1] == '/')
		path.n--;
	const char *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;
	return slash ? str_skip(path, (size_t)(slash - path.p) + 1) : path;
}

char *path_dirname(const char *path)
{
	struct str base = path_basename(str_of(path));
	size_t n = (size_t)(base.p - path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	return n ? str_dup(str_n(path, n)) : xstrdup(path[0] == '/' ? "/" : ".");
}

int path_make_dir(const char *path)
{
	return mkdir(path, 0777) < 0 ? -errno : box_user_give(path);
}

int path_make_dirs(const char *path)
{
	int made = path_make_dir(path);
	if (made == 0)
		return 0;
	errno = -made;
	if (errno == EEXIST) {
		struct stat st;
		if (stat(path, &st) < 0)
			return -errno;
		return S_ISDIR(st.st_mode) ? 0 : -EEXIST;
	}
	if (errno != ENOENT)
		return -errno;
	auto_free char *parent = path_dirname(path);
	if (strcmp(parent, path) == 0)
		return -ENOENT;
	int r = path_make_dirs(parent);
	if (r < 0)
		return r;
	r = path_make_dir(path);
	return r == -EEXIST ? 0 : r;
}

int path_open_regular(const char *path, int flags)
{
	/* An O_PATH descriptor touches nothing, and makes sure that the file that is checked is the file that is
	 * opened. */
	auto_fd int look = open(path, O_PATH | O_CLOEXEC);
	if (look < 0)
		return -errno;
	struct stat st;
	if (fstat(look, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	char self[64];
	snprintf(self, sizeof self, "/proc/self/fd/%d", look);
	int fd = open(self, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int path_fail(struct err *e, int os, const char *what, const char *path, const char *shown)
{
	char target[81];
	ssize_t n = os == ENOENT ? readlink(path, target, sizeof target - 1) : 0;
	if (n <= 0)
		return err_os(e, errc_from_file_errno(os), os, "%s '%.150s'", what, shown);
	target[n] = 0;
	return err_set(e, ERRC_FILE_NOT_FOUND, "%s '%.100s': a symbolic link to '%s', which does not exist", what,
		shown, target);
}
