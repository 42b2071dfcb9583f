#include "cli/args.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 24 };

/* "12.345" with at most three decimals, in thousandths. */
static bool read_decimal(struct str s, uint64_t *ret)
{
	struct str rest;
	struct str whole = str_split(s, '.', &rest);
	bool has_point = whole.n < s.n;
	uint64_t w = 0, f = 0;
	if (!str_to_u64(whole, UINT64_MAX / 4000, &w) || (has_point && rest.n == 0) || rest.n > 3)
		return false;
	if (has_point && !str_to_u64(rest, 999, &f))
		return false;
	for (size_t i = rest.n; has_point && i < 3; i++)
		f *= 10;
	*ret = w * 1000 + f;
	return true;
}

bool args_read_thousandths(const char *text, uint64_t *ret)
{
	return read_decimal(str_of(text), ret);
}

bool args_read_bytes(const char *text, uint64_t *ret)
{
	struct str s = str_of(text);
	if (s.n && (s.p[s.n - 1] == 'b' || s.p[s.n - 1] == 'B'))
		s.n--;
	if (s.n && (s.p[s.n - 1] == 'i' || s.p[s.n - 1] == 'I'))
		s.n--;
	static const char units[] = "kmgt";
	unsigned shift = 0;
	const char *u = s.n ? strchr(units, s.p[s.n - 1] | 0x20) : NULL;
	if (u && *u) {
		shift = 10 * (unsigned)(u - units + 1);
		s.n--;
	}
	uint64_t milli;
	if (!read_decimal(s, &milli) || milli > UINT64_MAX >> shift || (shift == 0 && milli % 1000))
		return false;
	*ret = (milli << shift) / 1000;
	return true;
}

bool args_read_seconds(const char *text, uint64_t *ret_ms)
{
	struct str s = str_of(text);
	uint64_t factor = 1, milli;
	if (str_ends(s, STR("ms"))) {
		s.n -= 2;
		factor = 0;
	} else if (s.n && strchr("smh", s.p[s.n - 1])) {
		char unit = s.p[--s.n];
		factor = unit == 's' ? 1 : unit == 'm' ? 60 : 3600;
	}
	if (!read_decimal(s, &milli) || milli > UINT64_MAX / 3600 || (factor == 0 && milli % 1000))
		return false;
	*ret_ms = factor ? milli * factor : milli / 1000;
	return true;
}

static void list_add(struct arg_list *l, const char *item)
{
	l->items = xrealloc(l->items, (l->n + 1) * sizeof *l->items);
	l->items[l->n++] = item;
}

static bool arg_store(const struct arg *o, const char *value)
{
	switch (o->kind) {
	case ARG_TEXT:
		*(const char **)o->to = value;
		return true;
	case ARG_LIST:
		list_add(o->to, value);
		return true;
	/* 0 is refused: it stands for an option that was not given. */
	case ARG_BYTES:
		return args_read_bytes(value, o->to) && *(uint64_t *)o->to;
	case ARG_CPUS:
		return args_read_thousandths(value, o->to) && *(uint64_t *)o->to;
	case ARG_COUNT:
		return str_to_u64(str_of(value), UINT32_MAX, o->to) && *(uint64_t *)o->to;
	case ARG_SECONDS:
		return args_read_seconds(value, o->to);
	case ARG_FLAG:
	case ARG_END:
		break;
	}
	return false;
}

static const char *const kind_examples[] = {
	[ARG_BYTES] = "512m or 2g",
	[ARG_CPUS] = "1 or 0.5",
	[ARG_COUNT] = "256",
	[ARG_SECONDS] = "30, 0.5 or 2m",
};

static void print_option(long letter, const char *name, const char *value, const char *help)
{
	char dash[] = {'-', (char)letter, ',', ' ', 0};
	int n = printf("  %s--%s%s%s", letter ? dash : "", name, value ? " " : "", value ? value : "");
	printf("%*s%s\n", n < HELP_COLUMN ? HELP_COLUMN - n : 2, "", help);
}

