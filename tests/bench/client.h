/*
 * client.h - the HTTP client of the benchmark drivers: blocking, one connection, just enough for atolld's own answers.
 *
 * Whatever goes wrong ends the program with a sentence: a benchmark must not time failures. Thread: any, one per
 * client.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLY_MAX = 65536 };

struct client {
	int fd;
	char reply[REPLY_MAX]; /* of the last answer, as far as it was kept */
	size_t len;
};

_Noreturn void die(const char *what, const char *detail);

/* The number that a text says, at most max; ends the program otherwise. */
unsigned number(const char *text, unsigned max);

/* Prints `"name":[us,us,…]`, with a comma unless it is the last. */
void print_samples(const char *name, const uint64_t *us, size_t n, bool last);

/* Where every client connects, and the token it shows. Called once, before the first. */
void client_target(const char *port, const char *token);
void client_connect(struct client *c);
void client_send(struct client *c, const char *method, const char *path, const char *body);

/* The head of a request alone; its body is the caller's to write. */
void client_begin(struct client *c, const char *method, const char *path, size_t body_len);

/* Reads one answer (at most REPLY_MAX) that must be a 2xx and hold the text. */
void client_receive(struct client *c, const char *must_hold);
