/*
 * plain.h - commands that need no shell.
 *
 * Starting bash costs 1.3 ms; executing a program directly costs 0.8 ms, of which its own dynamic linking is 0.6. Most
 * commands that applications send are a program and its arguments: a shell would only split them at blanks. Such a
 * command is executed directly when the outcome cannot differ from bash's:
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
 * The program also gets the variables that bash would set (PWD, SHLVL, _). A program that cannot be executed directly
 * (a script without "#!", no permission, vanished) is left to bash, which words the error. A session remembers the exit
 * status of its last direct command and gives it to its shell as $? when it starts one.
 */
#pragma once

#include "agent/env.h"

enum { PLAIN_WORDS_MAX = 64 };

struct plain {
	char *mem; /* the words, NUL-terminated */
	const char *argv[PLAIN_WORDS_MAX + 1];
	char *path; /* the program that argv[0] names */
};

/* True when `command` can be executed directly under `env`; then the caller frees *ret. */
bool plain_command(struct str command, const struct env *env, struct plain *ret);
void plain_free(struct plain *p);

/* Finds "name" as bash would: the first executable regular file in PATH, or NULL. Only absolute directories count. NULL
 * also where the search would wait for a FUSE server. */
char *plain_find(const char *name, const char *path);
/* What spawn is given for the program `name`: the name itself when it has a '/', or the program in PATH of `env`; NULL:
 * there is none. Where the search would wait for a FUSE server, the name: the child goes on with the search. */
char *plain_program(const char *name, const struct env *env);
