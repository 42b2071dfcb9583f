/*
 * agent.h - the agent itself: one per box, one loop, one thread (and in a box the broker's, proc/netlink.h).
 *
 * Theory of operation. Requests come in over HTTP (route.h), are answered by one file per API area (api_*.c), and end
 * in commands: programs started directly (cmd.h) or run by a session's shell. Every process of the box is a descendant
 * of the agent or becomes its child when orphaned; SIGCHLD leads to children_reap, which tells whoever watches. All
 * callbacks run in the loop's thread; nothing blocks it but exec itself (vfork, 0.1 ms).
 *
 * Two ways to live. In a box the warden executes "atoll-agent init": PID 1, a listening AF_UNIX socket as descriptor 0,
 * the box's OOM counter as descriptor 1, the way to the image's zygote as 3 and 4 (code/zygote_client.h), a writable
 * procfs that nobody else has as 5. Alone, "atoll-agent serve" listens on TCP and makes itself the subreaper.
 */
#pragma once

#include "agent/proc/env.h"
#include "base/loop.h"
#include "base/map.h"
#include "http/server/server.h"

struct agent {
	struct loop *loop;
	struct http_server *server;
	struct env env;		 /* what every command starts from */
	char *workdir;		 /* where commands start: /workspace, else $HOME, else / */
	char *shell;		 /* bash, or NULL when the image has none */
	bool boxed;		 /* started by a warden: PID 1, AF_UNIX */
	bool stopping;		 /* SIGTERM came */
	bool childless, drained; /* while stopping: what is done */
	struct loop_timer stop_timer;
};

/* One per process; set up by main, alive until exit. */
extern struct agent agent;

/* Takes the listening socket. */
int agent_start(int listen_fd, struct err *e);
/* Runs until a signal ends it; returns the exit code. */
int agent_run(void);
