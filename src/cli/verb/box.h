/*
 * box.h - shared by `create`, `run`, `list` and `inspect`: limits as options, a box as JSON and as text.
 */
#pragma once

#include "cli/args.h"
#include "cli/client.h"

/* Zero: not given, the daemon's default. */
struct box_options {
	uint64_t memory, cpu_milli, pids, disk;
	const char *image;
};

#define BOX_OPTION_ROWS(o)                                                                                             \
	{"image", "NAME", "image to start from (default: default)", ARG_TEXT, &(o)->image},                            \
		{"memory", "SIZE", "memory limit, as in 512m or 2g", ARG_BYTES, &(o)->memory},                         \
		{"cpus", "N", "CPU limit, as in 1 or 0.5", ARG_CPUS, &(o)->cpu_milli},                                 \
		{"disk", "SIZE", "limit of the files, as in 2g (default: 8g)", ARG_BYTES, &(o)->disk},                 \
	{                                                                                                              \
		"pids", "N", "limit of processes and threads", ARG_COUNT, &(o)->pids                                   \
	}

/* PUT: makes the box, or changes an existing one. Returns the status (201: made) or -1; *ret_body is the answer. */
int box_put(struct client *cl, const char *id, const struct box_options *o, struct buf *ret_body, struct err *e);
int box_delete(struct client *cl, const char *id, struct err *e);

/* Every box of the daemon, page by page, sorted by id. The node lives during the call; -1 with *e stops. */
typedef int (*box_on_each)(void *arg, const struct json *box, struct err *e);
int box_each(struct client *cl, box_on_each each, void *arg, struct err *e);

/* "512 MiB" */
const char *box_size_text(uint64_t bytes, char ret[24]);
/* "3 min", from an ISO timestamp until now; "" when `iso` is not one. */
const char *box_age_text(struct str iso, char ret[24]);
