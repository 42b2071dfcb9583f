#include "images/dockerfile.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[DF_KINDS] = {"ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM",
	"HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"};

const char *dockerfile_name(enum df_kind kind)
{
	return names[kind];
}

int dockerfile_error(const struct df_step *s, struct err *e, const char *fmt, ...)
{
	char text[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(e, ERRC_VALIDATION_FAILED, "Dockerfile:%u:%u: %s", s->line, s->column, text);
}

/* ---- lines ---- */

struct source {
	struct str rest;
	unsigned line; /* of the next line, from 1 */
	char escape;
	size_t at_steps;
};

static bool next_line(struct source *s, struct str *ret)
{
	if (!s->rest.n)
		return false;
	*ret = str_split(s->rest, '\n', &s->rest);
	if (ret->n && ret->p[ret->n - 1] == '\r')
		ret->n--;
	s->line++;
	return true;
}

static struct str skip_blanks(struct str s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = str_skip(s, 1);
	return s;
}

static struct str cut_blanks(struct str s)
{
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* "# escape=`" and "# syntax=…", only before everything else. */
static void read_directives(struct source *s)
{
	for (;;) {
		struct source before = *s;
		struct str line, value;
		if (!next_line(s, &line))
			return;
		line = skip_blanks(line);
		if (!line.n || line.p[0] != '#' || str_index(line, '=') < 0) {
			*s = before;
			return;
		}
		struct str key = str_trim(str_split(str_skip(line, 1), '=', &value));
		value = str_trim(value);
		if (str_eq_nocase(key, STR("escape")) && value.n == 1 && (value.p[0] == '`' || value.p[0] == '\\')) {
			s->escape = value.p[0];
		} else if (!str_eq_nocase(key, STR("syntax")) && !str_eq_nocase(key, STR("check"))) {
			*s = before;
			return;
		}
	}
}

static bool is_comment(struct str line)
{
	line = skip_blanks(line);
	return line.n && line.p[0] == '#';
}

/* The instruction's line with the lines that continue it. */
static void join_lines(struct source *s, struct str line, struct buf *ret)
{
	for (;;) {
		struct str end = cut_blanks(line);
		bool more = end.n && end.p[end.n - 1] == s->escape;
		if (!more) {
			buf_add_str(ret, line);
			return;
		}
		buf_add(ret, end.p, end.n - 1);
		do {
			if (!next_line(s, &line))
				return;
		} while (is_comment(line) || !skip_blanks(line).n);
	}
}

/* ---- here-documents ---- */

/* Finds "<<NAME", "<<-NAME" and "<<'NAME'" outside of quotes. *ret_tabs: leading tabs go. */
static bool find_heredoc(struct str *text, struct heredoc *ret, bool *ret_tabs)
{
	char quote = 0;
	for (; text->n; *text = str_skip(*text, 1)) {
		char c = text->p[0];
		if (quote || c == '"' || c == '\'') {
			quote = !quote ? c : c == quote ? 0 : quote;
			continue;
		}
		if (text->n < 3 || c != '<' || text->p[1] != '<')
			continue;
		struct str name = str_skip(*text, 2);
		if (name.p[0] == '<') { /* a here-string of the shell */
			*text = str_skip(*text, 2);
			continue;
		}
		*ret_tabs = name.p[0] == '-';
		name = str_skip(name, *ret_tabs);
		char mark = name.n && (name.p[0] == '"' || name.p[0] == '\'') ? name.p[0] : 0;
		name = str_skip(name, mark != 0);
		size_t n = 0;
		while (n < name.n && (isalnum((unsigned char)name.p[n]) || name.p[n] == '_' || name.p[n] == '.'))
			n++;
		if (!n || !(isalpha((unsigned char)name.p[0]) || name.p[0] == '_') ||
			(mark && (n == name.n || name.p[n] != mark)))
			continue;
		*ret = (struct heredoc){.name = str_dup(str_n(name.p, n)), .expand = !mark};
		*text = str_skip(name, n + (mark != 0));
		return true;
	}
	return false;
}

static int read_heredoc(struct source *s, struct df_step *step, struct heredoc *doc, bool tabs, struct err *e)
{
	auto_buf struct buf content = {0};
	struct str line;
	while (next_line(s, &line)) {
		while (tabs && line.n && line.p[0] == '\t')
			line = str_skip(line, 1);
		if (str_eq_c(line, doc->name)) {
			doc->content = str_dup(buf_str(&content));
			return 0;
		}
		buf_add_str(&content, line);
		buf_add_byte(&content, '\n');
	}
	return dockerfile_error(step, e, "the here-document '%s' has no end", doc->name);
}

static int read_heredocs(struct source *s, struct df_step *step, struct err *e)
{
	struct str text = str_of(step->text);
	bool tabs = false;
	if (step->is_json || (step->kind != DF_RUN && step->kind != DF_COPY && step->kind != DF_ADD))
		return 0;
	for (struct heredoc doc; find_heredoc(&text, &doc, &tabs);) {
		if (step->docs_n == ARRAY_LEN(step->docs)) {
			free(doc.name);
			return dockerfile_error(step, e, "more than %zu here-documents", ARRAY_LEN(step->docs));
		}
		step->docs[step->docs_n++] = doc;
		if (read_heredoc(s, step, &step->docs[step->docs_n - 1], tabs, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- one instruction ---- */

static bool has_letters(struct str word, const char *name)
{
	for (; *name; name++)
		if (!memchr(word.p, *name, word.n) && !memchr(word.p, tolower(*name), word.n))
			return false;
	return true;
}

/* The instruction whose letters are all in the word, or NULL: a misspelling. */
static const char *similar(struct str word)
{
	for (int i = 0; i < DF_KINDS; i++)
		if (word.n <= strlen(names[i]) + 1 && has_letters(word, names[i]))
			return names[i];
	return NULL;
}

static int find_kind(const struct df_step *at, struct str word, enum df_kind *ret, struct err *e)
{
	for (int i = 0; i < DF_KINDS; i++)
		if (str_eq_nocase(word, str_of(names[i]))) {
			*ret = (enum df_kind)i;
			return 0;
		}
	const char *meant = similar(word);
	if (meant)
		return dockerfile_error(at, e, "unknown instruction '%.*s'; did you mean %s?",
			(int)(word.n < 40 ? word.n : 40), word.p, meant);
	return dockerfile_error(at, e, "unknown instruction '%.*s'", (int)(word.n < 40 ? word.n : 40), word.p);
}

static void read_flags(struct df_step *s, struct str *text)
{
	while (str_starts(*text, STR("--")) && text->n > 2 && isalpha((unsigned char)text->p[2])) {
		size_t n = 0;
		while (n < text->n && text->p[n] != ' ' && text->p[n] != '\t')
			n++;
		words_add(&s->flags, str_n(text->p, n));
		*text = skip_blanks(str_skip(*text, n));
	}
}

/* The exec form is a JSON list of texts; anything else is the shell form. */
static void read_json(struct df_step *s)
{
	struct err e;
	if (s->text[0] != '[')
		return;
	auto_json struct json_doc *doc = json_parse(str_of(s->text), &e);
	const struct json *list = doc ? json_root(doc) : NULL;
	if (!list || list->type != JSON_T_ARRAY)
		return;
	json_each(it, list) if (it->type != JSON_T_STRING || memchr(it->text.p, 0, it->text.n)) return;
	json_each(it, list) words_add(&s->json, it->text);
	s->is_json = true;
}

/* The instruction behind ONBUILD is read again when an image is built on this one. */
static int check_onbuild(const struct df_step *step, struct err *e)
{
	struct dockerfile inner = {0};
	struct err why;
	if (dockerfile_onbuild(step->text, &inner, &why) < 0)
		return dockerfile_error(step, e, "%s", why.msg);
	dockerfile_free(&inner);
	return 0;
}

static int read_step(struct source *s, struct str line, struct dockerfile *d, struct err *e)
{
	auto_buf struct buf text = {0};
	struct df_step step = {.line = s->line};
	struct str begin = skip_blanks(line);
	step.column = (unsigned)(begin.p - line.p) + 1;
	if (d->n == DOCKERFILE_STEPS_MAX)
		return dockerfile_error(&step, e, "more than %d instructions", DOCKERFILE_STEPS_MAX);
	join_lines(s, begin, &text);
	struct str rest = buf_str(&text);
	size_t n = 0;
	while (n < rest.n && rest.p[n] != ' ' && rest.p[n] != '\t')
		n++;
	if (find_kind(&step, str_n(rest.p, n), &step.kind, e) < 0)
		return -1;
	rest = cut_blanks(skip_blanks(str_skip(rest, n)));
	if (step.kind == DF_FROM || step.kind == DF_RUN || step.kind == DF_COPY || step.kind == DF_ADD ||
		step.kind == DF_HEALTHCHECK)
		read_flags(&step, &rest);
	step.text = str_dup(rest);
	d->v = xrealloc(d->v, (d->n + 1) * sizeof *d->v);
	d->v[d->n++] = step;
	if (!rest.n)
		return dockerfile_error(&step, e, "%s needs an argument", names[step.kind]);
	if (step.kind == DF_ONBUILD)
		return check_onbuild(&step, e);
	read_json(&d->v[d->n - 1]);
	return read_heredocs(s, &d->v[d->n - 1], e);
}

int dockerfile_parse(struct str text, struct dockerfile *ret, struct err *e)
{
	struct dockerfile d = {.escape = '\\'};
	struct source s = {.rest = text, .escape = '\\'};
	struct str line;
	int r = 0;
	if (text.n > DOCKERFILE_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "the Dockerfile is larger than %d bytes", DOCKERFILE_MAX);
	if (memchr(text.p, 0, text.n) || !str_is_utf8(text))
		return err_set(e, ERRC_VALIDATION_FAILED, "the Dockerfile is not UTF-8 text");
	if (str_starts(s.rest, STR("\xef\xbb\xbf")))
		s.rest = str_skip(s.rest, 3);
	read_directives(&s);
	d.escape = s.escape;
	while (r == 0 && next_line(&s, &line))
		if (skip_blanks(line).n && !is_comment(line))
			r = read_step(&s, line, &d, e);
	bool has_from = false;
	for (size_t i = 0; r == 0 && i < d.n; i++) {
		has_from = has_from || d.v[i].kind == DF_FROM;
		if (!has_from && d.v[i].kind != DF_ARG)
			r = dockerfile_error(&d.v[i], e, "%s before the first FROM", names[d.v[i].kind]);
	}
	if (r == 0 && !has_from)
		r = err_set(e, ERRC_VALIDATION_FAILED, "Dockerfile:%u:1: there is no FROM", s.line ? s.line : 1);
	if (r < 0)
		dockerfile_free(&d);
	else
		*ret = d;
	return r;
}

int dockerfile_onbuild(const char *text, struct dockerfile *ret, struct err *e)
{
	auto_buf struct buf whole = {0};
	struct err why;
	struct str rest;
	static const char rule[] = "ONBUILD takes one instruction, which is not FROM, MAINTAINER or ONBUILD";
	*ret = (struct dockerfile){0};
	/* Before it is read: the reader comes here again for each ONBUILD. */
	if (strncasecmp(text, "ONBUILD", 7) == 0)
		return err_set(e, ERRC_VALIDATION_FAILED, "%s", rule);
	buf_printf(&whole, "FROM scratch\n%s", text);
	if (dockerfile_parse(buf_str(&whole), ret, &why) < 0) {
		struct str msg = str_of(why.msg);
		for (int i = 0; i < 3 && str_starts(str_of(why.msg), STR("Dockerfile:")); i++) {
			str_split(msg, ':', &rest);
			msg = rest;
		}
		return err_set(e, ERRC_VALIDATION_FAILED, "ONBUILD: %.*s", STR_ARG(str_trim(msg)));
	}
	enum df_kind kind = ret->n == 2 ? ret->v[1].kind : DF_FROM;
	if (kind != DF_FROM && kind != DF_ONBUILD && kind != DF_MAINTAINER)
		return 0;
	dockerfile_free(ret);
	return err_set(e, ERRC_VALIDATION_FAILED, "%s", rule);
}

void dockerfile_free(struct dockerfile *d)
{
	for (size_t i = 0; i < d->n; i++) {
		struct df_step *s = &d->v[i];
		words_free(&s->flags);
		words_free(&s->json);
		free(s->text);
		for (size_t k = 0; k < s->docs_n; k++) {
			free(s->docs[k].name);
			free(s->docs[k].content);
		}
	}
	free(d->v);
	*d = (struct dockerfile){0};
}

const char *dockerfile_flag(const struct df_step *s, const char *name)
{
	size_t n = strlen(name);
	for (size_t i = 0; i < s->flags.n; i++)
		if (strncmp(s->flags.v[i] + 2, name, n) == 0 && s->flags.v[i][2 + n] == '=')
			return s->flags.v[i] + 3 + n;
	return NULL;
}
