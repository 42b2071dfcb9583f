#include "agent/file/source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "agent/file/mime.h"
#include "agent/file/path.h"
#include "agent/limits.h"
#include "base/fd.h"

static int fail(struct err *e, int os, const char *shown)
{
	if (os == EINVAL)
		return err_set(e, ERRC_NOT_REGULAR_FILE, "read '%.150s': not a regular file", shown);
	return err_os(e, errc_from_file_errno(os), os, "read '%.150s'", shown);
}

void source_free(struct source *s)
{
	spool_free(&s->content);
}

/* A length of 0 is either true or that of a file which the kernel generates while it is read. */
static int take_in(struct source *s, int fd, const char *shown, struct err *e)
{
	char piece[16 * KIB];
	for (;;) {
		ssize_t n = read(fd, piece, sizeof piece);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(e, errno, shown);
		if (n == 0)
			return 0;
		if (s->content.size + (uint64_t)n > READ_MAX)
			return err_set(e, ERRC_FILE_TOO_LARGE, "read '%.120s': more than %u bytes, and no known end",
				shown, READ_MAX);
		if (spool_add(&s->content, str_n(piece, (size_t)n), e) < 0)
			return -1;
	}
}

static int look_at_start(struct source *s, const char *path, const char *shown, struct err *e)
{
	char head[MIME_SNIFF];
	ssize_t n = source_read(s, 0, head, sizeof head);
	if (n < 0)
		return fail(e, (int)-n, shown);
	s->mime = mime_of_file(str_of(path), str_n(head, (size_t)n), (uint64_t)n == source_size(s));
	s->text = mime_is_text(s->mime);
	return 0;
}

int source_open(struct source *s, const char *path, const char *shown, struct err *e)
{
	*s = (struct source){.content = SPOOL_INIT};
	auto_fd int fd = path_open_regular(path, O_RDONLY);
	struct stat st;
	if (fd == -ENOENT)
		return path_fail(e, ENOENT, "read", path, shown);
	if (fd < 0)
		return fail(e, -fd, shown);
	if (fstat(fd, &st) < 0)
		return fail(e, errno, shown);
	if (st.st_size > 0) {
		s->content.size = (uint64_t)st.st_size;
		s->content.fd = take_fd(&fd);
	} else if (take_in(s, fd, shown, e) < 0) {
		source_free(s);
		return -1;
	}
	if (look_at_start(s, path, shown, e) == 0)
		return 0;
	source_free(s);
	return -1;
}
