#include "cli/code/code.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/limits.h"
#include "cli/verb/exec.h"
#include "cli/verbs.h"

enum { SOURCE_MAX = 16 * 1024 * 1024, NOT_READY_TRIES = 20 };

static const char *const language_names[] = {"python", "javascript", "typescript"};

/* ---- which language, which code ---- */

static bool read_language(const char *text, enum code_language *ret)
{
	static const struct {
		const char *name;
		enum code_language language;
	} names[] = {{"python", CODE_PYTHON}, {"py", CODE_PYTHON}, {"python3", CODE_PYTHON},
		{"javascript", CODE_JAVASCRIPT}, {"js", CODE_JAVASCRIPT}, {"mjs", CODE_JAVASCRIPT},
		{"node", CODE_JAVASCRIPT}, {"typescript", CODE_TYPESCRIPT}, {"ts", CODE_TYPESCRIPT}};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(names[i].name, text) == 0) {
			*ret = names[i].language;
			return true;
		}
	return false;
}

static void language_of_file(const char *path, enum code_language *ret)
{
	const char *dot = strrchr(path, '.');
	if (dot)
		read_language(dot + 1, ret);
}

static int read_all(int fd, struct buf *ret, const char *shown, struct err *e)
{
	for (;;) {
		char *room = buf_room(ret, 64 * 1024);
		if (!room)
			return err_set(
				e, ERRC_PAYLOAD_TOO_LARGE, "'%s' is longer than %d MiB", shown, SOURCE_MAX / MIB);
		ssize_t n = read(fd, room, 64 * 1024);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(e, errc_from_file_errno(errno), errno, "'%s'", shown);
		if (n == 0)
			return 0;
		buf_commit(ret, (size_t)n);
	}
}

static int read_source(const char *path, struct buf *ret, struct err *e)
{
	bool dash = strcmp(path, "-") == 0;
	auto_fd int fd = dash ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (!dash && fd < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "'%s'", path);
	if (read_all(dash ? STDIN_FILENO : fd, ret, path, e) < 0)
		return -1;
	if (!str_is_utf8(buf_str(ret)))
		return err_set(e, ERRC_INVALID_REQUEST, "'%s' is not UTF-8", path);
	return 0;
}

/* ---- the context ---- */

static int create_context(struct code *c, const char *cwd, const struct arg_list *env, struct err *e)
{
	auto_buf struct buf body = {0}, answer = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "language", language_names[c->language]);
	if (cwd)
		json_member_cstr(&w, "cwd", cwd);
	api_write_env(&w, "env_vars", env->items, env->n);
	json_object_end(&w);
	struct api_request rq = {c->id, "POST", "/api/contexts", buf_str(&body)};
	int r = -1;
	for (int i = 0; i < NOT_READY_TRIES; i++) {
		buf_clear(&answer);
		r = api_call(&c->cl, &rq, &answer, e);
		if (r == 0 || e->code != ERRC_INTERPRETER_NOT_READY || c->cl.interrupted)
			break;
		loop_turn(c->cl.loop, 1000);
	}
	auto_json struct json_doc *d = r == 0 ? json_parse(buf_str(&answer), e) : NULL;
	if (!d)
		return -1;
	c->context = str_dup(api_text(json_root(d), "contextId"));
	return *c->context ? 0 : err_set(e, ERRC_UNKNOWN_ERROR, "the box made a context without a name");
}

static void delete_context(struct code *c)
{
	auto_buf struct buf rest = {0}, answer = {0};
	struct err ignored;
	buf_add_c(&rest, "/api/contexts/");
	client_percent_encode(&rest, c->context);
	api_call(&c->cl, &(struct api_request){c->id, "DELETE", buf_cstr(&rest), STR("")}, &answer, &ignored);
}

/* Cancelling the request interrupts the code that runs. */
static void on_signal(struct client *cl, int signo)
{
	(void)signo;
	struct code *c = cl->signal_arg;
	if (!c->running || !c->running->call)
		return;
	c->cancelled = true;
	http_call_cancel(c->running->call);
}

