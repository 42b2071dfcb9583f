/*
 * completion.c - `atoll completion`: completions for bash, zsh and fish.
 *
 * The completions ask the daemon for names of boxes while the user types. A name may have characters that a shell acts
 * on, so names are always inserted quoted.
 */
#include <stdio.h>
#include <string.h>

#include "cli/describe.h"
#include "cli/verbs.h"

struct describing {
	void (*each)(void *arg, const struct verb *v, const struct arg *table);
	void *arg;
};

static void on_table(struct cli *c, const struct arg *table)
{
	struct describing *d = c->table_arg;
	d->each(d->arg, c->verb, table);
}

void describe_each(void (*each)(void *arg, const struct verb *v, const struct arg *table), void *arg)
{
	struct describing d = {each, arg};
	for (size_t i = 0; i < cli_verbs_count; i++) {
		struct cli c = {.self = "atoll", .verb = &cli_verbs[i], .on_table = on_table, .table_arg = &d};
		cli_verbs[i].run(&c, 0, NULL);
	}
}

/* ---- quoting ---- */

/* Inside single quotes of a POSIX shell. `special` are characters that get a backslash before that. */
static void put_quoted(struct buf *to, const char *text, const char *special)
{
	for (; *text; text++) {
		if (strchr(special, *text))
			buf_add_byte(to, '\\');
		if (*text == '\'')
			buf_add_c(to, "'\\''");
		else
			buf_add_byte(to, *text);
	}
}

/* Inside single quotes of fish, which has two escapes there. */
static void put_fish(struct buf *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			buf_add_byte(to, '\\');
		buf_add_byte(to, *text);
	}
}

/* ---- bash ---- */

static const char *kind_of(const struct verb *v)
{
	static const char *const kinds[] = {[WORDS_NONE] = "none",
		[WORDS_BOX] = "box",
		[WORDS_BOXES] = "boxes",
		[WORDS_BOX_FILES] = "box_files",
		[WORDS_PROCESS] = "process",
		[WORDS_COPY] = "copy",
		[WORDS_SHELLS] = "shells"};
	return kinds[v->words];
}

static void bash_verb(void *arg, const struct verb *v, const struct arg *table)
{
	struct buf *to = arg;
	buf_printf(to, "\t%s)\n\t\tkind=%s\n\t\toptions='--json --help", v->name, kind_of(v));
	for (const struct arg *o = table; o->kind != ARG_END; o++) {
		buf_printf(to, " --%s", o->name);
		if (o->letter)
			buf_printf(to, " -%c", (int)o->letter);
	}
	buf_add_c(to, "'\n\t\tvalues='");
	for (const struct arg *o = table; o->kind != ARG_END; o++) {
		if (o->kind == ARG_FLAG)
			continue;
		buf_printf(to, " --%s", o->name);
		if (o->letter)
			buf_printf(to, " -%c", (int)o->letter);
	}
	buf_add_c(to, " '\n\t\t;;\n");
}

static void put_bash(struct buf *to)
{
	buf_add_c(to, "# bash completion for atoll; made by 'atoll completion bash'\n"
		      "_atoll_add() { # what is read, when it begins as what is typed; quoted\n"
		      "\tlocal word\n"
		      "\twhile IFS= read -r word; do\n"
		      "\t\t[[ $word == \"$cur\"* ]] && COMPREPLY+=(\"$(printf %q \"$word\")$1\")\n"
		      "\tdone\n"
		      "}\n\n"
		      "_atoll() {\n"
		      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
		      "\tlocal kind=none options= values=' ' box= n=0 i\n"
		      "\tCOMPREPLY=()\n"
		      "\tif ((COMP_CWORD == 1)); then\n"
		      "\t\tmapfile -t COMPREPLY < <(compgen -W 'help");
	for (size_t i = 0; i < cli_verbs_count; i++)
		buf_printf(to, " %s", cli_verbs[i].name);
	buf_add_c(to, "' -- \"$cur\")\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]} in\n");
	describe_each(bash_verb, to);
	buf_add_c(to, "\tesac\n"
		      "\tif [[ $values == *\" $prev \"* ]]; then\n"
		      "\t\tcompopt -o default 2>/dev/null\n"
		      "\t\treturn\n"
		      "\tfi\n"
		      "\tif [[ $cur == -* ]]; then\n"
		      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
		      "\t\treturn\n"
		      "\tfi\n"
		      "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
		      "\t\tif [[ $values == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
		      "\t\t\ti=$((i + 1))\n"
		      "\t\telif [[ ${COMP_WORDS[i]} != -* ]]; then\n"
		      "\t\t\tn=$((n + 1))\n"
		      "\t\t\tbox=${box:-${COMP_WORDS[i]}}\n"
		      "\t\tfi\n"
		      "\tdone\n"
		      "\tcase $kind:$n in\n"
		      "\tbox:0 | box_files:0 | process:0 | boxes:*) _atoll_add < <(atoll list -q 2>/dev/null) ;;\n"
		      "\tprocess:*) _atoll_add < <(atoll ps -q \"$box\" 2>/dev/null) ;;\n"
		      "\tcopy:*)\n"
		      "\t\tcompopt -o nospace -o default 2>/dev/null\n"
		      "\t\t_atoll_add : < <(atoll list -q 2>/dev/null)\n"
		      "\t\tmapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\")\n"
		      "\t\t;;\n"
		      "\tshells:0) mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- \"$cur\") ;;\n"
		      "\tbox_files:*) compopt -o default 2>/dev/null ;;\n"
		      "\tesac\n"
		      "}\n"
		      "complete -F _atoll atoll\n");
}

