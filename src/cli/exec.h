/*
 * exec.h - the part that `exec` and `run` share: one command with the streams of this program.
 */
#pragma once

#include "cli/stream.h"

/* Runs it and prints what the verb prints. Returns the exit code of the program. */
int exec_command(struct client *cl, const struct stream_request *rq);
/* K=V with a name that is one; prints the error otherwise and sets *ret_code. */
bool exec_check_env(struct cli *c, const struct arg_list *env, int *ret_code);
/* Words that JSON cannot carry are refused, not changed on the way. */
bool exec_check_command(struct cli *c, char **command, int *ret_code);
