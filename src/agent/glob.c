#include "agent/glob.h"

/*
 * The classic two-pointer matcher with one restart point per star kind: a failed match after '*' goes back to the last
 * '*' (which may not cross '/'), and when that is exhausted to the last '**' (which may).
 */
struct restart {
	size_t pattern, text; /* where to go on: behind the star, and one further in the text each time */
	bool set;
};

static bool is_deep(struct str pattern, size_t i)
{
	return i + 1 < pattern.n && pattern.p[i] == '*' && pattern.p[i + 1] == '*';
}

/* Behind a "**" (and the '/' that follows it: "**" also stands for no directory at all). */
static size_t behind_deep(struct str pattern, size_t i)
{
	while (i < pattern.n && pattern.p[i] == '*')
		i++;
	return i < pattern.n && pattern.p[i] == '/' ? i + 1 : i;
}

/* A deep star that takes whole directories may only stop at the start of a name. */
static bool deep_stops_here(struct str pattern, const struct restart *deep, struct str text)
{
	bool whole_names = deep->pattern > 0 && pattern.p[deep->pattern - 1] == '/';
	return !whole_names || deep->text == 0 || text.p[deep->text - 1] == '/';
}

static bool take_restart(
	struct str pattern, struct str text, struct restart *star, struct restart *deep, size_t *i, size_t *j)
{
	if (star->set && star->text < text.n && text.p[star->text] != '/') {
		*i = star->pattern;
		*j = ++star->text;
		return true;
	}
	star->set = false;
	while (deep->set && deep->text < text.n) {
		deep->text++;
		if (!deep_stops_here(pattern, deep, text))
			continue;
		*i = deep->pattern;
		*j = deep->text;
		return true;
	}
	return false;
}

static bool match(struct str pattern, struct str text)
{
	struct restart star = {0}, deep = {0};
	size_t i = 0, j = 0;
	while (j < text.n || i < pattern.n) {
		if (i < pattern.n && is_deep(pattern, i)) {
			i = behind_deep(pattern, i);
			deep = (struct restart){i, j, true};
			star.set = false;
			continue;
		}
		if (i < pattern.n && pattern.p[i] == '*') {
			star = (struct restart){++i, j, true};
			continue;
		}
		if (i < pattern.n && j < text.n &&
			(pattern.p[i] == text.p[j] || (pattern.p[i] == '?' && text.p[j] != '/'))) {
			i++;
			j++;
			continue;
		}
		if (!take_restart(pattern, text, &star, &deep, &i, &j))
			return false;
	}
	return true;
}

bool glob_match(struct str pattern, struct str path)
{
	if (str_index(pattern, '/') >= 0)
		return match(pattern, path);
	for (struct str rest = path; rest.n;)
		if (match(pattern, str_split(rest, '/', &rest)))
			return true;
	return false;
}
