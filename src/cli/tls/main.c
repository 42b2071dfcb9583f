/*
 * main.c - atoll-tls: carries the command line's connections to a daemon behind TLS. It is data of `atoll`, which
 * executes it when ATOLL_URL is https, and it ends with `atoll`.
 *
 *	atoll-tls HOST PORT	descriptor 0: a pipe that ends when the command line does; 3: a listening AF_UNIX socket;
 *				2: a pipe that gets "ready", or the dynamic loader's words when a library is missing
 *
 * The kernel chose the socket's address, and any process of this machine may connect to it. Connections of other users
 * are refused.
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/tls/carry.h"

enum { ALIVE = 0, LISTENER = 3 };

static bool is_ours(int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

static void take_one(const struct carry_to *to)
{
	int fd = accept4(LISTENER, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return;
	if (is_ours(fd) && fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(LISTENER);
		carry(fd, to);
		_exit(0);
	}
	close(fd);
}

/* `atoll` waits for the end of this pipe. */
static void say_ready(void)
{
	if (write(STDERR_FILENO, "ready", 5) != 5 || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
		_exit(1);
}

int main(int argc, char **argv)
{
	struct pollfd fds[] = {{.fd = ALIVE, .events = POLLIN}, {.fd = LISTENER, .events = POLLIN}};
	if (argc != 3)
		return 2;
	/* A program that is executed from a descriptor has its number for a name. */
	prctl(PR_SET_NAME, "atoll-tls");
	signal(SIGCHLD, SIG_IGN);
	say_ready();
	while (poll(fds, 2, -1) >= 0 && !fds[0].revents)
		take_one(&(struct carry_to){argv[1], argv[2]});
	return 0;
}
