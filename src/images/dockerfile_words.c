/*
 * Variables and words of an instruction, as the reference of the Dockerfile has them: a text is split into words first,
 * then the variables of each word are replaced, so that a value with blanks stays one word.
 */
#include <ctype.h>
#include <string.h>

#include "images/dockerfile_impl.h"

static int expand(struct expansion *x, struct str text, struct err *e);

static bool name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

int expansion_bad(struct err *e)
{
	return err_set(e, ERRC_VALIDATION_FAILED,
		"a variable is written wrongly; use $NAME, ${NAME}, ${NAME:-value}, ${NAME:+value}, ${NAME:?text}, "
		"${NAME#pattern}, ${NAME%%pattern} or ${NAME/pattern/value}");
}

/* The '}' that belongs to a "${" whose inside begins at `s`; -1: none. */
static ssize_t find_end(struct str s)
{
	int depth = 1;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '$' && i + 1 < s.n && s.p[i + 1] == '{')
			depth++;
		if (s.p[i] == '}' && --depth == 0)
			return (ssize_t)i;
	}
	return -1;
}

/* A part of "${…}" with its own variables replaced. */
static int expand_apart(struct expansion *x, struct str text, struct buf *ret, struct err *e)
{
	struct buf *out = x->out;
	ret->max = DOCKERFILE_VALUE_MAX;
	x->out = ret;
	int r = expand(x, text, e);
	x->out = out;
	return r;
}

static int missing(struct expansion *x, struct str name, struct str text, struct err *e)
{
	auto_buf struct buf why = {0};
	if (expand_apart(x, text, &why, e) < 0)
		return -1;
	return err_set(e, ERRC_VALIDATION_FAILED, "the variable '%.*s' is needed: %.80s",
		(int)(name.n < 60 ? name.n : 60), name.p, buf_size(&why) ? buf_cstr(&why) : "it has no value");
}

/* ${NAME#pattern} and its relatives. */
static int expand_pattern(struct expansion *x, const char *value, struct str rest, struct err *e)
{
	char kind = rest.p[0];
	bool twice = rest.n > 1 && rest.p[1] == kind;
	struct str by = STR_NULL, pattern = str_skip(rest, 1u + twice);
	auto_buf struct buf from = {0}, to = {0};
	size_t end = 0;
	while (kind == '/' && end < pattern.n && pattern.p[end] != '/')
		end += pattern.p[end] == x->escape && end + 1 < pattern.n ? 2 : 1;
	if (kind == '/') {
		by = str_skip(pattern, end < pattern.n ? end + 1 : end);
		pattern = str_n(pattern.p, end);
	}
	if (expand_apart(x, pattern, &from, e) < 0 || expand_apart(x, by, &to, e) < 0)
		return -1;
	struct str whole = str_of(value ? value : "");
	if (whole.n > DOCKERFILE_PATTERN_MAX || buf_size(&from) > DOCKERFILE_PATTERN_MAX)
		return err_set(
			e, ERRC_VALIDATION_FAILED, "a pattern is used on more than %d bytes", DOCKERFILE_PATTERN_MAX);
	if (kind == '#')
		buf_add_str(x->out, pattern_cut_begin(whole, buf_str(&from), twice));
	else if (kind == '%')
		buf_add_str(x->out, pattern_cut_end(whole, buf_str(&from), twice));
	else
		pattern_replace(whole, buf_str(&from), buf_str(&to), twice, x->out);
	return 0;
}

static int expand_braces(struct expansion *x, struct str inside, struct err *e)
{
	size_t n = 0;
	while (n < inside.n && name_char(inside.p[n]))
		n++;
	struct str name = str_n(inside.p, n), rest = str_skip(inside, n);
	const char *value = x->lookup(x->arg, name);
	if (!n)
		return expansion_bad(e);
	if (!rest.n) {
		buf_add_c(x->out, value ? value : "");
		return 0;
	}
	if (strchr("#%/", rest.p[0]))
		return expand_pattern(x, value, rest, e);
	bool colon = rest.p[0] == ':';
	bool set = value && (!colon || *value);
	char kind = rest.n > colon ? rest.p[colon] : 0;
	struct str word = str_skip(rest, 1u + colon);
	if (kind != '-' && kind != '+' && kind != '?')
		return expansion_bad(e);
	if (kind == '?' && !set)
		return missing(x, name, word, e);
	if (kind != '+' && set)
		buf_add_c(x->out, value);
	return (kind == '-' && !set) || (kind == '+' && set) ? expand(x, word, e) : 0;
}

