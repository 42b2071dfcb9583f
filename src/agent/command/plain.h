/*
 * plain.h - commands that need no shell.
 *
 * Starting bash costs 1.3 ms here, executing a program directly 0.8 ms (of which the program's own dynamic linking is
 * 0.6). Most commands that applications send are a program and its arguments: for those a shell would do nothing but
 * split at blanks. They are executed directly when the outcome cannot differ from bash's:
 *
 *  - every byte is a blank or one of A-Z a-z 0-9 _ - . / : = @ % + , (no quoting, expansion, redirection, operator,
 *    comment, brace, glob, tilde or history character; conservative rather than complete);
 *  - the first word holds no '=' (an assignment) and does not begin with '%' (a job);
 *  - it holds a '/', or it is neither a builtin nor a keyword of bash and is found in a directory of PATH that is
 *    absolute;
 *  - nothing in the environment makes bash itself behave differently (BASH_ENV, SHELLOPTS, BASHOPTS,
 *    POSIXLY_CORRECT), and the session has no shell yet: a function, alias, option, trap, changed directory, limit or
 *    umask lives in a running shell, so before it exists there is none of them.
 *
 * What bash would have put into the environment (PWD, SHLVL, _) is put there too. A program that cannot be executed
 * directly (a script without "#!", no permission, vanished) is left to bash, which has the right words for it. A
 * session remembers the exit status of its last direct command and gives it to the shell as $? when it starts one.
 */
#pragma once

#include "agent/proc/env.h"

enum { PLAIN_WORDS_MAX = 64 };

struct plain {
	char *mem; /* the words, NUL-terminated */
	const char *argv[PLAIN_WORDS_MAX + 1];
	char *path; /* the program that argv[0] names */
};

/* True when `command` can be executed directly under `env`; *ret is then the caller's to free. */
bool plain_command(struct str command, const struct env *env, struct plain *ret);
void plain_free(struct plain *p);

/* "name" as bash would find it: the first executable regular file in PATH, or NULL. Only absolute directories count. */
char *plain_find(const char *name, const char *path);
