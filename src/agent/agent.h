/*
 * agent.h - the agent itself: one per box, with one loop and one thread. In a box the netlink broker is a second thread
 * (proc/netlink.h).
 *
 * Theory of operation. Requests come in over HTTP (request/route.h). One file per API area answers them (api_*.c). Most
 * of them end in commands: programs that are started directly (proc/cmd.h) or run by a session's shell. Every process
 * of the box is a descendant of the agent, or becomes its child when orphaned. SIGCHLD leads to children_reap, which
 * tells the watcher of each process. All callbacks run in the loop's thread; only exec itself blocks it (vfork, 0.1
 * ms). Calls that could wait for a FUSE server of the box are made by other processes (request/aside.h, proc/spawn.h).
 *
 * The agent runs in two ways. In a box the warden executes "atoll-agent init" as PID 1. Its descriptors are: 0 a
 * listening AF_UNIX socket, 1 the box's OOM counter, 3 and 4 the connection to the image's zygote
 * (code/zygote_client.h), 5 a writable procfs that no other process of the box has, 6 a socket with a worker that was
 * started ahead, or nothing (code/warm.h). Alone, "atoll-agent serve" listens
 * on TCP and makes itself the subreaper.
 */
#pragma once

#include "agent/env.h"
#include "base/loop.h"
#include "base/map.h"
#include "http/server/server.h"

/* SANDBOX_VERSION of every box, unless its image or its settings say otherwise: the version of @cloudflare/sandbox
 * whose protocol the agent speaks. */
#define AGENT_PROTOCOL_VERSION "0.12.10"

struct agent {
	struct loop *loop;
	struct http_server *server;
	struct env env;		 /* the environment that every command starts from */
	char *workdir;		 /* where commands start: /workspace, else $HOME, else / */
	char *shell;		 /* bash, or NULL when the image has none */
	bool boxed;		 /* started by a warden: PID 1, AF_UNIX */
	bool stopping;		 /* SIGTERM came */
	bool childless, drained; /* while stopping: all children reaped, all answers sent */
	struct loop_timer stop_timer;
};

/* One per process; set up by main, alive until exit. */
extern struct agent agent;

/* Takes the listening socket. */
int agent_start(int listen_fd, struct err *e);
/* Runs until a signal ends it; returns the exit code. */
int agent_run(void);
/* Reaps all children that have ended, as SIGCHLD does. */
void agent_reap(void);
