#include "agent/watch/glob.h"

#include "agent/limits.h"

/*
 * The pattern is read once, from left to right. reach[j] says that the part read so far matches some names of the text
 * that end at byte j; each further part of the pattern turns that row into the next, in place.
 */

static void read_literal(bool *reach, struct str text, char c)
{
	for (size_t j = text.n; j > 0; j--)
		reach[j] = reach[j - 1] && (c == '?' ? text.p[j - 1] != '/' : c == text.p[j - 1]);
	reach[0] = false;
}

static void read_star(bool *reach, struct str text)
{
	for (size_t j = 1; j <= text.n; j++)
		reach[j] |= reach[j - 1] && text.p[j - 1] != '/';
}

/* "**" with a '/' behind it matches whole names only, or nothing. */
static void read_deep(bool *reach, struct str text, bool whole_names)
{
	bool before = reach[0];
	for (size_t j = 1; j <= text.n; j++) {
		bool here = reach[j];
		reach[j] |= before && (!whole_names || text.p[j - 1] == '/');
		before |= here;
	}
}

static void read_pattern(bool *reach, struct str pattern, struct str text)
{
	for (size_t i = 0; i < pattern.n;) {
		size_t stars = 0;
		while (i + stars < pattern.n && pattern.p[i + stars] == '*')
			stars++;
		bool whole_names = stars > 1 && i + stars < pattern.n && pattern.p[i + stars] == '/';
		if (stars == 0)
			read_literal(reach, text, pattern.p[i]);
		else if (stars == 1)
			read_star(reach, text);
		else
			read_deep(reach, text, whole_names);
		i += stars ? stars + whole_names : 1;
	}
}

bool glob_match(struct str pattern, struct str path)
{
	bool reach[GLOB_TEXT_MAX + 1];
	if (!pattern.n || path.n > GLOB_TEXT_MAX)
		return false;
	for (size_t j = 0; j <= path.n; j++)
		reach[j] = j == 0 || path.p[j - 1] == '/';
	read_pattern(reach, pattern, path);
	for (size_t j = 0; j < path.n; j++)
		if (reach[j] && path.p[j] == '/')
			return true;
	return reach[path.n];
}
