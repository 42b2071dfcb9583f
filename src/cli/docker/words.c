#include "cli/docker/words.h"

#include <stdio.h>
#include <string.h>

bool option_is(const struct option *o, const char *name)
{
	return strcspn(o->name, "=") == strlen(name) && strncmp(o->name, name, strlen(name)) == 0;
}

const char *words_value(const struct command_words *w, const char *name)
{
	for (size_t i = w->options_n; i-- > 0;)
		if (option_is(&w->options[i], name))
			return w->options[i].value;
	return NULL;
}

bool words_have(const struct command_words *w, const char *name, const char *longer)
{
	return words_value(w, name) || words_value(w, longer);
}

bool words_list_has(const char *names, const char *word)
{
	char whole[40];
	int n = snprintf(whole, sizeof whole, " %.*s ", (int)strcspn(word, "="), word);
	return n < (int)sizeof whole && strstr(names, whole);
}

/* "-aq": switches of one letter each. */
static bool is_group(const char *switches, const char *word)
{
	char one[3] = "-";
	if (word[1] == '-' || !word[2])
		return false;
	for (const char *p = word + 1; *p; p++) {
		one[1] = *p;
		if (!words_list_has(switches, one))
			return false;
	}
	return true;
}

static void add(struct command_words *w, const char *name, const char *value)
{
	if (w->options_n < WORDS_MAX)
		w->options[w->options_n++] = (struct option){name, value};
}

static void add_group(struct command_words *w, const char *word)
{
	static char letters[128][3];
	for (const char *p = word + 1; *p; p++) {
		char *one = letters[*p & 127];
		one[0] = '-';
		one[1] = *p;
		add(w, one, "");
	}
}

static enum words_result wrong(char *why, size_t size, const char *what, const char *word)
{
	snprintf(why, size, "%s '%.100s'", what, word);
	return WORDS_WRONG;
}

enum words_result words_read(struct command_words *w, int argc, char **argv, const char *switches, const char *valued,
	char *why, size_t why_size)
{
	bool flags = true;
	if (argc > WORDS_MAX)
		return wrong(why, why_size, "too many words, from", argv[WORDS_MAX]);
	for (int i = 0; i < argc; i++) {
		const char *a = argv[i], *equals = strchr(a, '=');
		if (!flags || a[0] != '-' || !a[1]) {
			w->v[w->n++] = a;
		} else if (strcmp(a, "--") == 0) {
			flags = false;
		} else if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
			return WORDS_HELP;
		} else if (words_list_has(switches, a)) {
			add(w, a, equals ? equals + 1 : "");
		} else if (is_group(switches, a)) {
			add_group(w, a);
		} else if (!words_list_has(valued, a)) {
			return wrong(why, why_size, "unknown flag", a);
		} else if (!equals && i + 1 >= argc) {
			return wrong(why, why_size, "a value is missing behind", a);
		} else {
			add(w, a, equals ? equals + 1 : argv[++i]);
		}
	}
	return WORDS_OK;
}
