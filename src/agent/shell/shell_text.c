#include "agent/shell/shell_text.h"

#include <inttypes.h>

void shell_quote(struct buf *b, struct str s)
{
	buf_add_byte(b, '\'');
	for (size_t at = 0; at < s.n;) {
		struct str rest = str_skip(s, at);
		ssize_t quote = str_index(rest, '\'');
		size_t n = quote < 0 ? rest.n : (size_t)quote;
		buf_add(b, rest.p, n);
		if (quote >= 0)
			buf_add_c(b, "'\\''");
		at += n + (quote >= 0);
	}
	buf_add_byte(b, '\'');
}

static bool entry_sets(const char *entry)
{
	return strchr(entry, '=') != NULL;
}

static struct str entry_name(const char *entry)
{
	struct str value;
	return str_split(str_of(entry), '=', &value);
}

static bool any_unset(const struct env *env)
{
	for (size_t i = 0; env && i < env->n; i++)
		if (!entry_sets(env->v[i]))
			return true;
	return false;
}

static bool any_set(const struct env *env)
{
	for (size_t i = 0; env && i < env->n; i++)
		if (entry_sets(env->v[i]))
			return true;
	return false;
}

/* NAME='value' NAME='value' … with a blank after each. */
static void put_assignments(struct buf *b, const struct env *env)
{
	for (size_t i = 0; env && i < env->n; i++) {
		if (!entry_sets(env->v[i]))
			continue;
		struct str value, name = str_split(str_of(env->v[i]), '=', &value);
		buf_add_str(b, name);
		buf_add_byte(b, '=');
		shell_quote(b, value);
		buf_add_byte(b, ' ');
	}
}

/* Gives $? its old value. As the first part of a && list a failure neither ends the shell under `set -e` nor runs an
 * ERR trap. Without a subshell: a session must answer also where no process can be started any more. */
static void put_status(struct buf *b, int status)
{
	if (status == 1)
		buf_add_c(b, "\\builtin test && \\builtin :;");
	else if (status)
		buf_printf(b, "\\builtin . /proc/self/fd/0 <<<\"\\builtin return %d\" && \\builtin :;", status & 255);
}

static void put_path(struct buf *b, const char *path, int fd)
{
	if (path)
		shell_quote(b, str_of(path));
	else
		buf_printf(b, "/proc/self/fd/%d", fd);
}

/* The command's three streams; the shell's own descriptors are closed meanwhile (bash keeps copies that are
 * close-on-exec), so that nothing the command starts inherits them. */
static void put_redirections(struct buf *b, const struct shell_text *t)
{
	buf_add_c(b, " <");
	shell_quote(b, str_of(t->in ? t->in : "/dev/null"));
	buf_add_c(b, " >|");
	put_path(b, t->out, SHELL_FD_OUT);
	buf_add_c(b, " 2>|");
	put_path(b, t->err, SHELL_FD_ERR);
	for (int fd = SHELL_FD_OUT; fd <= SHELL_FD_SCRIPT; fd++)
		buf_printf(b, " %d>&-", fd);
	if (t->cwd)
		buf_printf(b, " %d>&-", SHELL_FD_BACK);
}

static void put_report(struct buf *b, char letter, uint64_t seq, const char *value)
{
	/* The blank matters: "0>&42" would redirect descriptor 0. */
	buf_printf(b, "\\builtin printf \"%c %" PRIu64 " %%d\\n\" %s >&%d", letter, seq, value, SHELL_FD_CONTROL);
}

/* A trap for SIGINT would run instead of ending the command: the session's trap is put aside while the
 * command runs, unless the command itself uses traps. `trap -p` and `read` go through the script's memory, which bash
 * has read by now: a subshell would cost ten times as much. */
static void put_trap_aside(struct buf *b, const struct shell_text *t)
{
	if (memmem(t->command.p, t->command.n, "trap", 4))
		return;
	buf_printf(b,
		"\\builtin trap -p INT >|/proc/self/fd/%d;"
		"IFS= \\builtin read -rd '' __atoll_undo </proc/self/fd/%d||\\builtin :;"
		"case $__atoll_undo in ?*)__atoll_undo='\\builtin '$__atoll_undo;\\builtin trap - INT;;esac;",
		SHELL_FD_SCRIPT, SHELL_FD_SCRIPT);
}

/* Without job control bash forgets an interrupt that comes while it waits for a child, unless the child dies of it too;
 * the rest of the command would go on. With job control it remembers: SIGINT to the shell and SIGKILL to the children
 * end a command for certain. The price is that the end of a job is told on stderr ("[1]+ Done"), so only commands with
 * a time limit get it, and `jobs` has reported older jobs before. */
