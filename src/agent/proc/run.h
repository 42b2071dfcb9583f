/*
 * run.h - from a command line to a running program, for all routes that execute commands.
 *
 * run_spec_read reads a struct run_spec from the JSON of a request. run_start executes it without a session: directly
 * when it is plain (plain.h), else with a fresh `bash -c`.
 */
#pragma once

#include "agent/env.h"
#include "agent/proc/cmd.h"
#include "base/json.h"

struct run_spec {
	char *text;	    /* owned … */
	struct str command; /* … and as a span: not empty, no NUL */
	struct env env;	    /* changes to the box's environment */
	char *cwd;	    /* NULL: the session's directory */
	uint64_t timeout_ms;
	bool has_input;
	struct buf input;
	bool base64; /* answer with base64 instead of text */
};
void run_spec_free(struct run_spec *s);
#define auto_run __attribute__((cleanup(run_spec_free)))

enum { RUN_NO_COMMAND = 1 }; /* the request has an argument vector instead */
/* Reads the members command, env, cwd, timeoutMs, stdin, stdinEncoding, encoding. Copies everything. */
int run_spec_read(const struct json *body, int flags, struct run_spec *ret, struct err *e);

/* Reads a time in ms; a fraction, which JavaScript may send, is rounded up. Leaves *ret as it is when there is no such
 * member. */
int run_read_ms(const struct json *body, const char *key, uint64_t *ret, struct err *e);

/* Moves the content out of *from, which becomes empty. */
struct run_spec run_spec_take(struct run_spec *from);

/* Where a command runs, and its callbacks. */
struct run_place {
	const struct env *env; /* complete */
	const char *cwd;
	const struct cmd_ops *ops;
	void *arg; /* for cmd_arg */
};

/* Starts a command without a session: directly when it is plain, else with bash. *ret_step as cmd_start. */
int run_start(const struct run_spec *s, const struct run_place *at, struct cmd **ret, enum spawn_step *ret_step,
	struct err *e);
/* Starts a command only if it needs no shell. Returns 1 and starts nothing if it needs one, else as run_start. */
int run_start_plain(const struct run_spec *s, const struct run_place *at, struct cmd **ret, enum spawn_step *ret_step,
	struct err *e);
/*
 * Starts a command of a session in an image without bash: sh runs each command anew. The state that the session keeps
 * lies in two files, `state` (exported variables) and `state`.d (the directory). Letters of `mode`: d begins in the
 * kept directory, s keeps the variables, S keeps the directory.
 */
struct run_kept {
	const char *state, *mode;
};
int run_start_kept(const struct run_spec *s, const struct run_place *at, const struct run_kept *kept, struct cmd **ret,
	enum spawn_step *ret_step, struct err *e);
/* True when the image has a /bin/sh. */
bool run_has_sh(void);
/* Starts the program argv[0], which the environment's PATH finds. */
int run_start_argv(const char *const *argv, const struct run_spec *s, const struct run_place *at, struct cmd **ret,
	enum spawn_step *ret_step, struct err *e);
