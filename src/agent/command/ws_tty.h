/*
 * ws_tty.h - a command of /ws/exec on a terminal of its own. One viewer; the command is hung up when it goes.
 */
#pragma once

#include "base/json.h"
#include "http/ws/ws.h"
#include "proto/errc.h"

struct env;
struct ws_tty;

struct ws_tty_spec {
	const char *const *argv;
	const struct env *env;
	const char *cwd;
	const struct json *size; /* {"cols", "rows"}; anything else: 80 × 24 */
};

/* Bytes of the terminal go to `ws` as stream 1, the end as {"type":"exit"}; *owner becomes NULL then. */
int ws_tty_start(struct ws *ws, const struct ws_tty_spec *s, struct ws_tty **owner, struct err *e);
int ws_tty_pid(const struct ws_tty *t);
void ws_tty_input(struct ws_tty *t, struct str bytes);
/* {"type":"resize","cols","rows"} */
void ws_tty_resize(struct ws_tty *t, const struct json *size);
/* The socket takes more. */
void ws_tty_more(struct ws_tty *t);
/* The client has gone: hangs up. NULL is fine. */
void ws_tty_free(struct ws_tty *t);
