/*
 * zygote_client.h - asks the image's zygote for Python workers (proto/zygote.h, docs/design/008-interpreter.md).
 *
 * A request is a number. The answer is a refusal, or brings the descriptors of a Python worker that is already in this
 * box and a child of the agent. There may be no zygote at all (alone, no python3, not ready yet, the warden was
 * restarted): then every request fails, at the latest after ZYGOTE_WAIT, and the caller starts the worker plainly.
 * Thread: the loop's.
 */
#pragma once

#include "agent/code/worker_start.h"
#include "agent/limits.h"
#include "base/list.h"

/* Takes both descriptors: 3 and 4 of a box's first process; -1 where there is none. */
void zygote_init(int reply_fd, int ask_fd);
bool zygote_there(void);
/* Tells the warden a number of proto/warm.h. It gives no answer. */
void zygote_note(uint32_t number);

struct zygote_call;
typedef void (*zygote_on_answer)(struct zygote_call *c, pid_t pid, struct worker_fds fds);

struct zygote_call {
	struct list node;
	uint32_t serial;
	bool own; /* asked of the box's own */
	struct loop_timer timer;
	/* Called once. pid 0: refused. The callee owns the descriptors. */
	zygote_on_answer on_answer;
};

/* False: there is no zygote to ask. */
bool zygote_ask(struct zygote_call *c, zygote_on_answer on_answer);
/* The same of the box's own zygote (nursery.h), which has said that it is ready. */
bool zygote_ask_own(struct zygote_call *c, zygote_on_answer on_answer);
bool zygote_own_ready(void);
/* Takes both descriptors. */
void zygote_own_open(int reply, int ask_end);
void zygote_own_close(void);
/* No answer is wanted any more. Safe when no request waits. */
void zygote_forget(struct zygote_call *c);
