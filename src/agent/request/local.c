#include "agent/request/local.h"

#include <sys/socket.h>

#include "agent/agent.h"

struct http_call *local_call(
	const struct http_call_options *o, const struct http_call_ops *ops, void *arg, struct err *e)
{
	static struct http_client *client;
	int pair[2] = {-1, -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
		err_os(e, ERRC_INTERNAL_ERROR, errno, "make a socket pair");
		return NULL;
	}
	if (http_server_adopt(agent.server, pair[0], 0, NULL, e) < 0) {
		close(pair[1]);
		return NULL;
	}
	if (!client)
		client = http_client_new(agent.loop);
	return http_call_start_fd(client, pair[1], o, ops, arg);
}
