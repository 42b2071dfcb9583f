/*
 * requests.c - timed requests for the rows of `make bench` that speak to one living box.
 *
 * requests MODE PORT TOKEN …, where the rest is for each mode:
 *
 * - repeat N METHOD PATH BODY TEXT: N times on one connection; "%d" in PATH and BODY is the number of the request.
 * - first N METHOD PATH BODY TEXT: the same, timed until TEXT is in the answer, which is then read to its end.
 * - parallel N CLIENTS METHOD PATH BODY TEXT: N by each client, all at once; "%d" is the client's number.
 * - drain BYTES METHOD PATH BODY: an answer of at least so many bytes, read and dropped.
 * - upload BYTES PATH: a PUT of so many bytes.
 * - json BYTES PATH HEAD TAIL: a POST of HEAD, so many letters, TAIL.
 *
 * Every answer must be a 2xx that holds TEXT. Output: one JSON object, times in microseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "client.h"

enum { PIECE = 256 << 10 };

/* A request, METHOD PATH BODY TEXT, with its number in it. */
struct numbered {
	char path[1024], body[4096];
};

static void put_number(char *ret, size_t size, const char *text, size_t number)
{
	const char *mark = strstr(text, "%d");
	int n = mark ? snprintf(ret, size, "%.*s%zu%s", (int)(mark - text), text, number, mark + 2)
		     : snprintf(ret, size, "%s", text);
	if (n < 0 || (size_t)n >= size)
		die("too long", text);
}

static struct numbered numbered(char **request, size_t number)
{
	struct numbered r;
	put_number(r.path, sizeof r.path, request[1], number);
	put_number(r.body, sizeof r.body, request[2], number);
	return r;
}

static uint64_t timed(struct client *c, char **request, size_t number)
{
	struct numbered r = numbered(request, number);
	uint64_t t0 = clock_us();
	client_send(c, request[0], r.path, r.body);
	client_receive(c, request[3]);
	return clock_us() - t0;
}

static void repeat(size_t n, char **request)
{
	struct client *c = xcalloc(1, sizeof *c);
	uint64_t *us = xcalloc(n, sizeof *us);
	client_connect(c);
	for (size_t i = 0; i < n; i++)
		us[i] = timed(c, request, i);
	printf("{");
	print_samples("us", us, n, true);
	printf("}\n");
}

/* Keeps what is read until `text` has come, then only as much as shows the end of a chunked body. */
static uint64_t time_to(struct client *c, const char *text)
{
	static const char end[] = "\r\n0\r\n\r\n";
	uint64_t at = 0;
	for (;;) {
		ssize_t r = read(c->fd, c->reply + c->len, REPLY_MAX - 1 - c->len);
		if (r <= 0)
			die("connection ended before", text);
		c->len += (size_t)r;
		c->reply[c->len] = 0;
		if (!at && strstr(c->reply, text))
			at = clock_us();
		if (c->len >= sizeof end - 1 && memcmp(c->reply + c->len - (sizeof end - 1), end, sizeof end - 1) == 0)
			break;
		if (at && c->len > REPLY_MAX / 2) {
			memmove(c->reply, c->reply + c->len - sizeof end, sizeof end);
			c->len = sizeof end;
		}
	}
	if (!at)
		die("the answer does not hold", text);
	return at;
}

static void first(size_t n, char **request)
{
	struct client *c = xcalloc(1, sizeof *c);
	uint64_t *us = xcalloc(n, sizeof *us);
	client_connect(c);
	for (size_t i = 0; i < n; i++) {
		uint64_t t0 = clock_us();
		client_send(c, request[0], request[1], request[2]);
		us[i] = time_to(c, request[3]) - t0;
	}
	printf("{");
	print_samples("us", us, n, true);
	printf("}\n");
}

/* In a child: its samples go where the parent sees them. */
static void one_of_many(int number_of_client, size_t n, char **request, uint64_t *us)
{
	struct client *c = xcalloc(1, sizeof *c);
	client_connect(c);
	for (size_t i = 0; i < n; i++)
		us[i] = timed(c, request, (size_t)number_of_client);
}

