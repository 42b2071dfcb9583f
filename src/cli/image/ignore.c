#include <ctype.h>
#include <string.h>

#include "cli/image/image.h"

enum { IGNORE_MAX = 1024 };

void ignore_parse(struct str text, struct ignore *ret)
{
	while (text.n && ret->n < IGNORE_MAX) {
		struct str line = str_trim(str_split(text, '\n', &text));
		if (line.n && line.p[line.n - 1] == '\r')
			line = str_trim(str_n(line.p, line.n - 1));
		if (!line.n || line.p[0] == '#')
			continue;
		auto_buf struct buf one = {0};
		if (line.p[0] == '!') {
			buf_add_byte(&one, '!');
			line = str_trim(str_skip(line, 1));
		}
		while (line.n && line.p[0] == '/')
			line = str_skip(line, 1);
		while (str_starts(line, STR("./")))
			line = str_skip(line, 2);
		while (line.n && line.p[line.n - 1] == '/')
			line.n--;
		if (!line.n)
			continue;
		buf_add_str(&one, line);
		ret->v = xrealloc(ret->v, (ret->n + 1) * sizeof *ret->v);
		ret->v[ret->n++] = str_dup(buf_str(&one));
	}
}

void ignore_free(struct ignore *i)
{
	for (size_t k = 0; k < i->n; k++)
		free(i->v[k]);
	free(i->v);
	*i = (struct ignore){0};
}

/* "[a-z]", "[^a]": the character and the rest of the pattern behind ']'. */
static const char *match_set(const char *p, char c, bool *ret)
{
	bool negated = *p == '^', found = false;
	for (p += negated; *p && *p != ']'; p++) {
		char low = *p, high = low;
		if (p[1] == '-' && p[2] && p[2] != ']') {
			high = p[2];
			p += 2;
		}
		found = found || (c >= low && c <= high);
	}
	*ret = found != negated;
	return *p ? p + 1 : p;
}

/* The whole of `s`, or up to a '/': what is below a match is ignored with it. Steps are bounded: a pattern has few
 * stars. */
static bool match(const char *p, const char *s, int *steps)
{
	for (; ++*steps < 100000; p++, s++) {
		if (!*p)
			return !*s || *s == '/';
		if (p[0] == '*' && p[1] == '*') {
			const char *rest = p + 2 + (p[2] == '/');
			for (const char *at = s;; at++) {
				if ((at == s || at[-1] == '/' || p[2] != '/') && match(rest, at, steps))
					return true;
				if (!*at)
					return false;
			}
		}
		if (*p == '*') {
			for (;; s++) {
				if (match(p + 1, s, steps))
					return true;
				if (!*s || *s == '/')
					return false;
			}
		}
		if (!*s)
			return false;
		if (*p == '[') {
			bool in;
			p = match_set(p + 1, *s, &in) - 1;
			if (!in || *s == '/')
				return false;
			continue;
		}
		if (*p == '\\' && p[1])
			p++;
		else if (*p == '?' && *s != '/')
			continue;
		if (*p != *s)
			return false;
	}
	return false;
}

bool ignore_has(const struct ignore *i, const char *path)
{
	bool ignored = false;
	for (size_t k = 0; k < i->n; k++) {
		bool back = i->v[k][0] == '!';
		int steps = 0;
		if (ignored == back && match(i->v[k] + back, path, &steps))
			ignored = !back;
	}
	return ignored;
}

bool ignore_has_exceptions(const struct ignore *i)
{
	for (size_t k = 0; k < i->n; k++)
		if (i->v[k][0] == '!')
			return true;
	return false;
}