static void put_monitor(struct buf *b)
{
	buf_add_c(b, "case $- in *m*);;*)__atoll_undo=$__atoll_undo'\\builtin set +m;';"
		     "\\builtin jobs >/dev/null;\\builtin set -m;esac;");
}

/* Variables that are unset for one command: their declarations are kept until the last line. */
static void put_unsets(struct buf *b, const struct env *env)
{
	if (!any_unset(env))
		return;
	buf_add_c(b, "__atoll_undo=$__atoll_undo");
	for (size_t i = 0; i < env->n; i++)
		if (!entry_sets(env->v[i]))
			buf_printf(b, "\"${%s[@]+${%s[@]@A}}\"$'\\n'", env->v[i], env->v[i]);
	buf_add_c(b, ";\\builtin unset");
	for (size_t i = 0; i < env->n; i++)
		if (!entry_sets(env->v[i]))
			buf_printf(b, " %s", env->v[i]);
	buf_add_byte(b, ';');
}

static bool needs_undo(const struct shell_text *t)
{
	return t->stoppable || any_unset(t->env);
}

/* Variables and the directory of one command live in the scope that `eval` makes for assignments before it: bash drops
 * them at its end, whatever happened inside. (`builtin eval` makes no such scope.) With `command` they are also dropped
 * in POSIX mode, and a function called eval is not meant. */
static void put_scoped(struct buf *script, const struct shell_text *t, const struct buf *body)
{
	if (needs_undo(t))
		buf_add_c(script, "__atoll_undo=;");
	if (t->stoppable)
		put_trap_aside(script, t);
	put_unsets(script, t->env);
	if (t->stoppable)
		put_monitor(script);
	if (!t->cwd && !any_set(t->env)) {
		buf_add_str(script, buf_str(body));
		return;
	}
	if (t->cwd)
		buf_printf(script,
			"{ \\command \\exec %d<.;} 2>/dev/null||\\builtin :;OLDPWD=\"${OLDPWD-}\" PWD=\"${PWD-}\" ",
			SHELL_FD_BACK);
	put_assignments(script, t->env);
	buf_add_c(script, "\\command \\eval ");
	auto_buf struct buf inner = {0};
	if (t->cwd) {
		buf_add_c(&inner, "if \\builtin cd -- ");
		shell_quote(&inner, str_of(t->cwd));
		buf_add_c(&inner, " 2>/dev/null;then ");
	}
	buf_add_str(&inner, buf_str(body));
	if (t->cwd) {
		buf_add_c(&inner, "else ");
		put_report(&inner, 'c', t->seq, "0");
		buf_add_c(&inner, "\nfi\n");
	}
	shell_quote(script, buf_str(&inner));
	buf_add_byte(script, '\n');
}

/* Back to where the session was: by name, so that it keeps its name; else (renamed, deleted, replaced) to the
 * directory itself. */
static void put_way_back(struct buf *b)
{
	buf_printf(b,
		"\\builtin cd -- \"$PWD\" 2>/dev/null&&\\builtin test . -ef /proc/self/fd/%d||"
		"\\builtin cd -P -- /proc/self/fd/%d 2>/dev/null||\\builtin :;\\command \\exec %d<&-;",
		SHELL_FD_BACK, SHELL_FD_BACK, SHELL_FD_BACK);
}

/* The two lines that the shell reads from its input. The second runs whatever became of the first: it undoes
 * changes that were for this command alone, and reports. */
static void put_feed(struct buf *feed, const struct shell_text *t)
{
	buf_printf(feed, "\\builtin . /proc/self/fd/%d\n", SHELL_FD_SCRIPT);
	if (!t->cwd && !needs_undo(t)) {
		put_report(feed, 'e', t->seq, "\"$?\"");
		buf_add_byte(feed, '\n');
		return;
	}
	buf_add_c(feed, "__atoll=$? ");
	if (t->cwd)
		buf_add_c(feed, "OLDPWD=\"${OLDPWD-}\" PWD=\"${PWD-}\" ");
	buf_add_c(feed, "\\command \\eval '");
	if (needs_undo(t))
		buf_add_c(feed, "\\command \\eval \"$__atoll_undo\";\\builtin unset __atoll_undo;");
	if (t->cwd)
		put_way_back(feed);
	put_report(feed, 'e', t->seq, "\"$__atoll\"");
	buf_add_c(feed, "'\n");
}

void shell_text_group(const struct shell_text *t, struct buf *script, struct buf *feed)
{
	auto_buf struct buf body = {0};
	put_status(&body, t->last_status);
	buf_add_c(&body, "{ ");
	buf_add_str(&body, t->command);
	buf_add_c(&body, "\n}");
	put_redirections(&body, t);
	buf_add_byte(&body, '\n');
	put_report(&body, 'd', t->seq, "\"$?\"");
	buf_add_byte(&body, '\n');
	put_scoped(script, t, &body);
	put_feed(feed, t);
}

