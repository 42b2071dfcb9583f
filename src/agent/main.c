/*
 * atoll-agent - PID 1 of a box and its HTTP server; alone, a server for any container or machine.
 *
 *	atoll-agent init                       in a box, started by the warden
 *	atoll-agent warm LANGUAGE              in a box that is not made yet, for a worker that waits for it
 *	atoll-agent serve [--host H] [--port N]  alone
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/code/spare.h"
#include "agent/code/warm.h"
#include "agent/code/zygote_client.h"
#include "agent/fuse/broker.h"
#include "agent/proc/netlink.h"
#include "agent/proc/oom.h"
#include "agent/proc/resolv.h"
#include "agent/proc/spawn.h"
#include "base/log.h"

enum { FD_FLOOR = 64 };

static const char usage[] =
	"usage: atoll-agent serve [--port N] [--host ADDRESS]\n"
	"\n"
	"Runs commands, shells and files of this machine for HTTP clients: the protocol of @cloudflare/sandbox's\n"
	"in-container server. There is no authentication: keep it on loopback or behind something that has one.\n"
	"\n"
	"  --port N        listen on this port (default 3000; 0 lets the kernel choose)\n"
	"  --host ADDRESS  numeric address to listen on (default 127.0.0.1)\n"
	"  --help          this text\n"
	"  --version       the version\n"
	"\n"
	"atoll-agent init: a warden executes this as the first process of a box.\n";

static int fail(const struct err *e)
{
	fprintf(stderr, "atoll-agent: %s\n", e->msg);
	return 1;
}

/* Moves a descriptor above the small numbers. Returns -1 if it is not open; leaves nothing in its place. */
static int move_away(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_FLOOR);
	if (high >= 0)
		close(fd);
	return high;
}

/* Moves descriptor 0 or 1, which came with the box, and leaves /dev/null in its place for children. */
static int move_high(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_FLOOR);
	if (high >= 0)
		dup2(spawn_null(), fd);
	return high;
}

static int run_init(void)
{
	struct err e;
	log_init("atoll-agent");
	if (spawn_init(&e) < 0)
		return fail(&e);
	int warm_fd = move_away(6), listen_fd = move_high(0);
	oom_init(move_high(1));
	int ask_fd = move_away(4);
	zygote_init(move_away(3), ask_fd);
	spawn_use_proc(5);
	spawn_use_leaf(move_away(7));
	spawn_use_leaf(move_away(8));
	if (listen_fd < 0) {
		err_set(&e, ERRC_INTERNAL_ERROR, "descriptor 0 is not a listening socket");
		return fail(&e);
	}
	agent.boxed = true;
	resolv_init();
	if (agent_start(listen_fd, &e) < 0)
		return fail(&e);
	fuse_broker_init(ask_fd);
	if (netlink_init(&e) < 0)
		return fail(&e);
	spare_await(warm_fd);
	return agent_run();
}

static unsigned bound_port(int fd)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a = {0};
	socklen_t n = sizeof a;
	if (getsockname(fd, &a.sa, &n) < 0)
		return 0;
	return ntohs(a.sa.sa_family == AF_INET6 ? a.in6.sin6_port : a.in.sin_port);
}

static int run_serve(const char *host, const char *port)
{
	struct err e;
	char address[128];
	int listen_fd;
	log_init("atoll-agent");
	snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	if (spawn_init(&e) < 0 || http_listen_tcp(str_of(address), &listen_fd, &e) < 0)
		return fail(&e);
	oom_init(-1);
	unsigned bound = bound_port(listen_fd);
	if (agent_start(listen_fd, &e) < 0)
		return fail(&e);
	printf("atoll-agent listens on http://%s:%u\n", host, bound);
	fflush(stdout);
	return agent_run();
}

static int serve_main(int argc, char **argv)
{
	const char *host = "127.0.0.1", *port = "3000";
	for (int i = 0; i < argc; i++) {
		const char **value = strcmp(argv[i], "--port") == 0   ? &port
				     : strcmp(argv[i], "--host") == 0 ? &host
								      : NULL;
		if (strcmp(argv[i], "--help") == 0) {
			fputs(usage, stdout);
			return 0;
		}
		if (!value || i + 1 == argc) {
			fprintf(stderr, "atoll-agent: %s '%s' (see atoll-agent --help)\n",
				value ? "a value is missing after" : "unknown argument", argv[i]);
			return 2;
		}
		*value = argv[++i];
	}
	return run_serve(host, port);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	if (strcmp(verb, "init") == 0 && argc == 2)
		return run_init();
	if (strcmp(verb, "warm") == 0 && argc == 3)
		return warm_run(strcmp(argv[2], "typescript") == 0);
	if (strcmp(verb, "serve") == 0)
		return serve_main(argc - 2, argv + 2);
	if (strcmp(verb, "--version") == 0) {
		puts("atoll-agent " ATOLL_VERSION);
		return 0;
	}
	bool help = strcmp(verb, "--help") == 0;
	fputs(usage, help ? stdout : stderr);
	return help ? 0 : 2;
}
