/*
 * client_tls.c - https for this static program, which has no TLS library: atoll-tls, beside it, carries the bytes.
 *
 * atoll-tls is started once and gets a listening socket; the client connects to that socket instead of the daemon.
 * atoll-tls also gets the read end of a pipe and ends when this process, which holds the write end, ends. The kernel
 * chooses the socket's address, and this process keeps the socket open: no other program can take the address over and
 * receive the token.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sig.h"
#include "cli/client.h"

enum { CHILD_ALIVE = 0, CHILD_LISTENER = 3, BACKLOG = 64 };

/* Both descriptors first move away from the numbers that they will get. The new session keeps a terminal's Ctrl-C from
 * the helper: `atoll` may still have requests to send. */
_Noreturn static void become_helper(const char *path, int alive, int listener, char *host, char *port)
{
	char *argv[] = {"atoll-tls", host, port, NULL};
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int from = fcntl(alive, F_DUPFD_CLOEXEC, 16), at = fcntl(listener, F_DUPFD_CLOEXEC, 16);
	setsid();
	sig_default_all();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	dup2(from, CHILD_ALIVE);
	dup2(at, CHILD_LISTENER);
	execv(path, argv);
	_exit(127);
}

/* Forks twice, so that verbs that wait for their own children never see the helper. */
static int start_helper(const char *path, int alive, int listener, char *host, char *port, struct err *e)
{
	pid_t pid = fork();
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start atoll-tls");
	if (pid == 0) {
		if (fork() == 0)
			become_helper(path, alive, listener, host, port);
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

static int listen_somewhere(struct http_endpoint *ret, struct err *e)
{
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ret->len = sizeof ret->un;
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any.sun_family) < 0 || listen(fd, BACKLOG) < 0 ||
		getsockname(fd, &ret->sa, &ret->len) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "a socket for atoll-tls");
	return take_fd(&fd);
}

int client_use_tls(struct client *cl, struct str host, struct str port, struct err *e)
{
	char path[PATH_MAX + 16];
	int alive[2];
	snprintf(path, sizeof path, "%s/atoll-tls", cli_bin_dir());
	if (access(path, X_OK) < 0) {
		cli_hint(cl->cli, "Install it there (it needs OpenSSL 3), or " CLIENT_BY_SSH);
		return err_set(e, ERRC_INVALID_REQUEST, "https needs the program %s, which does not exist", path);
	}
	int listener = listen_somewhere(&cl->endpoint, e);
	if (listener < 0)
		return -1;
	if (pipe2(alive, O_CLOEXEC) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "a pipe for atoll-tls");
	auto_free char *h = str_dup(host), *p = str_dup(port);
	int r = start_helper(path, alive[0], listener, h, p, e);
	close(alive[0]);
	return r; /* the listener and the pipe's other end stay open until this process ends */
}