/* ---- zsh ---- */

static void zsh_option(struct buf *to, const struct arg *o)
{
	bool value = o->kind != ARG_FLAG, list = o->kind == ARG_LIST;
	buf_add_c(to, " \\\n\t\t\t'");
	if (list)
		buf_add_c(to, "*");
	else if (o->letter)
		buf_printf(to, "(-%c --%s)", (int)o->letter, o->name);
	if (o->letter)
		buf_printf(to, "'{-%c%s,--%s%s}'", (int)o->letter, value ? "+" : "", o->name, value ? "=" : "");
	else
		buf_printf(to, "--%s%s", o->name, value ? "=" : "");
	buf_add_byte(to, '[');
	put_quoted(to, o->help, "[]:\\");
	buf_add_byte(to, ']');
	if (value) {
		buf_add_byte(to, ':');
		put_quoted(to, o->value, "[]:\\");
		buf_add_c(to, ":_files");
	}
	buf_add_byte(to, '\'');
}

static void zsh_verb(void *arg, const struct verb *v, const struct arg *table)
{
	static const char *const words[] = {[WORDS_NONE] = "",
		[WORDS_BOX] = " '1:box:_atoll_boxes'",
		[WORDS_BOXES] = " '*:box:_atoll_boxes'",
		[WORDS_BOX_FILES] = " '1:box:_atoll_boxes' '*:file:_files'",
		[WORDS_PROCESS] = " '1:box:_atoll_boxes' '*:process:_atoll_processes'",
		[WORDS_COPY] = " '*:file:_atoll_copy'",
		[WORDS_SHELLS] = " '1:shell:(bash zsh fish)'"};
	struct buf *to = arg;
	buf_printf(to, "\t%s)\n\t\t_arguments -s '--json[print JSON for programs]' '(-h --help)'{-h,--help}'[help]'",
		v->name);
	for (const struct arg *o = table; o->kind != ARG_END; o++)
		zsh_option(to, o);
	buf_printf(to, "%s\n\t\t;;\n", words[v->words]);
}

static void put_zsh(struct buf *to)
{
	buf_add_c(to, "#compdef atoll\n"
		      "# zsh completion for atoll; made by 'atoll completion zsh'\n"
		      "_atoll_boxes() {\n"
		      "\tlocal -a ids\n"
		      "\tids=(${(f)\"$(atoll list -q 2>/dev/null)\"})\n"
		      "\tcompadd \"$@\" -a ids\n"
		      "}\n"
		      "_atoll_processes() {\n"
		      "\tlocal -a ids\n"
		      "\tids=(${(f)\"$(atoll ps -q ${(Q)words[2]} 2>/dev/null)\"})\n"
		      "\tcompadd \"$@\" -a ids\n"
		      "}\n"
		      "_atoll_copy() {\n"
		      "\t_atoll_boxes -S :\n"
		      "\t_files\n"
		      "}\n"
		      "_atoll() {\n"
		      "\tlocal -a verbs\n"
		      "\tverbs=(\n\t\t'help:Say more about a verb'\n");
	for (size_t i = 0; i < cli_verbs_count; i++) {
		buf_printf(to, "\t\t'%s:", cli_verbs[i].name);
		put_quoted(to, cli_verbs[i].summary, ":\\");
		buf_add_c(to, "'\n");
	}
	buf_add_c(to, "\t)\n"
		      "\tif ((CURRENT == 2)); then\n"
		      "\t\t_describe verb verbs\n"
		      "\t\treturn\n"
		      "\tfi\n"
		      "\tshift words\n"
		      "\t((CURRENT--))\n"
		      "\tcase $words[1] in\n");
	describe_each(zsh_verb, to);
	buf_add_c(to, "\tesac\n"
		      "}\n"
		      "if [ \"$funcstack[1]\" = _atoll ]; then _atoll \"$@\"; else compdef _atoll atoll; fi\n");
}

