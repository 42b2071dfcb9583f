/*
 * mini_agent: the smallest thing that can stand where atoll-agent stands. PID 1 of a box; answers every connection to
 * its socket (fd 0) with the output of one command line, for the tests and measurements of the warden alone.
 *
 * A connection sends one line: "run <shell command>", or "ping". The answer is the output and the connection's end.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve(int fd)
{
	char line[4096];
	ssize_t n = read(fd, line, sizeof line - 1);
	if (n <= 0)
		return;
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	if (strncmp(line, "run ", 4) != 0) {
		if (write(fd, "pong\n", 5) < 0)
			_exit(1);
		return;
	}
	if (fork() == 0) {
		dup2(fd, 1);
		dup2(fd, 2);
		dup2(2, 0);
		execl("/bin/sh", "sh", "-c", line + 4, (char *)NULL);
		dprintf(1, "no shell\n");
		_exit(127);
	}
}

static void reap(int signo)
{
	(void)signo;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

int main(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "init") != 0)
		return 2;
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	signal(SIGCHLD, reap);
	signal(SIGTERM, _exit);
	for (;;) {
		fd_set set;
		FD_ZERO(&set);
		FD_SET(0, &set);
		if (pselect(1, &set, NULL, NULL, NULL, &none) < 0)
			continue;
		int fd = accept4(0, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		serve(fd);
		close(fd);
	}
}