/* ---- the verb ---- */

/* Returns the exit code. *ret_left: no code shall follow, also after 0. */
static int run_one(struct code *c, struct str text, bool *ret_left)
{
	struct err e;
	enum code_end end = code_run(c, text, &e);
	*ret_left = end != CODE_DONE;
	switch (end) {
	case CODE_DONE:
		return 0;
	case CODE_EXITED:
		return c->exit_code;
	case CODE_RAISED:
	case CODE_LOST:
		return 1;
	case CODE_INTERRUPTED:
		return 128 + (c->cl.interrupted ? c->cl.interrupted : SIGINT);
	case CODE_FAILED:
		break;
	}
	return cli_fail(c->cl.cli, &e);
}

/* The words of the command line. */
struct code_words {
	const char *context, *cwd;
	struct arg_list env, texts;
	char **files;
	int files_n;
};

static int run_all(struct code *c, const struct code_words *w)
{
	int code = 0;
	bool left = false;
	struct err e;
	for (size_t i = 0; !left && i < w->texts.n; i++)
		code = run_one(c, str_of(w->texts.items[i]), &left);
	for (int i = 0; !left && i < w->files_n; i++) {
		auto_buf struct buf text = {.max = SOURCE_MAX};
		if (read_source(w->files[i], &text, &e) < 0)
			return cli_fail(c->cl.cli, &e);
		code = run_one(c, buf_str(&text), &left);
	}
	return code;
}

static int run(struct code *c, struct code_words *w)
{
	static char *from_stdin[] = {"-"};
	struct err e;
	bool repl = !w->texts.n && !w->files_n && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	if (!w->texts.n && !w->files_n && !repl) {
		w->files = from_stdin;
		w->files_n = 1;
	}
	if (client_open(c->cl.cli, &c->cl, &e) < 0 || client_catch_signals(&c->cl, &e) < 0)
		return cli_fail(c->cl.cli, &e);
	c->cl.on_signal = on_signal;
	c->cl.signal_arg = c;
	if (w->context)
		c->context = xstrdup(w->context);
	else if (create_context(c, w->cwd, &w->env, &e) < 0)
		return cli_fail(c->cl.cli, &e);
	int code = repl ? code_repl(c) : run_all(c, w);
	if (!w->context)
		delete_context(c);
	client_close(&c->cl);
	return code;
}

int verb_code(struct cli *c, int argc, char **argv)
{
	struct code s = {.cl.cli = c};
	struct code_words w = {0};
	const char *language = NULL;
	const struct arg table[] = {
		{"language", "LANG", "python, js or ts (default: by the file's ending, else python)", ARG_TEXT,
			&language, 'l'},
		{"code", "CODE", "run this code; may be repeated", ARG_LIST, &w.texts, 'c'},
		{"timeout", "TIME", "interrupt each piece of code after this time", ARG_SECONDS, &s.timeout_ms, 't'},
		{"cwd", "DIR", "working directory in the box (default /workspace)", ARG_TEXT, &w.cwd},
		{"env", "K=V", "set a variable; may be repeated", ARG_LIST, &w.env, 'e'},
		{"context", "NAME", "use this existing context and keep it", ARG_TEXT, &w.context},
		{"dir", "DIR", "save pictures and HTML here (default: pictures only, in the current one)", ARG_TEXT,
			&s.dir},
		{"no-files", NULL, "do not save pictures and HTML", ARG_FLAG, &s.no_files},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, argc + 1, &s.id, &code) ||
		!exec_check_env(c, &w.env, &code))
		return code;
	if (a.n > 1)
		language_of_file(a.words[1], &s.language);
	if (language && !read_language(language, &s.language))
		return cli_usage(c, "--language cannot be '%s'; write python, js or ts", language);
	for (size_t i = 0; i < w.texts.n; i++)
		if (!str_is_utf8(str_of(w.texts.items[i])))
			return cli_usage(c, "--code is not UTF-8");
	w.files = a.words + 1;
	w.files_n = a.n - 1;
	return run(&s, &w);
}