void shell_text_eval(const struct shell_text *t, struct buf *script, struct buf *feed)
{
	auto_buf struct buf body = {0};
	put_status(&body, t->last_status);
	buf_add_c(&body, "\\eval ");
	shell_quote(&body, t->command);
	put_redirections(&body, t);
	buf_add_byte(&body, '\n');
	put_report(&body, 'd', t->seq, "\"$?\"");
	buf_add_byte(&body, '\n');
	put_scoped(script, t, &body);
	put_feed(feed, t);
}

static void put_exports(struct buf *b, const struct env *env)
{
	if (any_set(env)) {
		buf_add_c(b, "\\builtin export ");
		put_assignments(b, env);
		buf_add_byte(b, ';');
	}
	for (size_t i = 0; env && i < env->n; i++)
		if (!entry_sets(env->v[i]))
			buf_printf(b, "\\builtin unset %.*s;", STR_ARG(entry_name(env->v[i])));
}

/* The text that the process runs in the end, for eval. Its first line puts the three streams in place, so that earlier
 * output of a trap or of `set -x` is dropped. (Not `builtin exec`: bash would undo the redirections.) */
static void put_background_command(struct buf *script, const struct shell_text *t)
{
	auto_buf struct buf text = {0};
	/* A subshell forgets this option, but its BASHOPTS does not. */
	buf_add_c(&text, "case :$BASHOPTS: in *:expand_aliases:*)\\builtin shopt -s expand_aliases;;esac;");
	buf_add_c(&text, "\\command \\exec");
	for (int fd = 0; fd <= 2; fd++)
		buf_printf(&text, " %d%c&%d", fd, fd ? '>' : '<', SHELL_FD_STREAMS + fd);
	for (int fd = SHELL_FD_CONTROL; fd <= SHELL_FD_LAST; fd++)
		buf_printf(&text, " %d>&-", fd);
	buf_add_byte(&text, '\n');
	put_status(&text, t->last_status);
	buf_add_str(&text, t->command);
	buf_add_c(script, "\\builtin eval ");
	shell_quote(script, buf_str(&text));
}

/* The process is a grandchild: the subshell between reports its pid and ends, so that the agent inherits it and gets
 * its true wait status. `set -m` gives it a process group of its own and default signals. It must not end before the
 * subshell, which would reap it. So it reads from a pipe that the subshell has open for writing, until the subshell is
 * gone. */
void shell_text_background(const struct shell_text *t, struct buf *script, struct buf *feed)
{
	buf_printf(script, "(\\builtin read -r -u %d __atoll||\\builtin unset __atoll;", SHELL_FD_GO);
	/* Opened for reading as well: the agent may have closed its end by now (the session's shell has ended), and the
	 * process must not die of SIGPIPE for that. */
	buf_printf(script, "\\builtin printf \"g %" PRIu64 " 0\\n\" 1<>/proc/self/fd/%d;", t->seq, SHELL_FD_CONTROL);
	if (t->cwd) {
		buf_add_c(script, "\\builtin cd -- ");
		shell_quote(script, str_of(t->cwd));
		buf_printf(script, " 2>&%d||\\builtin exit 1;", SHELL_FD_STREAMS + 2);
	}
	put_exports(script, t->env);
	put_background_command(script, t);
	buf_printf(script, ") %d>&- %d>&- %d>&- %d</proc/self/fd/%d & ", SHELL_FD_OUT, SHELL_FD_ERR, SHELL_FD_SCRIPT,
		SHELL_FD_GO, SHELL_FD_GO);
	put_report(script, 'p', t->seq, "\"$!\"");
	buf_add_byte(script, '\n');

	buf_printf(feed,
		"(\\builtin set -m;\\builtin mapfile -d \"\" __atoll </proc/self/fd/%d;\\builtin eval \"$__atoll\")",
		SHELL_FD_SCRIPT);
	buf_printf(feed, " %d<>", SHELL_FD_GO);
	shell_quote(feed, str_of(t->go));
	buf_printf(feed, " %d<", SHELL_FD_STREAMS);
	shell_quote(feed, str_of(t->in ? t->in : "/dev/null"));
	buf_printf(feed, " %d>|", SHELL_FD_STREAMS + 1);
	shell_quote(feed, str_of(t->out));
	buf_printf(feed, " %d>|", SHELL_FD_STREAMS + 2);
	shell_quote(feed, str_of(t->err));
	buf_add_byte(feed, '\n');
	put_report(feed, 'e', t->seq, "\"$?\"");
	buf_add_byte(feed, '\n');
}

void shell_text_sync(uint64_t seq, struct buf *feed)
{
	buf_add_byte(feed, '\n');
	put_report(feed, 'y', seq, "0");
	buf_add_byte(feed, '\n');
}
