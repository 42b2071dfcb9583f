/*
 * listen.h - the sockets that atolld serves on: inherited from a supervisor, or bound here (docs/design/004-daemon.md).
 */
#pragma once

#include "daemon/config.h"
#include "proto/errc.h"

enum { LISTEN_MAX = 8 };

/* How a connection is told apart: the tag of http_server_listen. */
enum listen_tag {
	LISTEN_TCP,
	LISTEN_UNIX,
	LISTEN_DOCKER,	 /* $ATOLL_RUN/docker.sock */
	LISTEN_HOOK,	 /* the gate's, for outbound handlers: hooks.h. Passed with the name "hook" */
	LISTEN_OWN,	 /* $ATOLL_RUN/own.sock, for questions of the daemon itself */
	LISTEN_JOB = 16, /* this and all above: connections of a job (storage/image_jobs.h) */
};

struct listeners {
	struct {
		int fd;
		enum listen_tag tag;
	} v[LISTEN_MAX];
	size_t n;
	char address[64]; /* of the first TCP socket, with the port that it really has; "" when there is none */
	bool inherited;
};

/* Takes what LISTEN_FDS passes (only when LISTEN_PID is this process), else binds ATOLL_LISTEN and atoll.sock; the
 * unix sockets are given to `uid` and `gid`. Writes $ATOLL_RUN/listen when it has bound. */
int listen_open(const struct config *c, uid_t uid, gid_t gid, struct listeners *ret, struct err *e);
void listen_close(struct listeners *l);
