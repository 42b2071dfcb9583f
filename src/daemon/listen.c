#include "daemon/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "http/server/server.h"

enum { FIRST_INHERITED = 3, BACKLOG = 4096 };

static void address_text(int fd, char *ret, size_t cap)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a = {0};
	socklen_t len = sizeof a;
	char host[INET6_ADDRSTRLEN] = "";
	getsockname(fd, &a.sa, &len);
	if (a.sa.sa_family == AF_INET) {
		inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof host);
		snprintf(ret, cap, "%s:%u", host, (unsigned)ntohs(a.in.sin_port));
	} else if (a.sa.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof host);
		snprintf(ret, cap, "[%s]:%u", host, (unsigned)ntohs(a.in6.sin6_port));
	}
}

static void add(struct listeners *l, int fd, enum listen_tag tag)
{
	l->v[l->n].fd = fd;
	l->v[l->n++].tag = tag;
	if (tag == LISTEN_TCP && !l->address[0])
		address_text(fd, l->address, sizeof l->address);
}

/* Told apart by its name: $ATOLL_RUN/docker.sock. */
static bool is_named(int fd, const char *name)
{
	struct sockaddr_un at = {0};
	socklen_t n = sizeof at;
	if (getsockname(fd, (struct sockaddr *)&at, &n) < 0 || n <= offsetof(struct sockaddr_un, sun_path))
		return false;
	struct str path = str_n(at.sun_path, strnlen(at.sun_path, sizeof at.sun_path));
	return str_ends(path, str_of(name));
}

/* The i-th name of LISTEN_FDNAMES is "hook". */
static bool is_hook(int i)
{
	struct str names = str_of(getenv("LISTEN_FDNAMES")), one = STR("");
	for (; i >= 0; i--)
		one = str_split(names, ':', &names);
	return str_eq_c(one, "hook");
}

static int take_inherited_fd(struct listeners *l, int fd, struct err *e)
{
	int listening = 0, domain = 0, type = 0;
	socklen_t n = sizeof listening;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) < 0 || !listening ||
		getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_STREAM)
		return err_set(
			e, ERRC_INVALID_REQUEST, "LISTEN_FDS: descriptor %d is not a listening stream socket", fd);
	if (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6)
		return err_set(e, ERRC_INVALID_REQUEST, "LISTEN_FDS: descriptor %d is neither AF_UNIX nor IP", fd);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fd_set_nonblock(fd, true);
	add(l, fd,
		is_hook(fd - FIRST_INHERITED)  ? LISTEN_HOOK
		: domain != AF_UNIX	       ? LISTEN_TCP
		: is_named(fd, "/docker.sock") ? LISTEN_DOCKER
		: is_named(fd, "/own.sock")    ? LISTEN_OWN
					       : LISTEN_UNIX);
	return 0;
}

/* 1 when there were some, 0 when not, -1 when they are not what they should be. */
static int take_inherited(struct listeners *l, struct err *e)
{
	uint64_t pid = 0, n = 0;
	const char *pid_text = getenv("LISTEN_PID"), *n_text = getenv("LISTEN_FDS");
	if (!str_to_u64(str_of(pid_text), INT32_MAX, &pid) || pid != (uint64_t)getpid())
		return 0;
	if (!str_to_u64(str_of(n_text), LISTEN_MAX, &n))
		return err_set(e, ERRC_INVALID_REQUEST, "LISTEN_FDS must be a number up to %d", LISTEN_MAX);
	for (int i = 0; i < (int)n; i++)
		if (take_inherited_fd(l, FIRST_INHERITED + i, e) < 0)
			return -1;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	l->inherited = n > 0;
	return n > 0;
}

static int bind_docker(const struct config *c, gid_t gid, struct listeners *l, struct err *e)
{
	char path[108];
	snprintf(path, sizeof path, "%.80s/docker.sock", c->run);
	int fd = fd_unix_listen(path, SOCK_STREAM, 0660, BACKLOG);
	if (fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -fd, "listen on %s", path);
	add(l, fd, LISTEN_DOCKER);
	if (geteuid() == 0 && lchown(path, 0, gid) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "give %s to group %u", path, (unsigned)gid);
	return 0;
}

/* For our own user alone. */
static int bind_own(const struct config *c, uid_t uid, gid_t gid, struct listeners *l, struct err *e)
{
	int fd = fd_unix_listen(c->own_sock, SOCK_STREAM, 0600, BACKLOG);
	if (fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -fd, "listen on %s", c->own_sock);
	add(l, fd, LISTEN_OWN);
	if (geteuid() == 0 && lchown(c->own_sock, uid, gid) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "give %s to user %u", c->own_sock, (unsigned)uid);
	return 0;
}

static int bind_unix(const struct config *c, gid_t gid, struct listeners *l, struct err *e)
{
	int probe = fd_unix_connect(c->api_sock, SOCK_STREAM);
	if (probe >= 0 || probe == -EAGAIN) {
		fd_close(&probe);
		return err_set(e, ERRC_INVALID_STATE, "another atolld listens on %s", c->api_sock);
	}
	int fd = fd_unix_listen(c->api_sock, SOCK_STREAM, 0660, BACKLOG);
	if (fd < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -fd, "listen on %s (the directory must exist and be writable)",
			c->api_sock);
	add(l, fd, LISTEN_UNIX);
	if (geteuid() == 0 && lchown(c->api_sock, 0, gid) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "give %s to group %u", c->api_sock, (unsigned)gid);
	return 0;
}

static int bind_tcp(const struct config *c, struct listeners *l, struct err *e)
{
	int fd;
	if (http_listen_tcp(str_of(c->listen), &fd, e) < 0)
		return err_wrap(e, "ATOLL_LISTEN '%s'", c->listen);
	add(l, fd, LISTEN_TCP);
	return 0;
}

static int write_address(const struct config *c, const struct listeners *l, struct err *e)
{
	char line[80];
	int n = snprintf(line, sizeof line, "%s\n", l->address);
	int r = fd_replace_file(AT_FDCWD, c->listen_path, str_n(line, (size_t)n), 0644);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "write %s", c->listen_path) : 0;
}

int listen_open(const struct config *c, uid_t uid, gid_t gid, struct listeners *ret, struct err *e)
{
	*ret = (struct listeners){0};
	int r = take_inherited(ret, e);
	if (r > 0)
		return 0;
	if (r < 0 || bind_tcp(c, ret, e) < 0 || bind_unix(c, gid, ret, e) < 0 || bind_docker(c, gid, ret, e) < 0 ||
		bind_own(c, uid, gid, ret, e) < 0 || write_address(c, ret, e) < 0) {
		listen_close(ret);
		return -1;
	}
	return 0;
}

void listen_close(struct listeners *l)
{
	while (l->n)
		fd_close(&l->v[--l->n].fd);
}
