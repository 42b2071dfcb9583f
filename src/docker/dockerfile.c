#include "docker/dockerfile.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"

struct reader {
	struct dockerfile *d;
	const char *const *args;
	size_t args_n;
	int line;
	struct err *e;
};

static int refuse(struct reader *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static int refuse(struct reader *r, const char *fmt, ...)
{
	char text[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(r->e, ERR_BAD_FIELD, "Dockerfile:%d: %s", r->line, text);
}

/* ---- variables ---- */

static const char *get(const struct dockerfile *d, struct str name)
{
	for (size_t i = d->visible; i > 0; i--)
		if (str_eq_c(name, d->vars[i - 1].name))
			return d->vars[i - 1].value;
	return NULL;
}

static int set(struct reader *r, struct str name, struct str value, bool env)
{
	struct dockerfile *d = r->d;
	if (!name.n || memchr(name.p, 0, name.n) || memchr(value.p ? value.p : "", 0, value.n))
		return refuse(r, "a variable needs a name, and no NUL");
	if (value.n > DOCKERFILE_VALUE_MAX || d->vars_n == DOCKERFILE_VARS_MAX)
		return refuse(r, "too many variables, or one that is too long");
	d->vars = xrealloc(d->vars, (d->vars_n + 1) * sizeof *d->vars);
	d->vars[d->vars_n++] = (struct dockerfile_var){str_dup(name), str_dup(value), env};
	return 0;
}

static size_t name_length(struct str s)
{
	size_t n = 0;
	while (n < s.n && (isalnum((unsigned char)s.p[n]) || s.p[n] == '_'))
		n++;
	return n;
}

/* Appends the value of the reference at the start of `s` (behind the '$'); returns its length, 0: it is none. */
static size_t put_reference(const struct dockerfile *d, struct str s, struct buf *out)
{
	bool braces = s.n && s.p[0] == '{';
	struct str inner = str_skip(s, braces);
	size_t n = name_length(inner);
	const char *value = n ? get(d, str_n(inner.p, n)) : NULL;
	if (!braces) {
		buf_add_c(out, value ? value : "");
		return n;
	}
	ssize_t end = str_index(s, '}');
	if (end < 0 || !n)
		return 0;
	struct str rest = str_n(inner.p + n, (size_t)end - 1 - n);
	if (str_starts(rest, STR(":-")) && (!value || !*value))
		buf_add_str(out, str_skip(rest, 2));
	else
		buf_add_c(out, value ? value : "");
	return (size_t)end + 1;
}

/* One word: quotes are removed, variables replaced. Returns what is left behind it. -1 through *bad. */
static struct str take_word(const struct dockerfile *d, struct str s, struct buf *out, bool *bad)
{
	char quote = 0;
	size_t i = 0;
	for (; i < s.n && (quote || !isspace((unsigned char)s.p[i])); i++) {
		char c = s.p[i];
		if (quote && c == quote) {
			quote = 0;
		} else if (!quote && (c == '"' || c == '\'')) {
			quote = c;
		} else if (c == '\\' && quote != '\'' && i + 1 < s.n) {
			buf_add_byte(out, s.p[++i]);
		} else if (c == '$' && quote != '\'') {
			size_t n = put_reference(d, str_skip(s, i + 1), out);
			if (!n)
				buf_add_byte(out, c);
			i += n;
		} else {
			buf_add_byte(out, c);
		}
		if (buf_size(out) > DOCKERFILE_VALUE_MAX)
			*bad = true;
	}
	*bad |= quote != 0;
	while (i < s.n && isspace((unsigned char)s.p[i])) /* also those that str_trim leaves */
		i++;
	return str_skip(s, i);
}

/* ---- instructions ---- */

static int on_from(struct reader *r, struct str rest)
{
	auto_buf struct buf word = {0};
	bool bad = false;
	if (r->d->from)
		return refuse(r, "a second FROM (a multi-stage build) is not supported yet");
	do {
		buf_clear(&word);
		rest = take_word(r->d, rest, &word, &bad);
	} while (!bad && str_starts(buf_str(&word), STR("--")) && rest.n);
	struct str ref = buf_str(&word), tag, name;
	if (str_starts(ref, STR("docker.io/")))
		ref = str_skip(ref, 10);
	name = str_split(ref, ':', &tag);
	if (bad || (!str_eq_c(name, "cloudflare/sandbox") && !str_eq_c(name, "cloudflare/sandbox-test")))
		return refuse(r, "FROM '%.60s': only cloudflare/sandbox is known; it stands for Atoll's default image",
			buf_cstr(&word));
	if (str_ends(tag, STR("-opencode")) || str_ends(tag, STR("-musl")))
		return refuse(r, "FROM '%.60s': Atoll has no such variant; use the one without a suffix, or -python",
			buf_cstr(&word));
	if (tag.n && !str_starts(tag, STR("0.12.")) && !str_eq_c(tag, "latest"))
		r->d->warning = xasprintf("Atoll speaks the protocol of 0.12, the Dockerfile names %.*s",
			(int)(tag.n < 40 ? tag.n : 40), tag.p);
	r->d->from = true;
	return 0;
}

/* ENV A=1 B="2 3", or ENV A the rest of the line. */
static int on_pairs(struct reader *r, struct str rest, bool env)
{
	ssize_t equals = str_index(rest, '='), blank = -1;
	for (size_t i = 0; i < rest.n && blank < 0; i++)
		if (isspace((unsigned char)rest.p[i]))
			blank = (ssize_t)i;
	if (env && (equals < 0 || (blank >= 0 && blank < equals))) {
		if (blank < 0)
			return refuse(r, "a variable needs a value");
		auto_buf struct buf value = {0};
		struct str text = str_trim(str_skip(rest, (size_t)blank));
		bool bad = false;
		while (text.n && !bad) {
			if (buf_size(&value))
				buf_add_byte(&value, ' ');
			text = take_word(r->d, text, &value, &bad);
		}
		return bad ? refuse(r, "a quote does not end")
			   : set(r, str_n(rest.p, (size_t)blank), buf_str(&value), env);
	}
	while (rest.n) {
		auto_buf struct buf word = {0};
		bool bad = false;
		rest = take_word(r->d, rest, &word, &bad);
		struct str value, name = str_split(buf_str(&word), '=', &value);
		if (bad || name.n == buf_size(&word))
			return refuse(
				r, bad ? "a quote does not end, or a value is too long" : "a variable needs a value");
		if (set(r, name, value, env) < 0)
			return -1;
	}
	return 0;
}

static int on_arg(struct reader *r, struct str rest)
{
	auto_buf struct buf word = {0};
	bool bad = false;
	take_word(r->d, rest, &word, &bad);
	struct str value, name = str_split(buf_str(&word), '=', &value);
	bool given = name.n < buf_size(&word);
	if (bad || !name.n)
		return refuse(r, "ARG needs a name");
	for (size_t i = 0; i < r->args_n; i++) {
		struct str own, own_name = str_split(str_of(r->args[i]), '=', &own);
		if (str_eq(own_name, name))
			return set(r, name, own, false);
	}
	return given ? set(r, name, value, false) : 0;
}

static int on_cmd(struct reader *r, struct str rest)
{
	auto_buf struct buf out = {0};
	free(r->d->cmd);
	r->d->cmd = NULL;
	if (rest.n && rest.p[0] == '[') {
		struct json_doc *doc = json_parse(rest, NULL);
		bool ok = doc && json_root(doc)->type == JSON_T_ARRAY;
		json_each(it, ok ? json_root(doc) : NULL) ok &= it->type == JSON_T_STRING;
		if (ok)
			json_put_tree(&out, json_root(doc));
		json_free(doc);
		if (!ok)
			return refuse(r, "CMD [...] must be a JSON list of texts");
	} else if (rest.n) {
		struct json_writer w = json_writer(&out);
		json_array_begin(&w);
		json_cstr(&w, "/bin/sh");
		json_cstr(&w, "-c");
		json_str(&w, rest);
		json_array_end(&w);
	}
	r->d->cmd = buf_size(&out) ? str_dup(buf_str(&out)) : NULL;
	return 0;
}

static int on_workdir(struct reader *r, struct str rest)
{
	auto_buf struct buf word = {0};
	bool bad = false;
	take_word(r->d, rest, &word, &bad);
	if (bad || !buf_size(&word))
		return refuse(r, "WORKDIR needs a directory");
	free(r->d->workdir);
	r->d->workdir = str_dup(buf_str(&word));
	return 0;
}

static int on_instruction(struct reader *r, struct str line)
{
	size_t n = 0;
	r->d->visible = r->d->vars_n;
	while (n < line.n && !isspace((unsigned char)line.p[n]))
		n++;
	struct str name = str_n(line.p, n), rest = str_trim(str_skip(line, n));
	if (str_eq_nocase(name, STR("FROM")))
		return on_from(r, rest);
	if (str_eq_nocase(name, STR("ARG")))
		return on_arg(r, rest);
	if (!r->d->from)
		return refuse(r, "%.*s comes before FROM", (int)(n < 40 ? n : 40), name.p);
	if (str_eq_nocase(name, STR("ENV")))
		return on_pairs(r, rest, true);
	if (str_eq_nocase(name, STR("CMD")))
		return on_cmd(r, rest);
	if (str_eq_nocase(name, STR("WORKDIR")))
		return on_workdir(r, rest);
	static const struct str noted[] = {STR("EXPOSE"), STR("LABEL"), STR("USER"), STR("MAINTAINER")};
	for (size_t i = 0; i < ARRAY_LEN(noted); i++)
		if (str_eq_nocase(name, noted[i]))
			return rest.n ? 0 : refuse(r, "%.*s needs a value", STR_ARG(name));
	return refuse(r,
		"%.*s is not supported yet: Atoll builds FROM, EXPOSE, ENV, WORKDIR, USER, LABEL, ARG and CMD; install "
		"in "
		"the box at run time",
		(int)(n < 40 ? n : 40), name.p);
}

/* A line that ends in '\' goes on in the next one; comment lines in between are left out. */
int dockerfile_read(struct str text, const char *const *args, size_t args_n, struct dockerfile *ret, struct err *e)
{
	struct reader r = {.d = ret, .args = args, .args_n = args_n, .e = e};
	auto_buf struct buf whole = {0};
	int number = 0;
	*ret = (struct dockerfile){0};
	if (text.n > DOCKERFILE_MAX)
		return refuse(&r, "longer than %d bytes", DOCKERFILE_MAX);
	while (text.n) {
		struct str line = str_trim(str_split(text, '\n', &text));
		number++;
		if (!line.n || line.p[0] == '#')
			continue;
		if (!buf_size(&whole))
			r.line = number;
		bool more = line.p[line.n - 1] == '\\';
		buf_add_str(&whole, str_n(line.p, line.n - more));
		if (more) {
			buf_add_byte(&whole, ' ');
			continue;
		}
		if (on_instruction(&r, str_trim(buf_str(&whole))) < 0)
			return -1;
		buf_clear(&whole);
	}
	if (buf_size(&whole) && on_instruction(&r, str_trim(buf_str(&whole))) < 0)
		return -1;
	r.line = number ? number : 1;
	return ret->from ? 0 : refuse(&r, "there is no FROM");
}

void dockerfile_free(struct dockerfile *d)
{
	for (size_t i = 0; i < d->vars_n; i++) {
		free(d->vars[i].name);
		free(d->vars[i].value);
	}
	free(d->vars);
	free(d->cmd);
	free(d->workdir);
	free(d->warning);
	*d = (struct dockerfile){0};
}

void dockerfile_json(const struct dockerfile *d, struct buf *ret)
{
	struct json_writer w = json_writer(ret);
	json_object_begin(&w);
	json_key(&w, "env");
	json_object_begin(&w);
	for (size_t i = 0; i < d->vars_n; i++) {
		bool again = false;
		for (size_t k = i + 1; k < d->vars_n; k++)
			again |= d->vars[k].env && strcmp(d->vars[k].name, d->vars[i].name) == 0;
		if (d->vars[i].env && !again)
			json_member_cstr(&w, d->vars[i].name, d->vars[i].value);
	}
	json_object_end(&w);
	if (d->cmd) {
		json_key(&w, "cmd");
		json_raw(&w, str_of(d->cmd));
	}
	json_object_end(&w);
}
