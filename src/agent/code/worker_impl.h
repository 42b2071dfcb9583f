/*
 * worker_impl.h - inside of worker.h: worker.c has the life of a worker, worker_state.c its states, worker_read.c the
 * frames and the output, worker_text.c the JSON that the agent sends.
 */
#pragma once

#include "agent/code/worker.h"
#include "agent/code/worker_start.h"
#include "agent/code/zygote_client.h"
#include "agent/limits.h"
#include "agent/proc/children.h"
#include "base/buf.h"

/*
 *	STARTING ──▶ ASKING ──▶ JOINING ──▶ RUNNING ──▶ BROKEN ──▶ EXITED ──▶ ENDED
 *
 * A plain start goes from STARTING to RUNNING, a spare (spare.h) from STARTING to JOINING. Until a worker from the
 * zygote, or a spare, has said that it is ready, each failure leads back to STARTING. The whole table is in
 * worker_state.c.
 */
enum worker_state {
	WORKER_STARTING,  /* no process; the runtime's program is about to be started */
	WORKER_ASKING,	  /* no process; the zygote has been asked for one */
	WORKER_JOINING,	  /* a process from the zygote, or a spare, that has not said that it is ready */
	WORKER_RUNNING,	  /* a process: its end is the worker's end */
	WORKER_BROKEN,	  /* the process broke the protocol and was killed; it has not been reaped */
	WORKER_CANCELLED, /* killed before there was a process; on_end is due */
	WORKER_EXITED,	  /* the process has been reaped; the rest of its output is being delivered */
	WORKER_ENDED,	  /* on_end is being called; nothing is open, the loop frees the worker */
	WORKER_STATES
};

/* How far the reader has come with the frame at hand. */
enum worker_part {
	PART_NONE,	  /* nothing of it counts yet */
	PART_PIPES_SEEN,  /* the output that belongs before it is known */
	PART_EVENT_FIRST, /* an event: its head has been read, no piece has been delivered */
	PART_EVENT_REST	  /* an event: some of it has been delivered */
};

struct worker_pipe {
	struct loop_io io;
	int fd;
	size_t left; /* bytes to deliver before the frame at hand */
	struct worker *w;
};

struct worker {
	const struct worker_ops *ops;
	void *arg;
	struct worker_spec spec;
	enum worker_state state; /* changed by worker_move alone */
	struct zygote_call call; /* while ASKING */
	bool preloaded;		 /* the process is a fork of the zygote */
	struct child child;	 /* watched while there is a process */
	pid_t pid;		 /* stays when the process has gone */
	int fd, interrupt_fd;	 /* the second may be -1 */
	uint64_t run;		 /* number of the last run that was sent */

	/* worker_read.c */
	struct loop_io io;
	struct buf in, out;
	struct worker_pipe pipe[2];
	enum worker_part part;
	uint64_t event_left; /* bytes of the event that is being passed through */
	size_t socket_left;  /* once EXITED: bytes that are still in the socket */
	bool closed;	     /* the end of the socket was read */
	bool paused;	     /* by the owner */
	bool stepping;	     /* worker_read is on the stack */
	struct loop_timer closed_timer;

	uint64_t oom_before;
	struct cmd_result end; /* for on_end; its error is set once the protocol was broken */
	struct loop_task step_task, plain_task, cancel_task, free_task;
};

/* worker_state.c */
bool worker_move_allowed(enum worker_state from, enum worker_state to);
/* Changes the state; checks that the move is in the table and that the worker fits its new state. */
void worker_move(struct worker *w, enum worker_state to);

/* worker_read.c */
/* Appends a frame and sends as much as the socket takes. */
void worker_send(struct worker *w, char type, struct str json);
/* Delivers all that can be read, until the worker is paused or ended. */
void worker_read(struct worker *w);
/* The process has been reaped: notes how much it has left in the socket. */
void worker_read_last(struct worker *w);
/* Stops reading, drops all that was read and closes the descriptors. */
void worker_read_reset(struct worker *w);

/* worker.c */
/* The process does not keep to the protocol: kills it, or starts another one while JOINING. */
void worker_broke(struct worker *w, const char *how);
/* The process from the zygote, or the spare, came to nothing: the runtime's program is started instead. */
void worker_restart(struct worker *w);
/* Everything has been delivered: calls on_end. */
void worker_finish(struct worker *w);

/* worker_text.c: the JSON of an init and of a run frame. `env` of a run is a change list. */
void worker_text_init(struct buf *to, const struct worker_spec *s, bool with_env);
void worker_text_run(struct buf *to, uint64_t id, struct str code, const struct env *env);
