/*
 * driver.c - the timed loops of `make bench`. tests/bench/bench.py prepares everything, runs this and draws the table.
 *
 *	driver cold    PORT TOKEN N IDLE_MS -- PEER [ -- PEER ]…   first result of /bin/true in a box that did not exist
 *	driver warm    PORT TOKEN N -- PEER                        the next /bin/true in a living box
 *	driver burst   PORT TOKEN BOXES                            that many boxes at once, each answers one exec
 *	driver sustain PORT TOKEN CYCLES CLIENTS                   create + exec + destroy, over and over
 *	driver fill    PORT TOKEN BOXES                            makes boxes and leaves them
 *
 * A PEER is a command line that is spawned and waited for. Contestants alternate, so that a noisy neighbour on the
 * machine hits all of them. Output: one JSON object with all samples in microseconds. A request that does not come back
 * as 200 with exit code 0, or a peer that does not exit 0, ends the run: a benchmark must not time failures.
 */
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/str.h"
#include "client.h"

enum { PEERS_MAX = 8, PEER_ARGS_MAX = 64 };

extern char **environ;

static void client_exec(struct client *c, const char *id)
{
	char path[128];
	snprintf(path, sizeof path, "/v1/sandboxes/%s/api/execute", id);
	client_send(c, "POST", path, "{\"command\":\"/bin/true\"}");
}

static void client_destroy(struct client *c, const char *id)
{
	char path[128];
	snprintf(path, sizeof path, "/v1/sandboxes/%s", id);
	client_send(c, "DELETE", path, "");
	client_receive(c, "");
}

#define EXEC_OK "\"exitCode\":0"

static void run_peer(char **argv)
{
	if (!argv[0])
		die("peer", "has no command");
	posix_spawn_file_actions_t fa;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	pid_t pid;
	int status, r = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
	if (r)
		die(argv[0], strerror(r));
	waitpid(pid, &status, 0);
	posix_spawn_file_actions_destroy(&fa);
	if (status)
		die(argv[0], "did not exit 0");
}

/* A plain fork, exec and wait: what "the floor" means in the second row. */
static void run_plain(char **argv)
{
	if (!argv[0])
		die("peer", "has no command");
	pid_t pid = fork();
	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	int status;
	waitpid(pid, &status, 0);
	if (status)
		die(argv[0], "did not exit 0");
}

struct peer {
	char *argv[PEER_ARGS_MAX];
	uint64_t *us;
};

static int read_peers(int argc, char **argv, struct peer *peers, size_t samples)
{
	int n = -1, arg = 0;
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			if (++n == PEERS_MAX)
				die("too many peers", argv[i]);
			peers[n].us = xcalloc(samples, sizeof(uint64_t));
			arg = 0;
		} else if (n >= 0 && arg < PEER_ARGS_MAX - 1) {
			peers[n].argv[arg++] = argv[i];
		}
	}
	return n + 1;
}

static void idle(unsigned ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
	nanosleep(&ts, NULL);
}

static void cold(size_t n, unsigned idle_ms, int argc, char **argv)
{
	struct peer peers[PEERS_MAX] = {0};
	int count = read_peers(argc, argv, peers, n);
	uint64_t *first = xcalloc(n, sizeof *first), *gone = xcalloc(n, sizeof *gone);
	struct client *c = xcalloc(1, sizeof *c);
	client_connect(c);
	char id[64];
	for (size_t i = 0; i < n; i++) {
		snprintf(id, sizeof id, "bench-cold-%zu", i);
		idle(idle_ms);
		uint64_t t0 = clock_us();
		client_exec(c, id);
		client_receive(c, EXEC_OK);
		first[i] = clock_us() - t0;
		t0 = clock_us();
		client_destroy(c, id);
		gone[i] = clock_us() - t0;
		for (int p = 0; p < count; p++) {
			idle(idle_ms);
			t0 = clock_us();
			run_peer(peers[p].argv);
			peers[p].us[i] = clock_us() - t0;
		}
	}
	printf("{");
	print_samples("atoll", first, n, false);
	print_samples("atoll destroy", gone, n, count == 0);
	for (int p = 0; p < count; p++) {
		char name[32];
		snprintf(name, sizeof name, "peer%d", p);
		print_samples(name, peers[p].us, n, p == count - 1);
	}
	printf("}\n");
}