static void parallel(size_t n, int clients, char **request)
{
	size_t all = n * (size_t)clients;
	uint64_t *us = mmap(NULL, all * sizeof *us, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (us == MAP_FAILED)
		die("mmap", strerror(errno));
	uint64_t t0 = clock_us();
	for (int k = 0; k < clients; k++) {
		if (fork())
			continue;
		one_of_many(k, n, request, us + (size_t)k * n);
		exit(0);
	}
	int status, bad = 0;
	while (wait(&status) > 0)
		bad |= status;
	if (bad)
		die("parallel", "a client failed");
	printf("{\"total_us\":%llu,", (unsigned long long)(clock_us() - t0));
	print_samples("us", us, all, true);
	printf("}\n");
}

static void print_rate(uint64_t bytes, uint64_t us)
{
	printf("{\"bytes\":%llu,\"us\":%llu}\n", (unsigned long long)bytes, (unsigned long long)us);
}

static void drain(uint64_t least, char **request)
{
	struct client *c = xcalloc(1, sizeof *c);
	char *piece = xmalloc(PIECE), tail[8] = {0};
	uint64_t bytes = 0, t0 = clock_us();
	client_connect(c);
	client_send(c, request[0], request[1], request[2]);
	while (memcmp(tail, "\r\n0\r\n\r\n", 7) != 0 &&
		(bytes < least || memmem(request[1], strlen(request[1]), "stream", 6))) {
		ssize_t r = read(c->fd, piece, PIECE);
		if (r <= 0)
			die("connection ended", request[1]);
		if (!bytes && (r < 12 || piece[9] != '2'))
			die("unexpected answer", request[1]);
		bytes += (uint64_t)r;
		size_t keep = r < 7 ? (size_t)r : 7;
		memmove(tail, tail + keep, 7 - keep);
		memcpy(tail + 7 - keep, piece + r - keep, keep);
	}
	if (bytes < least)
		die("too little came", request[1]);
	print_rate(bytes, clock_us() - t0);
}

static void send_all(struct client *c, const char *p, size_t n)
{
	while (n) {
		ssize_t r = write(c->fd, p, n);
		if (r <= 0)
			die("write", strerror(errno));
		p += r;
		n -= (size_t)r;
	}
}

static void upload(const char *method, uint64_t bytes, const char *path, const char *head, const char *tail)
{
	struct client *c = xcalloc(1, sizeof *c);
	char *piece = xmalloc(PIECE);
	memset(piece, 'x', PIECE);
	client_connect(c);
	uint64_t t0 = clock_us();
	client_begin(c, method, path, strlen(head) + bytes + strlen(tail));
	send_all(c, head, strlen(head));
	for (uint64_t left = bytes; left;) {
		size_t n = left < PIECE ? (size_t)left : PIECE;
		send_all(c, piece, n);
		left -= n;
	}
	send_all(c, tail, strlen(tail));
	client_receive(c, "");
	print_rate(bytes, clock_us() - t0);
}

int main(int argc, char **argv)
{
	if (argc < 6)
		die("usage", "requests repeat|first|parallel|drain|upload|json PORT TOKEN N …");
	client_target(argv[2], argv[3]);
	unsigned n = number(argv[4], INT32_MAX);
	if (strcmp(argv[1], "repeat") == 0 && argc == 9)
		repeat(n, argv + 5);
	else if (strcmp(argv[1], "first") == 0 && argc == 9)
		first(n, argv + 5);
	else if (strcmp(argv[1], "parallel") == 0 && argc == 10)
		parallel(n, (int)number(argv[5], 4096), argv + 6);
	else if (strcmp(argv[1], "drain") == 0 && argc == 8)
		drain(n, argv + 5);
	else if (strcmp(argv[1], "upload") == 0 && argc == 6)
		upload("PUT", n, argv[5], "", "");
	else if (strcmp(argv[1], "json") == 0 && argc == 8)
		upload("POST", n, argv[5], argv[6], argv[7]);
	else
		die("usage", argv[1]);
	return 0;
}
