/*
 * Patterns of ${NAME#pattern}, ${NAME%pattern} and ${NAME/pattern/value}. Value and pattern are a client's: both are
 * short (DOCKERFILE_PATTERN_MAX), and a match takes their product in steps at most.
 */
#include "images/dockerfile_impl.h"

/* One place of the pattern: how many bytes it has (0 at the end), and whether it fits c. */
static size_t fits(struct str pattern, char c, bool *ret)
{
	bool escaped = pattern.n > 1 && pattern.p[0] == '\\';
	*ret = pattern.n && (escaped ? pattern.p[1] == c : pattern.p[0] == '?' || pattern.p[0] == c);
	return !pattern.n ? 0 : escaped ? 2 : 1;
}

static bool matches(struct str value, struct str pattern)
{
	struct str star = STR_NULL,
		   behind = STR_NULL; /* the last '*': the pattern after it, and where it ends so far */
	while (value.n) {
		bool ok;
		if (pattern.n && pattern.p[0] == '*') {
			star = pattern = str_skip(pattern, 1);
			behind = value;
			continue;
		}
		size_t n = fits(pattern, value.p[0], &ok);
		if (ok) {
			pattern = str_skip(pattern, n);
			value = str_skip(value, 1);
		} else if (behind.p) {
			behind = value = str_skip(behind, 1);
			pattern = star;
		} else {
			return false;
		}
	}
	while (pattern.n && pattern.p[0] == '*')
		pattern = str_skip(pattern, 1);
	return !pattern.n;
}

struct str pattern_cut_begin(struct str value, struct str pattern, bool longest)
{
	for (size_t i = 0; i <= value.n; i++) {
		size_t n = longest ? value.n - i : i;
		if (matches(str_n(value.p, n), pattern))
			return str_skip(value, n);
	}
	return value;
}

struct str pattern_cut_end(struct str value, struct str pattern, bool longest)
{
	for (size_t i = 0; i <= value.n; i++) {
		size_t n = longest ? i : value.n - i;
		if (matches(str_skip(value, n), pattern))
			return str_n(value.p, n);
	}
	return value;
}

void pattern_replace(struct str value, struct str pattern, struct str by, bool all, struct buf *ret)
{
	bool done = !pattern.n;
	while (value.n) {
		size_t n = done ? 0 : value.n;
		while (n && !matches(str_n(value.p, n), pattern))
			n--;
		buf_add_str(ret, n ? by : str_n(value.p, 1));
		done = done || (n && !all);
		value = str_skip(value, n ? n : 1);
	}
}
