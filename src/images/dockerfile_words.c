/*
 * Variables and words of an instruction, as the reference of the Dockerfile has them.
 */
#include <ctype.h>
#include <string.h>

#include "images/dockerfile.h"

struct expansion {
	char escape;
	df_lookup lookup;
	void *arg;
	struct buf *out;
	int depth;
};

static int expand(struct expansion *x, struct str text, struct err *e);

static bool name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static int bad(struct err *e)
{
	return err_set(e, ERRC_VALIDATION_FAILED,
		"a variable is written wrongly; use $NAME, ${NAME}, ${NAME:-value} or ${NAME:+value}");
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

static int expand_braces(struct expansion *x, struct str inside, struct err *e)
{
	size_t n = 0;
	while (n < inside.n && name_char(inside.p[n]))
		n++;
	const char *value = x->lookup(x->arg, str_n(inside.p, n));
	struct str rest = str_skip(inside, n);
	if (!n)
		return bad(e);
	if (!rest.n || (rest.n == inside.n && !n)) {
		buf_add_c(x->out, value ? value : "");
		return 0;
	}
	bool colon = rest.p[0] == ':';
	bool set = value && (!colon || *value);
	if (rest.n < 1u + colon)
		return bad(e);
	char kind = rest.p[colon];
	struct str word = str_skip(rest, 1u + colon);
	if (kind == '-' && set)
		buf_add_c(x->out, value);
	if ((kind == '-' && !set) || (kind == '+' && set))
		return expand(x, word, e);
	return kind == '-' || kind == '+' ? 0 : bad(e);
}

static int expand_one(struct expansion *x, struct str *text, struct err *e)
{
	struct str s = str_skip(*text, 1);
	if (s.n && s.p[0] == '{') {
		ssize_t end = find_end(str_skip(s, 1));
		if (end < 0)
			return bad(e);
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

static int expand(struct expansion *x, struct str text, struct err *e)
{
	bool single = false;
	if (++x->depth > 16)
		return bad(e);
	while (text.n) {
		char c = text.p[0];
		if (c == '\'')
			single = !single;
		if (c == x->escape && text.n > 1 && !single) {
			if (text.p[1] != '$')
				buf_add_byte(x->out, c);
			buf_add_byte(x->out, text.p[1]);
			text = str_skip(text, 2);
		} else if (c == '$' && !single) {
			if (expand_one(x, &text, e) < 0)
				return -1;
		} else {
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
	struct expansion x = {escape, lookup, arg, ret, 0};
	if (!ret->max)
		ret->max = DOCKERFILE_VALUE_MAX;
	return expand(&x, text, e);
}

int dockerfile_words(struct str text, char escape, struct words *ret, struct err *e)
{
	while ((text = str_trim(text)).n) {
		auto_buf struct buf word = {0};
		char quote = 0;
		size_t i = 0;
		for (; i < text.n && (quote || (text.p[i] != ' ' && text.p[i] != '\t')); i++) {
			char c = text.p[i];
			if (c == escape && quote != '\'' && i + 1 < text.n &&
				(!quote || text.p[i + 1] == quote || text.p[i + 1] == escape || text.p[i + 1] == '$'))
				buf_add_byte(&word, text.p[++i]);
			else if (quote ? c == quote : c == '"' || c == '\'')
				quote = quote ? 0 : c;
			else
				buf_add_byte(&word, c);
		}
		if (quote)
			return err_set(e, ERRC_VALIDATION_FAILED, "a quote has no end");
		if (ret->n >= SERVICE_LIST_MAX)
			return err_set(e, ERRC_VALIDATION_FAILED, "too many words");
		words_add(ret, buf_str(&word));
		text = str_skip(text, i);
	}
	return 0;
}
