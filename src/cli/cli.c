#include "cli/cli.h"

#include <ctype.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

enum { NEAREST_WORD_MAX = 32, SHORT_WORD = 5 };

bool cli_colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	return !(no && *no) && !(term && strcmp(term, "dumb") == 0) && isatty(fd);
}

const char *cli_style(int fd, enum cli_style style)
{
	static const char *const codes[] = {
		"\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m", "\033[1;34m", "\033[36m"};
	return cli_colour(fd) ? codes[style] : "";
}

void cli_hint(struct cli *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(c->hint, sizeof c->hint, fmt, ap);
	va_end(ap);
}

static void print_error_json(const struct cli *c, const char *code, const char *msg, const char *hint)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	json_object_begin(&w);
	json_member_cstr(&w, "code", code);
	json_member_cstr(&w, "message", msg);
	if (*hint)
		json_member_cstr(&w, "suggestion", hint);
	json_member_cstr(&w, "operation", c->verb->name);
	json_object_end(&w);
	buf_add_byte(&b, '\n');
	fd_write_full(STDERR_FILENO, b.p, b.len);
}

/* How many bytes at p must not reach a terminal: C0 controls and DEL, C1 controls (U+0080 to U+009F), and marks that
 * change the direction of text or have no width (U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F). */
static size_t harmful(const unsigned char *p)
{
	if (p[0] < 0x20 || p[0] == 0x7f)
		return 1;
	if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
		return 2;
	bool marks = p[0] == 0xe2 && p[1] == 0x80 && ((p[2] >= 0x8b && p[2] <= 0x8f) || (p[2] >= 0xa8 && p[2] <= 0xae));
	bool more = p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa0 && p[2] <= 0xaf;
	return marks || more ? 3 : 0;
}

void cli_clean(char *text)
{
	while (*text) {
		size_t n = harmful((const unsigned char *)text);
		memset(text, '?', n);
		text += n ? n : 1;
	}
}

/* The daemon says "sandbox" where the command line says "box": people read one word for one thing. Names and paths stay
 * as they are. Works in place; the text gets shorter. */
static void say_box(char *text)
{
	static const char word[] = "sandbox";
	const size_t n = sizeof word - 1;
	char *to = text;
	for (const char *p = text; *p;) {
		bool begins = p == text || (!isalnum((unsigned char)p[-1]) && !strchr("'\"/_@.-", p[-1]));
		const char *end = p + (strncmp(p, word, n) == 0 ? n : 0);
		const char *tail = end > p && strncmp(end, "es", 2) == 0 ? "es" : "";
		end += strlen(tail);
		if (begins && end > p && !isalnum((unsigned char)*end) && !strchr("_/", *end ? *end : ' ')) {
			memmove(to, "box", 3);
			memmove(to + 3, tail, strlen(tail));
			to += 3 + strlen(tail);
			p = end;
		} else {
			*to++ = *p++;
		}
	}
	*to = 0;
}

static int output_errno; /* why a part of the results could not be written, or 0 */

/* An earlier printf may have failed, and its errno is gone: a pipe without a reader tells itself. */
static void flush_stdout(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
	if (fflush(stdout))
		output_errno = errno;
	else if (ferror(stdout) && !output_errno)
		output_errno = poll(&p, 1, 0) == 1 && (p.revents & POLLERR) ? EPIPE : EIO;
}

static void print_error(const struct cli *c, const char *code, const char *from, const char *advice)
{
	char msg[512], hint[sizeof c->hint];
	snprintf(msg, sizeof msg, "%s", from);
	snprintf(hint, sizeof hint, "%s", advice);
	cli_clean(msg);
	cli_clean(hint);
	flush_stdout();
	if (c->json) {
		print_error_json(c, code, msg, hint);
		return;
	}
	say_box(msg);
	say_box(hint);
	fprintf(stderr, "%satoll %s:%s %s\n", cli_style(2, STYLE_RED), c->verb->name, cli_style(2, STYLE_PLAIN), msg);
	if (*hint)
		fprintf(stderr, "  %s\n", hint);
}

int cli_fail(struct cli *c, const struct err *e)
{
	const struct errc_info *info = errc_info(e->code);
	print_error(c, info->code, e->msg, *c->hint ? c->hint : info->suggestion);
	return c->verb->exit_failed;
}

int cli_usage(struct cli *c, const char *fmt, ...)
{
	char msg[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	cli_hint(c, "Usage: atoll %s%s%s", c->verb->name, *c->verb->usage ? " " : "", c->verb->usage);
	print_error(c, "USAGE", msg, c->hint);
	return c->verb->exit_usage;
}

void cli_print(struct buf *b)
{
	if (buf_size(b) && b->p[b->len - 1] != '\n')
		buf_add_byte(b, '\n');
	flush_stdout();
	int r = fd_write_full(STDOUT_FILENO, b->p + b->off, buf_size(b));
	if (r == -EPIPE)
		exit(0);
	if (r < 0)
		output_errno = -r;
}

int cli_end(struct cli *c, int code)
{
	struct err e;
	flush_stdout();
	if (code || !output_errno || output_errno == EPIPE)
		return code;
	err_os(&e, ERRC_FILESYSTEM_ERROR, output_errno, "writing the output");
	return cli_fail(c, &e);
}

int cli_write(int fd, struct str bytes, struct err *e)
{
	int r = fd_write_full(fd, bytes.p, bytes.n);
	if (r == -EPIPE)
		exit(0);
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "writing") : 0;
}

const struct verb *cli_verb(const char *name)
{
	for (size_t i = 0; i < cli_verbs_count; i++)
		if (strcmp(cli_verbs[i].name, name) == 0)
			return &cli_verbs[i];
	return NULL;
}

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b. Both shorter than NEAREST_WORD_MAX. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t d[NEAREST_WORD_MAX + 1][NEAREST_WORD_MAX + 1];
	size_t na = strlen(a), nb = strlen(b);
	for (size_t i = 0; i <= na; i++)
		for (size_t j = 0; j <= nb; j++) {
			if (i == 0 || j == 0) {
				d[i][j] = i + j;
				continue;
			}
			size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
			best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[na][nb];
}

const char *cli_nearest(const char *word, const char *(*next)(void *arg, size_t i), void *arg)
{
	const char *found = NULL, *name;
	size_t n = strlen(word),
	       best = n < SHORT_WORD ? 2 : n / 3 + 2; /* short words: one edit, or every word is near */
	if (n > NEAREST_WORD_MAX)
		return NULL;
	for (size_t i = 0; (name = next(arg, i)); i++) {
		bool prefix = n > 1 && strncmp(name, word, n) == 0;
		size_t d = strlen(name) > NEAREST_WORD_MAX ? best : prefix ? 1 : edit_distance(word, name);
		/* A word in which every letter differs is not similar. */
		if (d < best && d < n) {
			best = d;
			found = name;
		}
	}
	return found;
}

static const char *setting(const char *name, const char *otherwise)
{
	const char *v = getenv(name);
	return v && *v ? v : otherwise;
}

const char *cli_run_dir(void)
{
	return setting("ATOLL_RUN", "/run/atoll");
}

const char *cli_data_dir(void)
{
	return setting("ATOLL_DATA", "/var/lib/atoll");
}

const char *cli_images_dir(void)
{
	static char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/images", cli_data_dir());
	return setting("ATOLL_IMAGES", path);
}

const char *cli_bin_dir(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	path[n > 0 ? n : 0] = 0;
	char *slash = strrchr(path, '/');
	if (!slash)
		return ".";
	*(slash == path ? slash + 1 : slash) = 0;
	return path;
}
