/*
 * Watch patterns: the linear matcher and a plain recursive one, written from the description in glob.h, say the same.
 * Input: the pattern, a line feed, the path.
 */
#include "agent/watch/glob.h"
#include "fuzz.h"

enum { LONGEST = 24 }; /* the recursive one takes exponential time */

static bool plain_match(struct str p, struct str t);

/* Behind a "**": it stands for any text, or, when a '/' follows, for any number of whole names. */
static bool deep_match(struct str p, struct str t)
{
	while (p.n && p.p[0] == '*')
		p = str_skip(p, 1);
	bool whole_names = p.n && p.p[0] == '/';
	p = str_skip(p, whole_names ? 1 : 0);
	for (size_t i = 0; i <= t.n; i++) {
		bool stops = !whole_names || i == 0 || t.p[i - 1] == '/';
		if (stops && plain_match(p, str_skip(t, i)))
			return true;
	}
	return false;
}

static bool star_match(struct str p, struct str t)
{
	for (size_t i = 0; i <= t.n; i++) {
		if (plain_match(p, str_skip(t, i)))
			return true;
		if (i < t.n && t.p[i] == '/')
			return false;
	}
	return false;
}

static bool plain_match(struct str p, struct str t)
{
	if (!p.n)
		return !t.n;
	if (p.p[0] == '*')
		return p.n > 1 && p.p[1] == '*' ? deep_match(p, t) : star_match(str_skip(p, 1), t);
	if (!t.n || (p.p[0] == '?' ? t.p[0] == '/' : p.p[0] != t.p[0]))
		return false;
	return plain_match(str_skip(p, 1), str_skip(t, 1));
}

/* Any whole names in a row. */
static bool expected(struct str pattern, struct str path)
{
	for (size_t from = 0; from <= path.n; from++) {
		if (from && path.p[from - 1] != '/')
			continue;
		for (size_t to = from; to <= path.n; to++)
			if ((to == path.n || path.p[to] == '/') &&
				plain_match(pattern, str_n(path.p + from, to - from)))
				return pattern.n > 0;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str path, pattern = str_split(str_n(data, size), '\n', &path);
	bool got = glob_match(pattern, path);
	if (pattern.n <= LONGEST && path.n <= LONGEST)
		MUST(got == expected(pattern, path));
	return 0;
}
