/*
 * cp.c - `atoll cp`: finds the side that is a box, and shows progress.
 */
#include "cli/cp/cp.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "cli/text.h"
#include "cli/verb/box.h"
#include "cli/verb/cat.h"
#include "cli/verbs.h"

enum { DRAW_MS = 100, BAR_WIDTH = 24 };

/* ---- progress ---- */

static void draw(struct cp_progress *p, uint64_t now)
{
	char done[24], total[24], rate[24], bar[BAR_WIDTH + 1];
	uint64_t ms = now - p->began;
	box_size_text(p->done, done);
	box_size_text(p->total, total);
	box_size_text(ms ? p->done * 1000 / ms : 0, rate);
	if (!p->total) {
		fprintf(stderr, "\r\033[K%s  %s/s", done, rate);
		return;
	}
	double part = p->done < p->total ? (double)p->done / (double)p->total : 1;
	size_t full = (size_t)(part * BAR_WIDTH);
	memset(bar, '.', BAR_WIDTH);
	memset(bar, '#', full);
	bar[BAR_WIDTH] = 0;
	fprintf(stderr, "\r\033[K[%s] %3.0f %%  %s of %s  %s/s", bar, part * 100, done, total, rate);
}

void cp_progress_add(struct cp_progress *p, uint64_t bytes)
{
	p->done += bytes;
	uint64_t now = p->shown ? clock_ms() : 0;
	if (!p->shown || now - p->drawn < DRAW_MS)
		return;
	p->drawn = now;
	draw(p, now);
}

void cp_progress_end(struct cp_progress *p)
{
	if (p->shown && p->drawn != p->began)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}

/* ---- shared by both directions ---- */

struct str cp_base_name(const char *path)
{
	struct str s = str_of(path);
	while (s.n && s.p[s.n - 1] == '/')
		s.n--;
	size_t at = s.n;
	while (at && s.p[at - 1] != '/')
		at--;
	s = str_skip(s, at);
	return str_eq_c(s, ".") || str_eq_c(s, "..") ? STR("") : s;
}

int cp_temp_name(char ret[CP_TEMP_NAME], struct err *e)
{
	uint64_t random;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "a random name");
	snprintf(ret, CP_TEMP_NAME, ".atoll-tmp-n%016llx", (unsigned long long)random);
	return 0;
}

/* The line with the reason: the last one, but the first one where tar ends with a summary of its errors. */
static struct str reason(struct str said)
{
	while (said.n && said.p[said.n - 1] == '\n')
		said.n--;
	size_t begin = said.n, end = 0;
	while (begin && said.p[begin - 1] != '\n')
		begin--;
	if (!str_ends(said, STR(" due to previous errors")))
		return str_skip(said, begin);
	while (end < said.n && said.p[end] != '\n')
		end++;
	return str_n(said.p, end);
}

/* tar reports a write that the full disk cut short by its length. */
static bool is_full(struct str text)
{
	return str_ends(text, STR("No space left on device")) || str_ends(text, STR("Disk quota exceeded")) ||
	       memmem(text.p, text.n, ": Wrote only ", strlen(": Wrote only "));
}

int cp_command_failed(const struct stream_result *r, struct buf *said, const char *what, struct err *e)
{
	struct str text = reason(buf_str(said));
	if (strcmp(r->outcome, "exited") != 0)
		return err_set(
			e, ERRC_COMMAND_EXECUTION_ERROR, "%s: the copy program in the box ended: %s", what, r->outcome);
	if (!text.n)
		return err_set(e, ERRC_COMMAND_EXECUTION_ERROR,
			"%s: the copy program in the box ended with exit code %d", what, r->exit_code);
	if (is_full(text))
		return err_set(e, ERRC_NO_SPACE, "the disk of the box is full: %.*s", STR_ARG(text));
	return err_set(e, ERRC_FILESYSTEM_ERROR, "%.*s", STR_ARG(text));
}

/* ---- the verb ---- */

/* "ID:path": the part before the colon has no '/', so that "./a:b" is a file on this machine. */
static struct cp_side read_side(const char *word)
{
	const char *colon = strchr(word, ':');
	if (!colon || colon == word || memchr(word, '/', (size_t)(colon - word)))
		return (struct cp_side){NULL, word};
	return (struct cp_side){str_dup(str_n(word, (size_t)(colon - word))), colon[1] ? colon + 1 : "."};
}

static bool is_dash(const struct cp_side *s)
{
	return !s->id && strcmp(s->path, "-") == 0;
}

static int copy(struct cp *cp, struct err *e)
{
	auto_buf struct buf answer = {0};
	if (cp->from.id && api_need_box(cp->cl, cp->from.id, e) < 0)
		return -1;
	if (is_dash(&cp->to))
		return cat_file(cp->cl, cp->from.id, cp->from.path, e);
	if (is_dash(&cp->from))
		return cat_write(cp->cl, cp->to.id, cp->to.path, STDIN_FILENO, &answer, e);
	return cp->from.id ? cp_down(cp, e) : cp_up(cp, e);
}

static void print_json(const struct cp *cp, char **words)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "from", words[0]);
	json_member_cstr(&w, "to", words[1]);
	json_member_u64(&w, "bytes", cp->progress.done);
	json_member_u64(&w, "milliseconds", clock_ms() - cp->progress.began);
	json_object_end(&w);
	cli_print(&out);
}

int verb_cp(struct cli *c, int argc, char **argv)
{
	bool quiet = false;
	bool recursive = false;
	const struct arg table[] = {
		{"quiet", NULL, "no progress bar", ARG_FLAG, &quiet, 'q'},
		{"recursive", NULL, "accepted as in cp(1); directories are always copied whole", ARG_FLAG, &recursive,
			'r'},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_client struct client cl = {0};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 2 || !*a.words[0] || !*a.words[1])
		return cli_usage(c,
			a.n > 2 ? "'%s' is one word too many: name one source and one destination"
				: "name a source and a destination",
			a.n > 2 ? a.words[2] : "");
	struct cp cp = {.cl = &cl, .from = read_side(a.words[0]), .to = read_side(a.words[1])};
	if (!cp.from.id == !cp.to.id)
		return cli_usage(
			c, cp.from.id ? "one side must be on this machine" : "one side must be in a box: ID:PATH");
	if (client_open(c, &cl, &e) < 0 ||
		(!is_dash(&cp.from) && !is_dash(&cp.to) && client_catch_signals(&cl, &e) < 0))
		return cli_fail(c, &e);
	cp.progress.shown = isatty(STDERR_FILENO) && !quiet && !c->json;
	cp.progress.began = cp.progress.drawn = clock_ms();
	int r = copy(&cp, &e);
	cp_progress_end(&cp.progress);
	code = r == 0 ? 0 : cp.told ? c->verb->exit_failed : cli_fail(c, &e);
	if (r == 0 && c->json && !is_dash(&cp.to))
		print_json(&cp, a.words);
	return cl.interrupted ? 128 + cl.interrupted : code;
}