/* ---- fish ---- */

static void fish_verb(void *arg, const struct verb *v, const struct arg *table)
{
	struct buf *to = arg;
	buf_printf(to, "complete -c atoll -n __fish_use_subcommand -a %s -d '", v->name);
	put_fish(to, v->summary);
	buf_add_c(to, "'\n");
	for (const struct arg *o = table; o->kind != ARG_END; o++) {
		buf_printf(to, "complete -c atoll -n '__fish_seen_subcommand_from %s' -l %s", v->name, o->name);
		if (o->letter)
			buf_printf(to, " -s %c", (int)o->letter);
		buf_printf(to, "%s -d '", o->kind == ARG_FLAG ? "" : " -r");
		put_fish(to, o->help);
		buf_add_c(to, "'\n");
	}
	if (v->words == WORDS_BOX || v->words == WORDS_BOX_FILES || v->words == WORDS_PROCESS ||
		v->words == WORDS_BOXES)
		buf_printf(to, "complete -c atoll -n '__atoll_at %s %s' -a '(atoll list -q 2>/dev/null)' -d box\n",
			v->name, v->words == WORDS_BOXES ? "any" : "first");
	if (v->words == WORDS_PROCESS)
		buf_printf(to, "complete -c atoll -n '__atoll_at %s later' -a '(__atoll_processes)' -d process\n",
			v->name);
	if (v->words == WORDS_BOX_FILES)
		buf_printf(to, "complete -c atoll -n '__atoll_at %s later' -F\n", v->name);
	if (v->words == WORDS_COPY)
		buf_printf(to,
			"complete -c atoll -n '__atoll_at %s any' -F -a '(atoll list -q 2>/dev/null | string replace "
			"-r \\$ :)' -d box\n",
			v->name);
	if (v->words == WORDS_SHELLS)
		buf_printf(to, "complete -c atoll -n '__atoll_at %s first' -a 'bash zsh fish'\n", v->name);
}

static void put_fish_script(struct buf *to)
{
	buf_add_c(to, "# fish completion for atoll; made by 'atoll completion fish'\n"
		      "function __atoll_words --description 'the words of a verb that are no options'\n"
		      "    set -l all (commandline -opc)\n"
		      "    string match -v -- '-*' $all[3..-1]\n"
		      "end\n"
		      "function __atoll_at --description 'which word of which verb is typed'\n"
		      "    set -l all (commandline -opc)\n"
		      "    test \"$all[2]\" = $argv[1]; or return 1\n"
		      "    set -l n (count (__atoll_words))\n"
		      "    test $argv[2] = any; or begin; test $argv[2] = first; and test $n -eq 0; end; or begin; "
		      "test $argv[2] = later; and test $n -gt 0; end\n"
		      "end\n"
		      "function __atoll_processes\n"
		      "    set -l words (__atoll_words)\n"
		      "    atoll ps -q $words[1] 2>/dev/null\n"
		      "end\n"
		      "complete -c atoll -f\n"
		      "complete -c atoll -n __fish_use_subcommand -a help -d 'Say more about a verb'\n"
		      "complete -c atoll -n 'not __fish_use_subcommand' -l json -d 'print JSON for programs'\n"
		      "complete -c atoll -n 'not __fish_use_subcommand' -s h -l help -d help\n");
	describe_each(fish_verb, to);
}

int verb_completion(struct cli *c, int argc, char **argv)
{
	static const struct arg table[] = {ARG_TABLE_END};
	static const struct {
		const char *name;
		void (*put)(struct buf *to);
	} shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish_script}};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	auto_buf struct buf out = {0};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 1)
		return cli_usage(c, "which shell? Write bash, zsh or fish");
	for (size_t i = 0; i < ARRAY_LEN(shells); i++)
		if (strcmp(shells[i].name, a.words[0]) == 0)
			shells[i].put(&out);
	if (!buf_size(&out))
		return cli_usage(c, "unknown shell '%s': write bash, zsh or fish", a.words[0]);
	cli_print(&out);
	return 0;
}
