#include "daemon/admit/token.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fd.h"

static int make(const char *path, struct err *e)
{
	unsigned char bytes[32];
	char hex[2 * sizeof bytes + 2];
	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a token");
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	hex[2 * sizeof bytes] = '\n';
	int r = fd_replace_file(AT_FDCWD, path, str_n(hex, 2 * sizeof bytes + 1), 0600);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r,
			"make the token file %s ('atoll up' makes it, as root, and gives it to ATOLL_USER)", path);
	return 0;
}

static int check_text(const char *path, struct token *t, struct err *e)
{
	while (t->n && (t->text[t->n - 1] == '\n' || t->text[t->n - 1] == '\r'))
		t->n--;
	t->text[t->n] = 0;
	if (t->n < TOKEN_MIN)
		return err_set(e, ERRC_INVALID_REQUEST,
			"the token in %s has %zu characters, fewer than %d; delete the file to get a new one", path,
			t->n, TOKEN_MIN);
	for (size_t i = 0; i < t->n; i++)
		if (t->text[i] <= ' ' || t->text[i] > '~')
			return err_set(
				e, ERRC_INVALID_REQUEST, "the token in %s must be one line of printable ASCII", path);
	return 0;
}

int token_load(const char *path, struct token *ret, struct err *e)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT) {
		if (make(path, e) < 0)
			return -1;
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "read the token file %s", path);
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
		return err_set(e, ERRC_FORBIDDEN, "the token file %s must be a file with mode 0600, it has %04o", path,
			(unsigned)st.st_mode & 07777);
	struct token t;
	ssize_t n = fd_read_full(fd, t.text, sizeof t.text);
	if (n < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, (int)-n, "read the token file %s", path);
	if (n > TOKEN_MAX)
		return err_set(
			e, ERRC_INVALID_REQUEST, "the token in %s is longer than %d characters", path, TOKEN_MAX);
	t.n = (size_t)n;
	if (check_text(path, &t, e) < 0)
		return -1;
	*ret = t;
	return 0;
}

bool token_equals(const struct token *t, struct str given)
{
	return str_eq_secret(given, str_n(t->text, t->n));
}
