/*
 * selftest_escape_host.c - the host's side of the escape suite: targets that a box must not reach.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cli/selftest/selftest_escape.h"

static int listen_tcp(struct escape_host *h, struct err *e)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	h->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->tcp < 0 || bind(h->tcp, (struct sockaddr *)&a, n) < 0 || listen(h->tcp, 8) < 0 ||
		getsockname(h->tcp, (struct sockaddr *)&a, &n) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "listen on the host");
	h->port = ntohs(a.sin_port);
	return 0;
}

static int listen_abstract(struct escape_host *h, struct err *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int n = snprintf(h->abstract_name, sizeof h->abstract_name, "atoll-escape-host-%d", getpid());
	memcpy(a.sun_path + 1, h->abstract_name, (size_t)n);
	h->abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	if (h->abstract < 0 || bind(h->abstract, (struct sockaddr *)&a, len) < 0 || listen(h->abstract, 8) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "listen on an abstract socket of the host");
	return 0;
}

/* The process ends with the first signal, and with this program. */
static int start_victim(struct escape_host *h, struct err *e)
{
	h->victim = fork();
	if (h->victim == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return h->victim < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "start a process on the host") : 0;
}

static void find_address(struct escape_host *h)
{
	struct ifaddrs *all = NULL;
	if (getifaddrs(&all) < 0)
		return;
	for (struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || i->ifa_flags & IFF_LOOPBACK)
			continue;
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)i->ifa_addr;
		inet_ntop(AF_INET, &in->sin_addr, h->address, sizeof h->address);
	}
	freeifaddrs(all);
}

int escape_host_open(struct escape_host *h, struct err *e)
{
	*h = (struct escape_host){.tcp = -1, .abstract = -1};
	snprintf(h->canary, sizeof h->canary, "/tmp/atoll-canary-XXXXXX");
	if (!mkdtemp(h->canary)) {
		h->canary[0] = 0;
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a directory on the host");
	}
	gethostname(h->hostname, sizeof h->hostname - 1);
	find_address(h);
	return listen_tcp(h, e) < 0 || listen_abstract(h, e) < 0 || start_victim(h, e) < 0 ? -1 : 0;
}

void escape_host_close(struct escape_host *h)
{
	fd_close(&h->tcp);
	fd_close(&h->abstract);
	if (h->victim > 0) {
		kill(h->victim, SIGKILL);
		waitpid(h->victim, NULL, 0);
		h->victim = 0;
	}
	if (h->canary[0])
		rmdir(h->canary);
}

/* True when a connection waits to be accepted. Accepts all of them. */
static bool somebody_came(int fd)
{
	int n = 0, c;
	while ((c = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		close(c);
		n++;
	}
	return n > 0;
}

static bool is_empty(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n == 2;
}

const char *escape_host_harm(struct escape_host *h)
{
	char name[65] = "";
	gethostname(name, sizeof name - 1);
	if (somebody_came(h->tcp))
		return "a listener of the host was reached";
	if (somebody_came(h->abstract))
		return "an abstract socket of the host was reached";
	if (waitpid(h->victim, NULL, WNOHANG) != 0)
		return "a process of the host was killed";
	if (!is_empty(h->canary))
		return "a directory of the host was written";
	if (strcmp(name, h->hostname) != 0)
		return "the host was renamed";
	return NULL;
}
