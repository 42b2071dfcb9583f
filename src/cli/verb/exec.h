/*
 * exec.h - the part that `exec` and `run` share: one command with the streams of this program.
 */
#pragma once

#include "cli/verb/stream.h"

/* Runs it and prints what the verb prints. Returns the exit code of the program. */
int exec_command(struct client *cl, const struct stream_request *rq);
/* The same in the shell of a session; what it printed comes when it has ended. */
int exec_in_session(struct client *cl, const struct stream_request *rq, const char *session);
/* Starts it as a background process (`session` may be NULL) and prints its name. */
int exec_detached(struct client *cl, const struct stream_request *rq, const char *session, const char *name);
/* The words as text for a shell: one word is taken as it is, several are quoted. */
void exec_quote(struct buf *to, char **argv);
/* K=V with a name that is one; prints the error otherwise and sets *ret_code. */
bool exec_check_env(struct cli *c, const struct arg_list *env, int *ret_code);
/* Words that JSON cannot carry are refused, not changed on the way. */
bool exec_check_command(struct cli *c, char **command, int *ret_code);
