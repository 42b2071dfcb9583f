/*
 * exec.h - one command in a container. Internal to exec.c and exec_stream.c.
 *
 * As in Docker a command runs on when its client goes; its output is then read away. Output has frames of eight bytes
 * in front (the stream, three zeros, the length) unless the command has a terminal. The client's half-close ends stdin.
 */
#pragma once

#include "doors/docker/docker.h"
#include "http/ws/ws.h"

enum exec_state { EXEC_CREATED, EXEC_RUNNING, EXEC_ENDED };

struct docker_exec {
	struct list node;
	struct docker *docker;
	uid_t uid;
	char id[65];
	char *container, *box;
	char *request; /* a JSON object for /ws/exec that is not closed yet */
	bool tty, has_input;
	bool streams[3]; /* 1, 2: wanted */
	enum exec_state state;
	int code; /* when it has ended; -1: not known */
	int pid;
	uint16_t cols, rows;	  /* to begin with; 0: not told */
	struct daemon_request *r; /* the client's stream, or NULL */
	struct ws *ws;		  /* the command's, or NULL */
	bool open;		  /* ws takes messages */
	bool input_ended;
	unsigned held;
	bool gone; /* no longer in the table */
};

void exec_hold(struct docker_exec *x);
void exec_release(struct docker_exec *x);

/* ---- exec_stream.c ---- */
/* `root` is {"Detach", "ConsoleSize"}, or NULL. */
void exec_start(struct daemon_request *r, struct docker_exec *x, const struct json *root);
void exec_send_size(struct docker_exec *x, uint16_t cols, uint16_t rows);
