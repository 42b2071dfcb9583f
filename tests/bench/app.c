/*
 * A small fast server to put into a box, so that what is measured is the way to it: one thread, one epoll loop, static.
 *
 *	bench_app PORT
 *
 *	GET /             100 bytes
 *	GET /close        100 bytes and the end of the connection
 *	GET /bytes/N      N bytes
 *	Upgrade: …        101, then echoes what comes
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 256 * 1024, HEAD_MAX = 8192, EVENTS = 256 };

struct conn {
	int fd;
	bool echo;
	uint64_t left; /* of a body that is being sent */
	size_t n;
	char in[];
};

static char zeros[CHUNK];
static int epoll;

static void drop(struct conn *c)
{
	close(c->fd);
	free(c);
}

static bool send_all(int fd, const char *p, size_t n)
{
	return send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static bool pump(struct conn *c)
{
	while (c->left) {
		ssize_t n = send(c->fd, zeros, c->left < CHUNK ? c->left : CHUNK, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			break;
		c->left -= (uint64_t)n;
	}
	struct epoll_event e = {.events = c->left ? EPOLLOUT : EPOLLIN, .data.ptr = c};
	epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &e);
	return c->left == 0 || errno == EAGAIN;
}

static bool answer(struct conn *c)
{
	char head[256];
	static const char body[101] =
		"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";
	if (strcasestr(c->in, "\nupgrade:")) {
		static const char upgrade[] =
			"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
		c->echo = true;
		return send_all(c->fd, upgrade, sizeof upgrade - 1);
	}
	if (strncmp(c->in, "GET /bytes/", 11) == 0) {
		c->left = strtoull(c->in + 11, NULL, 10);
		int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
			(unsigned long long)c->left);
		return send_all(c->fd, head, (size_t)n) && pump(c);
	}
	bool last = strncmp(c->in, "GET /close", 10) == 0;
	int n = snprintf(head, sizeof head,
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n%s\r\n%s",
		last ? "Connection: close\r\n" : "", body);
	return send_all(c->fd, head, (size_t)n) && !last;
}

static bool take(struct conn *c)
{
	ssize_t n = recv(c->fd, c->in + c->n, HEAD_MAX - 1 - c->n, MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	if (c->echo)
		return send_all(c->fd, c->in, (size_t)n);
	c->n += (size_t)n;
	c->in[c->n] = 0;
	if (!strstr(c->in, "\r\n\r\n"))
		return c->n < HEAD_MAX - 1;
	c->n = 0;
	return answer(c);
}

static void welcome(int server)
{
	int fd = accept(server, NULL, NULL);
	if (fd < 0)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	struct conn *c = calloc(1, sizeof *c + HEAD_MAX);
	struct epoll_event readable = {.events = EPOLLIN, .data.ptr = c};
	if (c)
		c->fd = fd;
	if (c && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &readable) == 0)
		return; // NOLINT(clang-analyzer-unix.Malloc): the kernel keeps it, epoll gives it back
	free(c);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 8080)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int server = socket(AF_INET, SOCK_STREAM, 0);
	epoll = epoll_create1(0);
	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (bind(server, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(server, 4096) < 0) {
		perror("bench_app");
		return 1;
	}
	epoll_ctl(epoll, EPOLL_CTL_ADD, server, &(struct epoll_event){.events = EPOLLIN});
	for (;;) {
		struct epoll_event events[EVENTS];
		int n = epoll_wait(epoll, events, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			if (!c)
				welcome(server);
			else if (!(events[i].events & EPOLLOUT ? pump(c) : take(c)))
				drop(c);
		}
	}
}
