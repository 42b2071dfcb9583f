#include "cage/tools.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cage/limits.h"
#include "cage/sys.h"

#define HALF_MADE ".new"

static int tools_fail(struct err *e, const char *what)
{
	return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "%s for /usr/bin/fusermount3", what);
}

static uint64_t hash(struct str text)
{
	uint64_t h = 14695981039346656037ull;
	for (size_t i = 0; i < text.n; i++)
		h = (h ^ (unsigned char)text.p[i]) * 1099511628211ull;
	return h;
}

static bool complete(int dir, const char *name, size_t size)
{
	char path[TOOLS_NAME + 32];
	struct stat st;
	snprintf(path, sizeof path, "%s/usr/bin/fusermount", name); /* made last */
	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size == size;
}

/* What a warden that was killed has left, or what a power cut has spoilt. */
static void remove_tree(int dir, const char *name)
{
	static const char *const below[] = {"/usr/bin/fusermount", "/usr/bin/fusermount3", "/usr/bin", "/usr", ""};
	char path[TOOLS_NAME + 32];
	for (size_t i = 0; i < ARRAY_LEN(below); i++) {
		snprintf(path, sizeof path, "%s%s", name, below[i]);
		unlinkat(dir, path, i < 2 ? 0 : AT_REMOVEDIR);
	}
}

static int fill(int dir, struct str program)
{
	mode_t mask = umask(022);
	bool ok = mkdirat(dir, HALF_MADE, 0755) == 0 && mkdirat(dir, HALF_MADE "/usr", 0755) == 0 &&
		  mkdirat(dir, HALF_MADE "/usr/bin", 0755) == 0;
	auto_fd int fd =
		!ok ? -1 : openat(dir, HALF_MADE "/usr/bin/fusermount3", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	umask(mask);
	if (fd < 0)
		return -1;
	int r = fd_write_full(fd, program.p, program.n);
	if (r < 0)
		return errno = -r, -1;
	return fsync(fd) < 0 ? -1
			     : linkat(dir, HALF_MADE "/usr/bin/fusermount3", dir, HALF_MADE "/usr/bin/fusermount", 0);
}

int tools_make(int dir, const char *path, char ret_name[TOOLS_NAME], struct err *e)
{
	auto_buf struct buf program = {0};
	int r = fd_read_file(AT_FDCWD, path, WARDEN_AGENT_MAX, &program);
	if (r < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -r, "read the program '%s'", path);
	char name[TOOLS_NAME];
	snprintf(name, sizeof name, "%016llx", (unsigned long long)hash(buf_str(&program)));
	if (!complete(dir, name, buf_str(&program).n)) {
		remove_tree(dir, HALF_MADE);
		remove_tree(dir, name);
		if (fill(dir, buf_str(&program)) < 0)
			return tools_fail(e, "make the tree");
		if (renameat(dir, HALF_MADE, dir, name) < 0)
			return tools_fail(e, "name the tree");
	}
	snprintf(ret_name, TOOLS_NAME, "%s", name);
	return 0;
}
