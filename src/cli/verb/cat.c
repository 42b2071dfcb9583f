/*
 * cat.c - `atoll cat` and `atoll write`: one file of a box to stdout, or from stdin, byte for byte and of any size.
 *
 * A file is written whole or not at all. stdin may pause for long, but the body of a request may not. So stdin is first
 * gathered in an unnamed temporary file, unless it is a regular file.
 */
#include "cli/verb/cat.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cli/args.h"
#include "cli/verbs.h"

enum { SPOOL_CHUNK = 256 * 1024 };

static int to_stdout(void *arg, struct str piece, struct err *e)
{
	(void)arg;
	return cli_write(STDOUT_FILENO, piece, e);
}

int cat_file(struct client *cl, const char *id, const char *path, struct err *e)
{
	auto_buf struct buf rest = {0};
	buf_add_c(&rest, "/api/file");
	api_query(&rest, "path", path);
	return api_fetch(cl, &(struct api_request){id, "GET", buf_cstr(&rest), STR("")}, to_stdout, NULL, e);
}

static int temporary(struct err *e)
{
	const char *dir = getenv("TMPDIR");
	dir = dir && *dir ? dir : "/tmp";
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || errno != EOPNOTSUPP)
		return fd >= 0 ? fd : err_os(e, errc_from_file_errno(errno), errno, "a temporary file in %s", dir);
	auto_free char *name = xasprintf("%s/atoll-XXXXXX", dir);
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "a temporary file in %s", dir);
	unlink(name);
	return fd;
}

/* Copies all of `in` into an unnamed file and returns to its start. */
static int gather(int in, struct err *e)
{
	auto_fd int fd = temporary(e);
	auto_free char *chunk = xmalloc(SPOOL_CHUNK);
	while (fd >= 0) {
		ssize_t n = read(in, chunk, SPOOL_CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "reading stdin");
		if (n == 0)
			break;
		int r = fd_write_full(fd, chunk, (size_t)n);
		if (r < 0)
			return err_os(e, errc_from_file_errno(-r), -r, "gathering stdin in a temporary file");
	}
	if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return take_fd(&fd);
}

int cat_write(struct client *cl, const char *id, const char *path, int in, struct buf *ret, struct err *e)
{
	auto_buf struct buf rest = {0};
	struct stat st;
	bool regular = fstat(in, &st) == 0 && S_ISREG(st.st_mode);
	auto_fd int own = regular ? -1 : gather(in, e);
	if (!regular && own < 0)
		return -1;
	buf_add_c(&rest, "/api/file");
	api_query(&rest, "path", path);
	return api_send(cl, id, buf_cstr(&rest), regular ? in : own, ret, e);
}

int verb_cat(struct cli *c, int argc, char **argv)
{
	struct args a;
	int code;
	if (!args_parse_box(c, argc, argv, argc + 1, &a, &code))
		return code;
	const char *id = a.words[0];
	if (a.n < 2)
		return cli_usage(c, "which file of '%s'?", id);
	auto_client struct client cl = {0};
	struct err e;
	if (api_open_box(c, &cl, id, &e) < 0)
		return cli_fail(c, &e);
	code = 0;
	for (int i = 1; i < a.n; i++)
		if (cat_file(&cl, id, a.words[i], &e) < 0) {
			code = cli_fail(c, &e);
			c->hint[0] = 0;
		}
	return code;
}

int verb_write(struct cli *c, int argc, char **argv)
{
	struct args a;
	int code;
	if (!args_parse_box(c, argc, argv, 2, &a, &code))
		return code;
	const char *id = a.words[0];
	if (a.n < 2 || !*a.words[1])
		return cli_usage(c, "which file of '%s'? Name the file to write stdin to", id);
	auto_client struct client cl = {0};
	struct err e;
	auto_buf struct buf answer = {0};
	if (client_open(c, &cl, &e) < 0 || cat_write(&cl, id, a.words[1], STDIN_FILENO, &answer, &e) < 0)
		return cli_fail(c, &e);
	if (c->json)
		cli_print(&answer);
	return 0;
}
