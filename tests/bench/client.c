#include "client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/str.h"

static const char *token;
static uint16_t port;

void client_target(const char *port_text, const char *the_token)
{
	port = (uint16_t)number(port_text, UINT16_MAX);
	token = the_token;
}

unsigned number(const char *text, unsigned max)
{
	uint64_t v;
	if (!str_to_u64(str_of(text), max, &v))
		die("not a number in range", text);
	return (unsigned)v;
}

void print_samples(const char *name, const uint64_t *us, size_t n, bool last)
{
	printf("\"%s\":[", name);
	for (size_t i = 0; i < n; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)us[i]);
	printf("]%s", last ? "" : ",");
}

void die(const char *what, const char *detail)
{
	fprintf(stderr, "bench: %s: %s\n", what, detail);
	exit(1);
}

void client_connect(struct client *c)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		die("connect", strerror(errno));
	int one = 1;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* True when the reply in c is whole: enough HTTP for our own server's answers. */
static bool reply_whole(struct client *c)
{
	c->reply[c->len] = 0;
	char *body = strstr(c->reply, "\r\n\r\n");
	if (!body)
		return false;
	body += 4;
	char *length = strcasestr(c->reply, "\r\ncontent-length:");
	if (length && length < body)
		return c->len - (size_t)(body - c->reply) >= strtoul(length + 17, NULL, 10);
	if (strcasestr(c->reply, "\r\ntransfer-encoding:"))
		return strstr(body - 2, "\r\n0\r\n\r\n") != NULL;
	return true;
}

static int head_of(char *head, size_t size, const char *method, const char *path, size_t body_len)
{
	return snprintf(head, size,
		"%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n\r\n",
		method, path, token, body_len);
}

void client_begin(struct client *c, const char *method, const char *path, size_t body_len)
{
	char head[1024];
	int n = head_of(head, sizeof head, method, path, body_len);
	if (write(c->fd, head, (size_t)n) != n)
		die("send", path);
	c->len = 0;
}

void client_send(struct client *c, const char *method, const char *path, const char *body)
{
	char head[1024];
	struct iovec v[2] = {{.iov_base = head}, {.iov_base = (void *)(uintptr_t)body, .iov_len = strlen(body)}};
	v[0].iov_len = (size_t)head_of(head, sizeof head, method, path, v[1].iov_len);
	if (writev(c->fd, v, 2) != (ssize_t)(v[0].iov_len + v[1].iov_len))
		die("send", path);
	c->len = 0;
}

void client_receive(struct client *c, const char *must_hold)
{
	do {
		ssize_t r = read(c->fd, c->reply + c->len, REPLY_MAX - 1 - c->len);
		if (r <= 0)
			die("connection ended", must_hold);
		c->len += (size_t)r;
	} while (!reply_whole(c));
	if (c->reply[9] != '2' || !strstr(c->reply, must_hold))
		die("unexpected answer", c->reply);
}
