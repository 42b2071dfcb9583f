/*
 * exec.h - shared by `exec` and `run`: one command with the streams of this program.
 */
#pragma once

#include "cli/stream/stream.h"

/* Runs the command and prints its result. Returns the exit code of the program. */
int exec_command(struct client *cl, const struct stream_request *rq);
/* The same in the shell of a session; the output comes when the command has ended. */
int exec_in_session(struct client *cl, const struct stream_request *rq, const char *session);
/* A background process. */
struct exec_background {
	const char *session, *name; /* or NULL */
	bool service, keep_alive;
};
/* Starts the command as a background process and prints its name. */
int exec_detached(struct client *cl, const struct stream_request *rq, const struct exec_background *bg);
/* The words as text for a shell: one word is unchanged, several words are quoted. */
void exec_quote(struct buf *to, char **argv);
/* True when all words are K=V with a valid name; else prints the error and sets *ret_code. */
bool exec_check_env(struct cli *c, const struct arg_list *env, int *ret_code);
/* True when all words are UTF-8, as JSON needs; else prints the error and sets *ret_code. */
bool exec_check_command(struct cli *c, char **command, int *ret_code);
