#include "warden/background.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/log.h"
#include "proto/groups.h"
#include "warden/warden.h"

enum { STATUS_MAX = 16384 };

/* Without it backups compete with boxes as equals: no reason not to start. */
void background_open(struct warden *w)
{
	w->background = cgroup_open_background(&w->cgroups);
	if (w->background < 0)
		log_event(LOG_WARN, "no cgroup for work in the background", "error=%s", LOG_Q(strerror(errno)));
}

/* A socket from `atoll up`: descriptor 3, by systemd's protocol. */
static bool has_socket_of_up(void)
{
	const char *pid = getenv("LISTEN_PID"), *names = getenv("LISTEN_FDNAMES");
	uint64_t n;
	bool ours = pid && names && str_to_u64(str_of(pid), INT32_MAX, &n) && (pid_t)n == getpid() &&
		    strcmp(names, "groups") == 0;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return ours;
}

/* Programs without a group run as well, in the supervisor's. */
static uint32_t open_groups(const struct cgroups *c, const char *name, int *fds)
{
	int n = cgroup_open_program(c, name, fds);
	if (n < 0)
		log_event(LOG_WARN, "no cgroup for a program", "name=%s error=%s", name, LOG_Q(strerror(errno)));
	return n < 0 ? 0 : (uint32_t)n;
}

void background_tell_up(const struct cgroups *c)
{
	int up = 3, fds[GROUPS_PROGRAMS * GROUPS_FILES];
	struct groups_record r = {.magic = GROUPS_MAGIC};
	_Static_assert((int)GROUPS_FILES >= (int)CGROUP_LEAVES, "a program's files fit");
	if (!has_socket_of_up())
		return;
	r.n[GROUPS_GATE] = open_groups(c, CGROUP_GATE, fds);
	r.n[GROUPS_DAEMON] = open_groups(c, CGROUP_DAEMON, fds + r.n[GROUPS_GATE]);
	size_t n = r.n[GROUPS_GATE] + r.n[GROUPS_DAEMON];
	ssize_t sent = fd_send(up, &r, sizeof r, fds, n, MSG_DONTWAIT);
	if (sent < 0)
		log_event(LOG_WARN, "the supervisor does not take the cgroups of its programs", "error=%s",
			LOG_Q(strerror((int)-sent)));
	while (n)
		fd_close(&fds[--n]);
	fd_close(&up);
}

static bool is_child_of(pid_t pid, pid_t parent)
{
	char path[40], want[40];
	auto_buf struct buf text = {0};
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	int n = snprintf(want, sizeof want, "\nPPid:\t%d\n", parent);
	return fd_read_file(AT_FDCWD, path, STATUS_MAX, &text) == 0 && memmem(text.p, text.len, want, (size_t)n);
}

/* The daemon may name its own children only. */
static int take(struct warden *w, uint32_t pid, struct err *e)
{
	struct ucred daemon = {0};
	socklen_t n = sizeof daemon;
	char text[16];
	if (w->background < 0)
		return err_set(e, ERRC_HOST_UNSUPPORTED, "there is no cgroup for work in the background");
	if (pid == 0 || pid > INT32_MAX || getsockopt(w->conn_io.fd, SOL_SOCKET, SO_PEERCRED, &daemon, &n) < 0 ||
		!is_child_of((pid_t)pid, daemon.pid))
		return err_set(e, ERRC_INVALID_REQUEST, "process %u is no child of the daemon", pid);
	int size = snprintf(text, sizeof text, "%u", pid);
	return write(w->background, text, (size_t)size) == size
		       ? 0
		       : err_os(e, ERRC_INTERNAL_ERROR, errno, "put process %u into the background", pid);
}

void background_take(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct err e = {0};
	int r = take(w, rq->count, &e);
	server_reply(w, &who, r < 0 ? &e : NULL, NULL);
}
