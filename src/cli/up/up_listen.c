#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "cli/up/up.h"

enum { LISTEN_BACKLOG = 4096, GATE_BACKLOG = 16 };

static bool is_loopback(const struct http_endpoint *ep)
{
	if (ep->sa.sa_family == AF_INET)
		return ntohl(ep->in.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&ep->in6.sin6_addr);
}

static void name_address(int fd, char *ret, size_t n)
{
	struct http_endpoint ep = {.len = sizeof ep.in6};
	char text[INET6_ADDRSTRLEN] = "?";
	getsockname(fd, &ep.sa, &ep.len);
	bool v6 = ep.sa.sa_family == AF_INET6;
	inet_ntop(ep.sa.sa_family, v6 ? (void *)&ep.in6.sin6_addr : (void *)&ep.in.sin_addr, text, sizeof text);
	snprintf(ret, n, v6 ? "[%s]:%u" : "%s:%u", text, ntohs(v6 ? ep.in6.sin6_port : ep.in.sin_port));
}

static int listen_tcp(struct cli *c, const char *wanted, struct up_sockets *s, struct err *e)
{
	struct http_endpoint ep;
	if (http_endpoint_tcp(&ep, str_of(wanted), e) < 0) {
		cli_hint(c, "Set ATOLL_LISTEN to an address and a port, as in 127.0.0.1:8700.");
		return err_wrap(e, "ATOLL_LISTEN");
	}
	auto_fd int fd = socket(ep.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "socket for %s", wanted);
	if (bind(fd, &ep.sa, ep.len) < 0 || listen(fd, LISTEN_BACKLOG) < 0) {
		cli_hint(c, "%s set ATOLL_LISTEN to another address.",
			errno == EADDRINUSE ? "Stop the program that uses it ('ss -ltnp' shows it), or"
			: errno == EADDRNOTAVAIL
				? "This machine does not have the address ('ip addr' lists its addresses):"
				: "If it cannot be used:");
		return errno == EADDRINUSE ? err_set(e, ERRC_PORT_IN_USE, "port %s is taken", wanted)
					   : err_os(e, ERRC_INTERNAL_ERROR, errno, "listening on %s", wanted);
	}
	name_address(fd, s->address, sizeof s->address);
	if (!is_loopback(&ep))
		log_event(LOG_WARN, "other machines can connect: only the token protects the boxes", "address=%s",
			s->address);
	s->tcp = take_fd(&fd);
	return 0;
}

static int listen_local(const struct up_place *p, struct up_sockets *s, struct err *e)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/atoll.sock", p->run);
	s->local = fd_unix_listen(path, SOCK_STREAM, 0660, LISTEN_BACKLOG);
	if (s->local < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -s->local, "listening on %s", path);
	/* Users who may connect need no token: root, the daemon's user and its group. */
	if (lchown(path, 0, p->gid) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "owner of %s", path);
	return 0;
}

static int listen_docker(const struct up_place *p, struct up_sockets *s, struct err *e)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/docker.sock", p->run);
	s->docker = fd_unix_listen(path, SOCK_STREAM, 0660, LISTEN_BACKLOG);
	if (s->docker < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -s->docker, "listening on %s", path);
	if (lchown(path, 0, p->gid) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "owner of %s", path);
	return 0;
}

/* Where the daemon asks itself. */
static int listen_own(const struct up_place *p, struct up_sockets *s, struct err *e)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/own.sock", p->run);
	s->own = fd_unix_listen(path, SOCK_STREAM, 0600, LISTEN_BACKLOG);
	if (s->own < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -s->own, "listening on %s", path);
	return lchown(path, p->uid, p->gid) < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "owner of %s", path) : 0;
}

/* Where the gate, and nobody else, hands requests to the daemon. */
static int listen_hook(const struct up_place *p, struct up_sockets *s, struct err *e)
{
	char path[PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/hook.sock", p->run);
	s->hook = fd_unix_listen(path, SOCK_STREAM, 0600, LISTEN_BACKLOG);
	if (s->hook < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -s->hook, "listening on %s", path);
	return lchown(path, p->gate_uid, p->gate_gid) < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "owner of %s", path)
							  : 0;
}

/* Where the warden and the daemon reach the gate. Its own, so that they stay while it is started again. */
static int listen_gate(const struct up_place *p, struct up_sockets *s, struct err *e)
{
	char warden[PATH_MAX + 16], daemon[PATH_MAX + 16];
	snprintf(warden, sizeof warden, "%s/gate-w.sock", p->run);
	snprintf(daemon, sizeof daemon, "%s/gate.sock", p->run);
	s->gate_warden = fd_unix_listen(warden, SOCK_SEQPACKET, 0600, GATE_BACKLOG);
	s->gate_daemon = fd_unix_listen(daemon, SOCK_STREAM, 0600, GATE_BACKLOG);
	if (s->gate_warden < 0 || s->gate_daemon < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -(s->gate_warden < 0 ? s->gate_warden : s->gate_daemon),
			"listening on %s", s->gate_warden < 0 ? warden : daemon);
	if (lchown(daemon, p->uid, p->gid) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "owner of %s", daemon);
	return listen_hook(p, s, e);
}

int up_listen(struct cli *c, const struct up_place *p, struct up_sockets *ret, struct err *e)
{
	const char *wanted = getenv("ATOLL_LISTEN");
	char path[PATH_MAX + 16], line[80];
	if (listen_tcp(c, wanted && *wanted ? wanted : "127.0.0.1:8700", ret, e) < 0 || listen_local(p, ret, e) < 0 ||
		listen_docker(p, ret, e) < 0 || listen_own(p, ret, e) < 0 || listen_gate(p, ret, e) < 0)
		return -1;
	setenv("ATOLL_LISTEN", ret->address, 1);
	snprintf(path, sizeof path, "%s/listen", p->run);
	snprintf(line, sizeof line, "%s\n", ret->address);
	int r = fd_replace_file(AT_FDCWD, path, str_of(line), 0644);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "writing %s", path) : 0;
}

void up_unlisten(const struct up_place *p)
{
	static const char *const names[] = {
		"atoll.sock", "docker.sock", "own.sock", "gate.sock", "gate-w.sock", "hook.sock", "listen"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[PATH_MAX + 16];
		snprintf(path, sizeof path, "%s/%s", p->run, names[i]);
		unlink(path);
	}
}
