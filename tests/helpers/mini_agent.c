/*
 * mini_agent: the smallest thing that can stand where atoll-agent stands. PID 1 of a box; needs nothing from the image.
 * For the tests and measurements of the warden alone.
 *
 * A connection to its socket (fd 0) sends one line and reads the answer up to the connection's end:
 *
 *	ping              "pong"
 *	cat PATH          the file, or "! <error>"
 *	put PATH TEXT     writes it: "ok" or "! <error>"
 *	id                "<pid> <uid> <gid> <host name> <working directory>"
 *	fds               the descriptors that are open, in order
 *	fork N            N children that wait for ever: how many could be made
 *	eat N             a child touches N MiB and says "full", or is killed before: then nothing
 *	watch N           a child opens up to N inotify instances and keeps them: how many it got
 *	spin              a child that never rests: "ok"
 *	exit N            ends, with the code
 *	run COMMAND       by /bin/sh
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void do_cat(int fd, const char *path)
{
	char piece[4096];
	int in = open(path, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		dprintf(fd, "! %s", strerror(errno));
	for (ssize_t n; in >= 0 && (n = read(in, piece, sizeof piece)) > 0;)
		if (write(fd, piece, (size_t)n) < 0)
			break;
	close(in);
}

static void do_put(int fd, char *path)
{
	char *text = strchr(path, ' ');
	if (text)
		*text++ = 0;
	int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (out < 0 || !text || write(out, text, strlen(text)) < 0)
		dprintf(fd, "! %s", strerror(errno));
	else
		dprintf(fd, "ok");
	close(out);
}

static void do_id(int fd)
{
	char host[65] = "", dir[4096] = "";
	gethostname(host, sizeof host);
	if (!getcwd(dir, sizeof dir))
		dir[0] = '?';
	dprintf(fd, "%d %u %u %s %s", getpid(), getuid(), getgid(), host, dir);
}

static void do_fds(int fd)
{
	for (int i = 0; i < 1024; i++)
		if (i != fd && fcntl(i, F_GETFD) >= 0)
			dprintf(fd, "%d ", i);
}

/* A child in the commands' place of the box's cgroups: src/cage/init_warm.h has the descriptors. */
static pid_t fork_command(void)
{
	pid_t pid = fork();
	for (int leaf = 7; pid == 0 && leaf <= 8; leaf++)
		if (write(leaf, "0", 1) < 0 && errno != EBADF)
			_exit(1);
	return pid;
}

static void do_fork(int fd, int n)
{
	int made = 0;
	for (; made < n; made++) {
		pid_t pid = fork_command();
		if (pid < 0)
			break;
		if (pid == 0) {
			close(fd);
			for (;;)
				pause();
		}
	}
	dprintf(fd, "%d", made);
}

static void do_eat(int fd, size_t mib)
{
	if (fork_command() != 0)
		return;
	char *p = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; p != MAP_FAILED && i < mib << 20; i += 4096)
		p[i] = 1;
	dprintf(fd, "full");
	_exit(0);
}

static void do_watch(int fd, int n)
{
	if (fork_command() != 0)
		return;
	int got = 0;
	while (got < n && inotify_init1(IN_CLOEXEC) >= 0)
		got++;
	dprintf(fd, "%d", got);
	close(fd);
	for (;;)
		pause();
}

static void do_spin(int fd)
{
	if (fork_command() != 0) {
		dprintf(fd, "ok");
		return;
	}
	close(fd);
	for (volatile unsigned long i = 0;; i++)
		;
}

static void do_run(int fd, const char *command)
{
	if (fork_command() != 0)
		return;
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	dprintf(1, "! no shell");
	_exit(127);
}

static void serve(int fd)
{
	char line[4096];
	ssize_t n = read(fd, line, sizeof line - 1);
	if (n <= 0)
		return;
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	char *rest = strchr(line, ' ');
	if (rest)
		*rest++ = 0;
	else
		rest = line + strlen(line);
	if (strcmp(line, "ping") == 0)
		dprintf(fd, "pong");
	else if (strcmp(line, "cat") == 0)
		do_cat(fd, rest);
	else if (strcmp(line, "put") == 0)
		do_put(fd, rest);
	else if (strcmp(line, "id") == 0)
		do_id(fd);
	else if (strcmp(line, "fds") == 0)
		do_fds(fd);
	else if (strcmp(line, "fork") == 0)
		do_fork(fd, atoi(rest));
	else if (strcmp(line, "eat") == 0)
		do_eat(fd, (size_t)atoi(rest));
	else if (strcmp(line, "watch") == 0)
		do_watch(fd, atoi(rest));
	else if (strcmp(line, "spin") == 0)
		do_spin(fd);
	else if (strcmp(line, "run") == 0)
		do_run(fd, rest);
	else if (strcmp(line, "exit") == 0)
		_exit(atoi(rest));
}

static void on_signal(int signo)
{
	if (signo == SIGTERM)
		_exit(0);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

int main(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "init") != 0)
		return 2;
	signal(SIGCHLD, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		fd_set set;
		FD_ZERO(&set);
		FD_SET(0, &set);
		if (select(1, &set, NULL, NULL, NULL) < 0)
			continue;
		int fd = accept4(0, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		serve(fd);
		close(fd);
	}
}