static void print_examples(const char *text)
{
	printf("\nExamples:\n");
	while (*text) {
		size_t n = strcspn(text, "\n");
		printf("  %.*s\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
}

static void print_help(const struct cli *c, const struct arg *table)
{
	printf("Usage: atoll %s%s%s\n\n%s.\n\n", c->verb->name, *c->verb->usage ? " " : "", c->verb->usage,
		c->verb->summary);
	for (const struct arg *o = table; o->kind != ARG_END; o++)
		print_option(o->letter, o->name, o->value, o->help);
	print_option(0, "json", NULL, "print JSON for programs");
	print_option('h', "help", NULL, "this text");
	if (*c->verb->help)
		printf("\n%s\n", c->verb->help);
	if (c->verb->examples)
		print_examples(c->verb->examples);
}

static const char *option_name(void *arg, size_t i)
{
	const struct arg *table = arg;
	size_t n = 0;
	while (table[n].kind != ARG_END)
		n++;
	static const char *const common[] = {"json", "help"};
	return i < n ? table[i].name : i - n < ARRAY_LEN(common) ? common[i - n] : NULL;
}

/* The usage of the verb has it as a word of its own. */
static bool is_word_of_usage(const struct cli *c, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = c->verb->usage; islower((unsigned char)*name) && (at = strstr(at, name)); at += n)
		if ((at == c->verb->usage || strchr(" [|", at[-1])) && strchr(" ]|", at[n]))
			return true;
	return false;
}

static int unknown_option(struct cli *c, const struct arg *table, const char *word)
{
	if (strncmp(word, "--", 2) == 0 && is_word_of_usage(c, word + 2))
		return cli_usage(c, "unknown option '%s'; write '%s', without dashes", word, word + 2);
	const char *near = strncmp(word, "--", 2) == 0 ? cli_nearest(word + 2, option_name, (void *)table) : NULL;
	if (near)
		return cli_usage(c, "unknown option '%s'; did you mean '--%s'?", word, near);
	return cli_usage(c, "unknown option '%s'", word);
}

static const struct arg *find_option(const struct arg *table, struct str name)
{
	for (; table->kind != ARG_END; table++)
		if (str_eq_c(name, table->name))
			return table;
	return NULL;
}

static const struct arg *find_letter(const struct arg *table, char letter)
{
	for (; table->kind != ARG_END; table++)
		if (table->letter && table->letter == letter)
			return table;
	return NULL;
}

static bool store_value(struct cli *c, const struct arg *o, const char *text, int *ret_code)
{
	if (arg_store(o, text))
		return true;
	*ret_code = cli_usage(c, "--%s cannot be '%s'; write for example %s", o->name, text, kind_examples[o->kind]);
	return false;
}

/* "-la", "-n5", "-n 5": letters of flags, the last one may take a value. */
static bool parse_letters(struct cli *c, const struct arg *table, int argc, char **argv, int *i, int *ret_code)
{
	const char *word = argv[*i];
	for (const char *p = word + 1; *p; p++) {
		const struct arg *o = find_letter(table, *p);
		if (!o) {
			*ret_code = unknown_option(c, table, word);
			return false;
		}
		if (o->kind == ARG_FLAG) {
			*(bool *)o->to = true;
			continue;
		}
		if (!p[1] && *i + 1 >= argc) {
			*ret_code = cli_usage(c, "-%c needs a value: -%c %s", *p, *p, o->value);
			return false;
		}
		return store_value(c, o, p[1] ? p + 1 : argv[++*i], ret_code);
	}
	return true;
}

/* Takes one word that begins with '-', and its value if that is the next word (moves *i). False: *ret_code is set. */
static bool parse_option(struct cli *c, const struct arg *table, int argc, char **argv, int *i, int *ret_code)
{
	const char *word = argv[*i];
	if (word[1] != '-')
		return parse_letters(c, table, argc, argv, i, ret_code);
	struct str value, name = str_split(str_of(word + 2), '=', &value);
	bool joined = strchr(word, '=') != NULL;
	const struct arg *o = find_option(table, name);
	if (!o) {
		*ret_code = unknown_option(c, table, word);
		return false;
	}
	if (o->kind == ARG_FLAG) {
		if (joined)
			*ret_code = cli_usage(c, "--%s takes no value", o->name);
		else
			*(bool *)o->to = true;
		return !joined;
	}
	if (!joined && *i + 1 >= argc) {
		*ret_code = cli_usage(c, "--%s needs a value: --%s %s", o->name, o->name, o->value);
		return false;
	}
	return store_value(c, o, joined ? value.p : argv[++*i], ret_code);
}

/* Looks for --json anywhere before the command, so that errors in other options are printed as JSON too. */
static bool is_common(struct cli *c, const struct arg *table, const char *word, bool *ret_help)
{
	if (strcmp(word, "--json") == 0 && !find_option(table, STR("json")))
		c->json = true;
	else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		*ret_help = true;
	else
		return false;
	return true;
}

bool args_parse(struct cli *c, const struct arg *table, int argc, char **argv, struct args *a, int *ret_code)
{
	if (c->on_table) {
		c->on_table(c, table);
		*ret_code = 0;
		return false;
	}
	a->words = xcalloc((size_t)argc + 1, sizeof *a->words);
	a->n = 0;
	int i = 0;
	for (; i < argc; i++) {
		bool help = false;
		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		if (is_common(c, table, argv[i], &help)) {
			if (help) {
				print_help(c, table);
				*ret_code = 0;
				return false;
			}
		} else if (argv[i][0] == '-' && argv[i][1]) {
			if (!parse_option(c, table, argc, argv, &i, ret_code))
				return false;
		} else if (a->n == a->command_after) {
			break;
		} else {
			a->words[a->n++] = argv[i];
		}
	}
	if (a->command_after == ARGS_NO_COMMAND)
		while (i < argc)
			a->words[a->n++] = argv[i++];
	a->command = argv + i;
	return true;
}

bool args_parse_none(struct cli *c, int argc, char **argv, int *ret_code)
{
	static const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	if (!args_parse(c, table, argc, argv, &a, ret_code))
		return false;
	if (a.n)
		*ret_code = cli_usage(c, "'%s' is one word too many: %s takes no words", a.words[0], c->verb->name);
	return a.n == 0;
}

/* "box:/path" is for cp alone. */
static bool is_box_and_path(const char *word, int *ret_id_len)
{
	const char *colon = strstr(word, ":/");
	*ret_id_len = colon ? (int)(colon - word) : 0;
	return *ret_id_len > 0;
}

bool args_box(struct cli *c, const struct args *a, int max, const char **ret_id, int *ret_code)
{
	int id_len = 0;
	bool both = a->n >= 1 && is_box_and_path(a->words[0], &id_len);
	bool ok = a->n >= 1 && *a->words[0] && a->n <= max && !both;
	if (both)
		*ret_code = cli_usage(c, "'%s' is no box; write '%.*s %s'", a->words[0], id_len, a->words[0],
			a->words[0] + id_len + 1);
	else if (!ok && a->n > max)
		*ret_code = cli_usage(c, "'%s' is one word too many", a->words[max]);
	else if (!ok)
		*ret_code = cli_usage(c, "which box? '%s list' lists all boxes", c->self);
	else
		*ret_id = a->words[0];
	return ok;
}

bool args_parse_box(struct cli *c, int argc, char **argv, int max, struct args *ret, int *ret_code)
{
	const char *id;
	static const struct arg table[] = {ARG_TABLE_END};
	*ret = (struct args){.command_after = ARGS_NO_COMMAND};
	return args_parse(c, table, argc, argv, ret, ret_code) && args_box(c, ret, max, &id, ret_code);
}
