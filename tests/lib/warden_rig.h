/*
 * warden_rig.h - a real atoll-warden of one's own for a test: its directories, an empty image, a connection.
 *
 * Everything is in a new directory under /tmp and is removed at the end of the test, also after a failure: cgroups and
 * processes too. Tests that need root or cgroups skip by rig_start when there are none.
 */
#pragma once

#include <sys/types.h>

#include "proto/warden.h"
#include "test.h"

struct rig {
	char dir[64]; /* run/ data/ images/ */
	pid_t pid;
	int log;  /* the warden's stderr */
	int sock; /* connection */
	char instance[32];
	const char *agent; /* NULL: mini-agent */
	const char *data;  /* NULL: dir/data */
	uint64_t seq;
	char last_log[4096];
};

/* Makes directories and image, starts the warden, waits until it is ready, connects. */
void rig_start(struct rig *r);
/* The warden alone: SIGKILL and wait; start and connect again. */
void rig_kill(struct rig *r);
void rig_boot(struct rig *r);
/* SIGTERM, wait, exit code 0. */
void rig_stop(struct rig *r);
/* Starts a warden that is expected to give up; returns its last line. */
const char *rig_refused(struct rig *r);
void rig_make_dirs(struct rig *r);
void rig_connect(struct rig *r);

/* For a box; a create is of the default image. */
struct warden_request rig_request(uint32_t op, const char *id);
/* Sends a request / waits for the reply with that seq (events are kept back for rig_event). */
uint64_t rig_send(struct rig *r, struct warden_request rq);
struct warden_reply rig_wait(struct rig *r, uint64_t seq);
struct warden_reply rig_call(struct rig *r, struct warden_request rq);
struct warden_reply rig_event(struct rig *r);
/* Shorthands; these fail the test when the warden answers with an error. */
struct box_info rig_create(struct rig *r, const char *id);
void rig_destroy(struct rig *r, const char *id, uint32_t flags);
struct box_info rig_inspect(struct rig *r, const char *id);
/* How many boxes WARDEN_LIST names; *ret takes up to `max` of them. */
size_t rig_list(struct rig *r, struct box_info *ret, size_t max);

/* One line to the mini-agent of that box, its answer. NULL when nothing comes within ms. Static memory. */
const char *rig_ask_ms(struct rig *r, uint32_t slot, const char *line, int ms);
const char *rig_ask(struct rig *r, uint32_t slot, const char *line);

/* The traces of boxes and slots outside the warden: cgroup directories, records, sockets, layers. */
struct rig_traces {
	int cgroups, hierarchies, records, sockets, layers, boxes, trash, fds, mounts;
};
struct rig_traces rig_traces(struct rig *r);
/* Once they stay the same for a while: a slot that is being made holds descriptors that it lets go of. */
struct rig_traces rig_traces_steady(struct rig *r);
/* Waits until the traces are those of a warden with a full pool and no box. */
void rig_check_clean(struct rig *r);
/* That, then rig_stop: the end of a test that has destroyed its boxes. */
void rig_stop_clean(struct rig *r);
