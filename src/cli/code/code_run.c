#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/fd.h"
#include "cli/code/code.h"

enum { FILES_MAX = 100000 };

struct run {
	struct code *c;
	bool raised, lost, exited;
};

static int print_line(int fd, struct str text, struct err *e)
{
	if (cli_write(fd, text, e) < 0)
		return -1;
	return text.n && text.p[text.n - 1] == '\n' ? 0 : cli_write(fd, STR("\n"), e);
}

/* ---- results that a terminal cannot show ---- */

/* Makes a file with the next free name. Never overwrites a file. */
static int new_file(struct code *c, const char *ending, char ret[PATH_MAX], struct err *e)
{
	for (int i = 1; i < FILES_MAX; i++) {
		snprintf(ret, PATH_MAX, "%s%satoll-%d.%s", c->dir ? c->dir : "", c->dir ? "/" : "", i, ending);
		int fd = open(ret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd >= 0 ? fd : err_os(e, errc_from_file_errno(errno), errno, "'%s'", ret);
	}
	return err_set(e, ERRC_LIMIT_REACHED, "there are too many files named atoll-N.%s", ending);
}

static int write_file(struct code *c, const char *ending, struct str content, struct err *e)
{
	char path[PATH_MAX];
	auto_fd int fd = new_file(c, ending, path, e);
	if (fd < 0)
		return -1;
	int r = fd_write_full(fd, content.p, content.n);
	if (r < 0)
		return err_os(e, errc_from_file_errno(-r), -r, "writing '%s'", path);
	return print_line(STDOUT_FILENO, str_of(path), e);
}

static int write_base64(struct code *c, const char *ending, struct str text, struct err *e)
{
	auto_buf struct buf raw = {0};
	struct base64_decoder d = {0};
	if (!base64_decode(&d, text, &raw) || !base64_finish(&d))
		return err_set(e, ERRC_UNKNOWN_ERROR, "the box sent a picture that is not base64");
	return write_file(c, ending, buf_str(&raw), e);
}

static int write_files(struct code *c, const struct json *ev, struct err *e)
{
	static const struct {
		const char *member, *ending;
		bool base64;
	} kinds[] = {{"png", "png", true}, {"jpeg", "jpg", true}, {"svg", "svg", false}, {"html", "html", false}};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct str content = api_text(ev, kinds[i].member);
		bool html = strcmp(kinds[i].member, "html") == 0;
		/* Tables have an HTML form beside their text: files of it appear only where --dir asks for files. */
		if (!content.n || (html && !c->dir))
			continue;
		if ((kinds[i].base64 ? write_base64 : write_file)(c, kinds[i].ending, content, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- events ---- */

static int take_result(struct code *c, const struct json *ev, struct err *e)
{
	static const char *const texts[] = {"text", "markdown", "latex"};
	auto_buf struct buf b = {0};
	struct str text = STR("");
	for (size_t i = 0; i < ARRAY_LEN(texts) && !text.n; i++)
		text = api_text(ev, texts[i]);
	if (!text.n && !json_is_null(json_get(ev, "json"))) {
		json_put_tree(&b, json_get(ev, "json"));
		text = buf_str(&b);
	}
	if (text.n && print_line(STDOUT_FILENO, text, e) < 0)
		return -1;
	return c->no_files ? 0 : write_files(c, ev, e);
}

/* Python's exit() and sys.exit(): nothing or None is 0, a number is itself, another value is printed and is 1. */
static bool take_exit(struct run *r, const struct json *ev, bool print, struct err *e)
{
	struct str value = api_text(ev, "evalue");
	uint64_t code = 0;
	if (!str_eq_c(api_text(ev, "ename"), "SystemExit") || json_get(ev, "outcome"))
		return false;
	r->exited = true;
	bool none = !value.n || str_eq_c(value, "None");
	bool minus = value.n && value.p[0] == '-';
	bool number = none || str_to_u64(str_skip(value, minus), UINT32_MAX, &code);
	r->c->exit_code = !number ? 1 : (int)((minus ? -code : code) & 0xFF);
	if (!number && print)
		print_line(STDERR_FILENO, value, e);
	return true;
}

static int take_error(struct run *r, const struct json *ev, struct err *e)
{
	if (take_exit(r, ev, true, e))
		return 0;
	const struct json *lines = json_get(ev, "traceback");
	const char *on = cli_style(STDERR_FILENO, STYLE_RED), *off = cli_style(STDERR_FILENO, STYLE_PLAIN);
	r->raised = true;
	r->lost = json_get(ev, "outcome") != NULL;
	cli_write(STDERR_FILENO, str_of(on), e);
	json_each(line, lines) if (line->type == JSON_T_STRING) print_line(STDERR_FILENO, line->text, e);
	if (!lines || !lines->first) {
		auto_buf struct buf b = {0};
		buf_add_str(&b, api_text(ev, "ename"));
		buf_add_c(&b, ": ");
		buf_add_str(&b, api_text(ev, "evalue"));
		print_line(STDERR_FILENO, buf_str(&b), e);
	}
	return cli_write(STDERR_FILENO, str_of(off), e);
}

static int on_event(void *arg, const struct json *ev, struct str text, struct err *e)
{
	struct run *r = arg;
	struct str type = api_text(ev, "type");
	int failed = 0;
	if (r->c->cl.cli->json) {
		failed = print_line(STDOUT_FILENO, text, e);
		if (str_eq_c(type, "error") && !take_exit(r, ev, false, e))
			r->raised = true;
		r->lost = r->lost || (str_eq_c(type, "error") && json_get(ev, "outcome"));
	} else if (str_eq_c(type, "stdout")) {
		failed = cli_write(STDOUT_FILENO, api_text(ev, "text"), e);
	} else if (str_eq_c(type, "stderr")) {
		failed = cli_write(STDERR_FILENO, api_text(ev, "text"), e);
	} else if (str_eq_c(type, "result")) {
		failed = take_result(r->c, ev, e);
	} else if (str_eq_c(type, "error")) {
		failed = take_error(r, ev, e);
	}
	/* After this event the interpreter has ended. */
	return failed < 0 ? -1 : str_eq_c(type, "execution_complete") || r->lost;
}

enum code_end code_run(struct code *c, struct str text, struct err *e)
{
	auto_buf struct buf body = {.max = SIZE_MAX / 2};
	struct json_writer w = json_writer(&body);
	struct run r = {.c = c};
	json_object_begin(&w);
	json_member_cstr(&w, "context_id", c->context);
	json_member_str(&w, "code", text);
	if (c->timeout_ms)
		json_member_u64(&w, "timeout_ms", c->timeout_ms);
	json_object_end(&w);
	struct api_follow f = {
		.id = c->id, .method = "POST", .rest = "/api/execute/code", .on_event = on_event, .arg = &r};
	f.body = buf_str(&body);
	c->cl.head_ms = 0; /* the run may wait for another run of its context */
	c->running = &f;
	c->cancelled = false;
	int failed = api_follow(&c->cl, &f, e);
	c->running = NULL;
	if (c->cancelled)
		return CODE_INTERRUPTED;
	if (failed < 0 || r.lost)
		return failed < 0 ? CODE_FAILED : CODE_LOST;
	return r.exited ? CODE_EXITED : r.raised ? CODE_RAISED : CODE_DONE;
}