static int expand_one(struct expansion *x, struct str *text, struct err *e)
{
	struct str s = str_skip(*text, 1);
	if (s.n && s.p[0] == '{') {
		ssize_t end = find_end(str_skip(s, 1));
		if (end < 0)
			return expansion_bad(e);
		*text = str_skip(s, (size_t)end + 2);
		return expand_braces(x, str_n(s.p + 1, (size_t)end), e);
	}
	size_t n = 0;
	while (n < s.n && name_char(s.p[n]))
		n++;
	if (!n) {
		buf_add_byte(x->out, '$');
	} else {
		const char *value = x->lookup(x->arg, str_n(s.p, n));
		buf_add_c(x->out, value ? value : "");
	}
	*text = str_skip(s, n);
	return 0;
}

/* The escape character and what is behind it. Of a plain text, only an escaped '$' loses its escape character. */
static struct str take_escaped(struct expansion *x, struct str text, char quote)
{
	char next = text.p[1];
	bool off = !x->words ? next == '$' : !quote || next == quote || next == x->escape || next == '$';
	if (!off)
		buf_add_byte(x->out, text.p[0]);
	buf_add_byte(x->out, next);
	return str_skip(text, 2);
}

static int expand(struct expansion *x, struct str text, struct err *e)
{
	char quote = 0;
	if (++x->depth > 16)
		return expansion_bad(e);
	while (text.n) {
		char c = text.p[0];
		bool mark = x->words && (quote ? c == quote : c == '"' || c == '\'');
		if (c == x->escape && text.n > 1 && quote != '\'') {
			text = take_escaped(x, text, quote);
		} else if (c == '$' && quote != '\'' && x->lookup) {
			if (expand_one(x, &text, e) < 0)
				return -1;
		} else {
			if (mark)
				quote = quote ? 0 : c;
			else
				buf_add_byte(x->out, c);
			text = str_skip(text, 1);
		}
	}
	x->depth--;
	return x->out->failed
		       ? err_set(e, ERRC_VALIDATION_FAILED, "a value is longer than %d bytes", DOCKERFILE_VALUE_MAX)
		       : 0;
}

int dockerfile_expand(struct str text, char escape, df_lookup lookup, void *arg, struct buf *ret, struct err *e)
{
	struct expansion x = {.escape = escape, .lookup = lookup, .arg = arg, .out = ret};
	if (!ret->max)
		ret->max = DOCKERFILE_VALUE_MAX;
	return expand(&x, text, e);
}

int dockerfile_word(struct str text, char escape, df_lookup lookup, void *arg, struct buf *ret, struct err *e)
{
	struct expansion x = {.escape = escape, .words = true, .lookup = lookup, .arg = arg, .out = ret};
	if (!ret->max)
		ret->max = DOCKERFILE_VALUE_MAX;
	return expand(&x, text, e);
}

/* The bytes up to the blank that ends the first word; -1: a quote has no end. */
static ssize_t word_end(struct str s, char escape)
{
	char quote = 0;
	unsigned depth = 0;
	size_t i = 0;
	for (; i < s.n; i++) {
		char c = s.p[i];
		if (c == escape && quote != '\'' && i + 1 < s.n)
			i++;
		else if (quote)
			quote = c == quote ? 0 : quote;
		else if (c == '"' || c == '\'')
			quote = c;
		else if (c == '$' && i + 1 < s.n && s.p[i + 1] == '{')
			depth++;
		else if (c == '}' && depth)
			depth--;
		else if ((c == ' ' || c == '\t') && !depth)
			break;
	}
	return quote ? -1 : (ssize_t)i;
}

int dockerfile_words(struct str text, char escape, df_lookup lookup, void *arg, struct words *ret, struct err *e)
{
	while ((text = str_trim(text)).n) {
		auto_buf struct buf word = {0};
		ssize_t n = word_end(text, escape);
		if (n < 0)
			return err_set(e, ERRC_VALIDATION_FAILED, "a quote has no end");
		if (ret->n >= SERVICE_LIST_MAX)
			return err_set(e, ERRC_VALIDATION_FAILED, "too many words");
		if (dockerfile_word(str_n(text.p, (size_t)n), escape, lookup, arg, &word, e) < 0)
			return -1;
		words_add(ret, buf_str(&word));
		text = str_skip(text, (size_t)n);
	}
	return 0;
}
