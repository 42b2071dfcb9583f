/*
 * box.h - shared by `create`, `update`, `run`, `list` and `inspect`: limits as options, a box as JSON and as text.
 */
#pragma once

#include "cli/args.h"
#include "cli/client.h"

/* Zero: not given, the daemon's default. */
struct box_options {
	uint64_t memory, cpu_milli, pids, disk;
	const char *image, *user;
	struct arg_list secrets;
	/* Of create and update. */
	const char *instance, *sleep_after, *network, *backup_every;
	uint64_t backup_keep;
	bool keep_alive, no_keep_alive;
	struct arg_list env, labels; /* K=V */
	struct arg_list volumes;     /* NAME:PATH[:ro] */
};

#define BOX_LIMIT_ROWS(o)                                                                                              \
	{"memory", "SIZE", "memory limit, as in 512m or 2g", ARG_BYTES, &(o)->memory},                                 \
		{"cpus", "N", "CPU limit, as in 1 or 0.5", ARG_CPUS, &(o)->cpu_milli},                                 \
		{"disk", "SIZE", "limit of the files, as in 2g (default: 8g)", ARG_BYTES, &(o)->disk},                 \
	{                                                                                                              \
		"pids", "N", "limit of processes and threads", ARG_COUNT, &(o)->pids                                   \
	}
#define BOX_OPTION_ROWS(o)                                                                                             \
	{"image", "NAME", "image to start from (default: default)", ARG_TEXT, &(o)->image},                            \
		{"user", "USER", "user of its programs (default: the image's)", ARG_TEXT, &(o)->user},                 \
		BOX_LIMIT_ROWS(o)
#define BOX_SETTING_ROWS(o)                                                                                            \
	{"instance", "TYPE", "limits by name: lite, basic, standard-1 … standard-4", ARG_TEXT, &(o)->instance},        \
		{"env", "K=V", "set a variable; may be repeated", ARG_LIST, &(o)->env, 'e'},                           \
		{"label", "K=V", "set a label; may be repeated", ARG_LIST, &(o)->labels, 'l'},                         \
		{"sleep-after", "TIME", "sleep after this time without activity: 30s, 10m, 1h; 0 is never", ARG_TEXT,  \
			&(o)->sleep_after},                                                                            \
		{"secret", "NAME", "secret that it is given; may be repeated", ARG_LIST, &(o)->secrets},               \
		{"volume", "NAME:PATH[:ro]", "volume and its place in the box; may be repeated", ARG_LIST,             \
			&(o)->volumes},                                                                                \
		{"backup-every", "TIME", "back it up by the clock: 30m, 1h; 0 ends it", ARG_TEXT, &(o)->backup_every}, \
		{"backup-keep", "N", "with --backup-every: how many to keep (default: 24)", ARG_COUNT,                 \
			&(o)->backup_keep},                                                                            \
		{"keep-alive", NULL, "never sleep", ARG_FLAG, &(o)->keep_alive},                                       \
		{"no-keep-alive", NULL, "sleep again", ARG_FLAG, &(o)->no_keep_alive},                                 \
	{                                                                                                              \
		"network", "MODE", "open, list or off; net has more", ARG_TEXT, &(o)->network                          \
	}
/* The parts of NAME:PATH[:ro]; false: it is something else. */
bool box_volume_split(const char *text, struct str *ret_name, struct str *ret_path, bool *ret_read_only);
/* open, list or off */
bool box_is_network_mode(const char *text);
/* As in 30s, 10m, 1h or 90: what --sleep-after and --backup-every take. */
bool box_is_time(const char *text);
/* Whether any option was given. */
bool box_options_given(const struct box_options *o);

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
