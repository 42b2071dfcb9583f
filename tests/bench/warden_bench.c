/*
 * warden_bench: what creating and destroying a box costs at the warden's socket, without atolld.
 *
 *	warden_bench RUN_DIR latency N IDLE_MS     one after another, with a pause: p50 and p99 of create, ping, destroy
 *	warden_bench RUN_DIR sustained SECONDS K   K in flight: create+destroy a second
 *	warden_bench RUN_DIR keep N                N boxes, "made" when all are there; destroys them at the end of input
 *
 * The warden is started beforehand, with any agent that answers a connection.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/warden.h"

static int sock;
static const char *run_dir;
static uint64_t next_seq;

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

_Noreturn static void die(const char *what, const char *detail)
{
	fprintf(stderr, "warden_bench: %s: %s\n", what, detail);
	exit(1);
}

static int connect_to(const char *path, int type)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
	int fd = socket(AF_UNIX, type, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		die(path, strerror(errno));
	return fd;
}

static uint64_t ask(uint32_t op, int n)
{
	struct warden_request rq = {.magic = WARDEN_MAGIC, .op = op, .seq = ++next_seq};
	snprintf(rq.id, sizeof rq.id, "bench-%d", n);
	if (op == WARDEN_CREATE)
		snprintf(rq.image, sizeof rq.image, "%s", getenv("BENCH_IMAGE") ? getenv("BENCH_IMAGE") : "default");
	if (send(sock, &rq, sizeof rq, 0) != (ssize_t)sizeof rq)
		die("send", strerror(errno));
	return rq.seq;
}

static struct warden_reply hear(void)
{
	struct warden_reply r;
	if (recv(sock, &r, sizeof r, 0) != (ssize_t)sizeof r)
		die("receive", strerror(errno));
	if (r.op == WARDEN_BOX_DIED)
		die("box died", r.info.id);
	if (r.err.code)
		die("warden", r.err.msg);
	return r;
}

static struct warden_reply call(uint32_t op, int n)
{
	uint64_t seq = ask(op, n);
	struct warden_reply r = hear();
	if (r.seq != seq)
		die("reply", "out of order");
	return r;
}

static void ping(uint32_t slot)
{
	char path[108], answer[16];
	snprintf(path, sizeof path, WARDEN_AGENT_SOCKET_FMT, run_dir, slot);
	int fd = connect_to(path, SOCK_STREAM);
	if (write(fd, "ping\n", 5) != 5 || read(fd, answer, sizeof answer) <= 0)
		die("agent", "no answer");
	close(fd);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void show(const char *what, double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	printf("%-8s min %6.0f  p50 %6.0f  p90 %6.0f  p99 %6.0f  max %6.0f us\n", what, v[0], v[n / 2], v[n * 9 / 10],
		v[n * 99 / 100], v[n - 1]);
}

static void latency(int n, int idle_ms)
{
	double *create = calloc((size_t)n, sizeof *create), *first = calloc((size_t)n, sizeof *first),
	       *destroy = calloc((size_t)n, sizeof *destroy);
	for (int i = 0; i < n; i++) {
		double t0 = now_us();
		struct warden_reply r = call(WARDEN_CREATE, i);
		double t1 = now_us();
		ping(r.info.slot);
		double t2 = now_us();
		call(WARDEN_DESTROY, i);
		double t3 = now_us();
		create[i] = t1 - t0;
		first[i] = t2 - t1;
		destroy[i] = t3 - t2;
		if (idle_ms)
			poll(NULL, 0, idle_ms);
	}
	show("create", create, n);
	show("ping", first, n);
	show("destroy", destroy, n);
}

static void sustained(int seconds, int in_flight)
{
	double end = now_us() + seconds * 1e6, start = now_us();
	int made = 0, next = 0, open_ones = 0;
	for (int i = 0; i < in_flight; i++, open_ones++)
		ask(WARDEN_CREATE, next++);
	while (open_ones) {
		struct warden_reply r = hear();
		if (r.op == WARDEN_CREATE) {
			ask(WARDEN_DESTROY, atoi(r.info.id + strlen("bench-")));
			continue;
		}
		made++;
		open_ones--;
		if (now_us() < end) {
			ask(WARDEN_CREATE, next++);
			open_ones++;
		}
	}
	printf("%d boxes created and destroyed, %d in flight: %.0f/s\n", made, in_flight,
		made / ((now_us() - start) / 1e6));
}

static void keep(int n)
{
	double start = now_us();
	for (int i = 0; i < n; i++)
		call(WARDEN_CREATE, i);
	printf("made %d boxes in %.0f ms\n", n, (now_us() - start) / 1e3);
	fflush(stdout);
	while (getchar() != EOF)
		;
	start = now_us();
	for (int i = 0; i < n; i++)
		call(WARDEN_DESTROY, i);
	printf("destroyed in %.0f ms\n", (now_us() - start) / 1e3);
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: warden_bench RUN_DIR latency N IDLE_MS | sustained SECONDS K | keep N\n");
		return 2;
	}
	run_dir = argv[1];
	char path[108];
	snprintf(path, sizeof path, "%s/warden.sock", run_dir);
	sock = connect_to(path, SOCK_SEQPACKET);
	int a = atoi(argv[3]), b = argc > 4 ? atoi(argv[4]) : 0;
	if (strcmp(argv[2], "latency") == 0)
		latency(a, b);
	else if (strcmp(argv[2], "sustained") == 0)
		sustained(a, b ? b : 4);
	else
		keep(a);
	return 0;
}