static void warm(size_t n, int argc, char **argv)
{
	struct peer peers[PEERS_MAX] = {0};
	if (read_peers(argc, argv, peers, n) != 1)
		die("warm", "takes one peer");
	uint64_t *us = xcalloc(n, sizeof *us);
	struct client *c = xcalloc(1, sizeof *c);
	client_connect(c);
	client_exec(c, "bench-warm");
	client_receive(c, EXEC_OK);
	for (size_t i = 0; i < n; i++) {
		uint64_t t0 = clock_us();
		client_exec(c, "bench-warm");
		client_receive(c, EXEC_OK);
		us[i] = clock_us() - t0;
		t0 = clock_us();
		run_plain(peers[0].argv);
		peers[0].us[i] = clock_us() - t0;
	}
	client_destroy(c, "bench-warm");
	printf("{");
	print_samples("atoll", us, n, false);
	print_samples("peer0", peers[0].us, n, true);
	printf("}\n");
}

static void burst(size_t boxes)
{
	struct client *c = xcalloc(boxes, sizeof *c);
	struct pollfd *pfd = xcalloc(boxes, sizeof *pfd);
	char id[64];
	for (size_t i = 0; i < boxes; i++)
		client_connect(&c[i]);
	uint64_t t0 = clock_us();
	for (size_t i = 0; i < boxes; i++) {
		snprintf(id, sizeof id, "bench-burst-%zu", i);
		client_exec(&c[i], id);
		pfd[i] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
	}
	for (size_t left = boxes; left;) {
		poll(pfd, boxes, -1);
		for (size_t i = 0; i < boxes; i++) {
			if (pfd[i].fd < 0 || !pfd[i].revents)
				continue;
			client_receive(&c[i], EXEC_OK);
			pfd[i].fd = -1;
			left--;
		}
	}
	uint64_t us = clock_us() - t0;
	for (size_t i = 0; i < boxes; i++) {
		snprintf(id, sizeof id, "bench-burst-%zu", i);
		client_destroy(&c[i], id);
	}
	printf("{\"us\":%llu}\n", (unsigned long long)us);
}

static void sustain(size_t cycles, int clients)
{
	if (clients < 1)
		die("sustain", "takes at least one client");
	uint64_t t0 = clock_us();
	for (int k = 0; k < clients; k++) {
		if (fork())
			continue;
		struct client *c = xcalloc(1, sizeof *c);
		client_connect(c);
		char id[64];
		for (size_t i = 0; i < cycles / (size_t)clients; i++) {
			snprintf(id, sizeof id, "bench-sustain-%d-%zu", k, i);
			client_exec(c, id);
			client_receive(c, EXEC_OK);
			client_destroy(c, id);
		}
		exit(0);
	}
	int status, bad = 0;
	while (wait(&status) > 0)
		bad |= status;
	if (bad)
		die("sustain", "a client failed");
	printf("{\"us\":%llu,\"cycles\":%zu}\n", (unsigned long long)(clock_us() - t0),
		cycles / (size_t)clients * (size_t)clients);
}

static void fill(size_t boxes)
{
	struct client *c = xcalloc(1, sizeof *c);
	client_connect(c);
	char id[64];
	for (size_t i = 0; i < boxes; i++) {
		snprintf(id, sizeof id, "bench-fill-%zu", i);
		client_exec(c, id);
		client_receive(c, EXEC_OK);
	}
	printf("{\"boxes\":%zu}\n", boxes);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		die("usage", "driver cold|warm|burst|sustain|fill PORT TOKEN N …");
	client_target(argv[2], argv[3]);
	size_t n = number(argv[4], INT32_MAX);
	if (strcmp(argv[1], "cold") == 0 && argc > 5)
		cold(n, number(argv[5], INT32_MAX), argc - 6, argv + 6);
	else if (strcmp(argv[1], "warm") == 0)
		warm(n, argc - 5, argv + 5);
	else if (strcmp(argv[1], "burst") == 0)
		burst(n);
	else if (strcmp(argv[1], "sustain") == 0 && argc > 5)
		sustain(n, (int)number(argv[5], INT32_MAX));
	else if (strcmp(argv[1], "fill") == 0)
		fill(n);
	else
		die("usage", argv[1]);
	return 0;
}
