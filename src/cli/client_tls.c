/*
 * client_tls.c - https for this static program, which has no TLS library: atoll-tls (tls/) carries the bytes.
 *
 * atoll-tls is a small program for the machine's C library and OpenSSL. Its bytes are data of this one (cli->tls_program)
 * and are executed from a sealed memory file, so neither a file of its own nor /proc nor a directory that allows
 * programs is needed. It is started once and gets a listening socket; the client connects to that socket instead of the
 * daemon. It also gets the read end of a pipe and ends when this process, which holds the write end, ends. The kernel
 * chooses the socket's address, and this process keeps the socket open: no other program can take the address over and
 * receive the token.
 *
 * Another pipe, its standard error, says "ready" or why it could not start, and then ends.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sig.h"
#include "cli/client.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

enum { CHILD_ALIVE = 0, CHILD_LISTENER = 3, BACKLOG = 64 };

struct tls_helper {
	struct str program;
	char *host, *port;
	int listener, alive; /* owned by the caller */
};

/* ---- the program ---- */

static int cannot_execute(struct client *cl, int os, struct err *e)
{
	if (os == ENOENT) {
		cli_hint(cl->cli, "Use a system with glibc, or " CLIENT_BY_SSH);
		return err_set(
			e, ERRC_HOST_UNSUPPORTED, "https needs glibc and OpenSSL 3, and this machine has no glibc");
	}
	cli_hint(cl->cli, "Allow programs in memory files (sysctl vm.memfd_noexec), or " CLIENT_BY_SSH);
	return err_os(e, ERRC_HOST_UNSUPPORTED, os, "https needs to execute a program from memory");
}

/* A sealed file with the program, which nothing but its execution can use. */
static int program_file(struct client *cl, struct str program, struct err *e)
{
	auto_fd int fd = memfd_create("atoll-tls", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (fd < 0 && errno == EINVAL) /* before 6.3 there was no flag: all were executable */
		fd = memfd_create("atoll-tls", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return cannot_execute(cl, errno, e);
	int r = fd_write_full(fd, program.p, program.n);
	if (r < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, r < 0 ? -r : errno, "a file in memory for https");
	return take_fd(&fd);
}

/* ---- the start ---- */

/* All descriptors first move away from the numbers that they will get. The new session keeps a terminal's Ctrl-C from
 * the helper: `atoll` may still have requests to send. */
_Noreturn static void become_helper(const struct tls_helper *h, int program, int said)
{
	char *argv[] = {"atoll-tls", h->host, h->port, NULL};
	extern char **environ;
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), file = fcntl(program, F_DUPFD_CLOEXEC, 16),
	    to = fcntl(said, F_DUPFD_CLOEXEC, 16), from = fcntl(h->alive, F_DUPFD_CLOEXEC, 16),
	    at = fcntl(h->listener, F_DUPFD_CLOEXEC, 16);
	setsid();
	sig_default_all();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, STDOUT_FILENO);
	dup2(to, STDERR_FILENO);
	dup2(from, CHILD_ALIVE);
	dup2(at, CHILD_LISTENER);
	fexecve(file, argv, environ);
	dprintf(STDERR_FILENO, "errno %d", errno);
	_exit(127);
}

/* Reads what the helper says until it is ready or has ended. */
static int wait_ready(struct client *cl, int said, struct err *e)
{
	char text[400];
	int os;
	ssize_t n = fd_read_full(said, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	if (str_ends(str_of(text), STR("ready")))
		return 0;
	if (sscanf(text, "errno %d", &os) == 1)
		return cannot_execute(cl, os, e);
	text[strcspn(text, "\n")] = 0;
	cli_clean(text);
	cli_hint(cl->cli,
		"Install OpenSSL 3 (the package libssl3 of Debian and Ubuntu, openssl-libs of Fedora), or " CLIENT_BY_SSH);
	return err_set(
		e, ERRC_HOST_UNSUPPORTED, "https needs OpenSSL 3: %s", *text ? text : "its program ended at once");
}

/* Forks twice, so that verbs that wait for their own children never see the helper. */
static int start_helper(struct client *cl, const struct tls_helper *h, struct err *e)
{
	int said[2];
	auto_fd int program = program_file(cl, h->program, e);
	if (program < 0)
		return -1;
	if (pipe2(said, O_CLOEXEC) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "a pipe for atoll-tls");
	auto_fd int hear = said[0], tell = said[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start atoll-tls");
	if (pid == 0) {
		if (fork() == 0)
			become_helper(h, program, tell);
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(take_fd(&tell));
	return wait_ready(cl, hear, e);
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
	int alive[2];
	if (!cl->cli->tls_program.n)
		return err_set(e, ERRC_INVALID_REQUEST, "this program does not speak https");
	int listener = listen_somewhere(&cl->endpoint, e);
	if (listener < 0)
		return -1;
	if (pipe2(alive, O_CLOEXEC) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "a pipe for atoll-tls");
	auto_free char *h = str_dup(host), *p = str_dup(port);
	int r = start_helper(cl, &(struct tls_helper){cl->cli->tls_program, h, p, listener, alive[0]}, e);
	close(alive[0]);
	return r; /* the listener and the pipe's other end stay open until this process ends */
}
