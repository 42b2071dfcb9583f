#include "cage/slot.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "cage/dev.h"
#include "cage/fs.h"
#include "cage/init.h"
#include "cage/trash.h"
#include "proto/limits.h"

enum { SLOT_NAME = 16 };

/* Descriptors that the child inherits; the warden closes its copies afterwards. */
struct birth {
	struct init_fds fds;
	int cgroup;
};

static void birth_close(struct birth *b)
{
	fd_close(&b->fds.control);
	fd_close(&b->fds.dev);
	fd_close(&b->fds.shm);
	fd_close(&b->fds.listen);
	fd_close(&b->fds.oom);
	fd_close(&b->fds.ask);
	fd_close(&b->fds.reply);
	for (int i = 0; i < CGROUP_LEAVES; i++)
		fd_close(&b->fds.leaves[i]);
	fd_close(&b->cgroup);
}

static void socket_name(char ret[SLOT_NAME + 8], uint32_t number)
{
	snprintf(ret, SLOT_NAME + 8, "%u.sock", number);
}

/* Binds the socket. It takes its mode from the descriptor, so there is no moment with a wider mode. A name that a
 * killed warden left is unused: the number is ours alone. */
static int bind_name(const struct slot_host *h, int fd, const char *name)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s/%s", h->sockets_path, name);
	if (bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -1;
	unlinkat(h->sockets, name, 0);
	return bind(fd, (struct sockaddr *)&sa, sizeof sa);
}

/* Listening before the box exists, so that atolld never waits for it. */
static int make_socket(const struct slot_host *h, uint32_t number, struct err *e)
{
	char name[SLOT_NAME + 8];
	socket_name(name, number);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || fchmod(fd, 0600) < 0 || bind_name(h, fd, name) < 0 ||
		fchownat(h->sockets, name, h->user, h->group, AT_SYMLINK_NOFOLLOW) < 0 ||
		listen(fd, BOX_AGENT_BACKLOG) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "make the agent's socket %s", name);
	return take_fd(&fd);
}

static void ask_name(char ret[SLOT_NAME + 8], uint32_t number)
{
	snprintf(ret, SLOT_NAME + 8, "%u.ask", number);
}

int slot_open_ask(const struct slot_host *h, uint32_t number)
{
	char name[SLOT_NAME + 8];
	ask_name(name, number);
	return openat(h->sockets, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
}

/* The agent asks by a pipe and is answered by a socket: a box can send no descriptor to the warden. The pipe outlives
 * the warden. */
static int make_channel(const struct slot_host *h, struct slot *s, struct birth *b, struct err *e)
{
	int reply[2];
	char name[SLOT_NAME + 8];
	ask_name(name, s->number);
	unlinkat(h->sockets, name, 0);
	if (mknodat(h->sockets, name, S_IFIFO | 0600, 0) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "make the agent's pipe");
	s->ask = slot_open_ask(h, s->number);
	b->fds.ask = s->ask < 0 ? -1 : openat(h->sockets, name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (b->fds.ask < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open the agent's pipe");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, reply) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "make the agent's socket pair");
	s->reply = reply[0];
	b->fds.reply = reply[1];
	return shutdown(s->reply, SHUT_RD) < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, errno, "shut the socket pair") : 0;
}

static int make_birth(const struct slot_host *h, struct slot *s, struct birth *b, struct err *e)
{
	int pair[2];
	if (cgroup_split(h->cgroups, s->number, e) < 0 ||
		cgroup_open_leaves(h->cgroups, s->number, b->fds.leaves, e) < 0)
		return -1;
	if (cgroup_limit(h->cgroups, s->number,
		    &(struct box_limits){BOX_MEM_DEFAULT, BOX_CPU_DEFAULT, BOX_PIDS_DEFAULT, BOX_DISK_DEFAULT}, e) < 0)
		return -1;
	b->cgroup = cgroup_open_v2(h->cgroups, s->number, e);
	b->fds.oom = b->cgroup < 0 ? -1 : cgroup_open_oom(h->cgroups, s->number, e);
	if (b->fds.oom < 0 || dev_make(ids_base(s->number), &b->fds.dev, &b->fds.shm, e) < 0)
		return -1;
	b->fds.listen = make_socket(h, s->number, e);
	if (b->fds.listen < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "make the set-up socket");
	s->control = pair[0];
	b->fds.control = pair[1];
	b->fds.agent = h->agent;
	return make_channel(h, s, b, e);
}

/* The kernel charges the budgets of a user namespace (queued signals, message queues, inotify, processes) to the user
 * that made it. Here that is the box's own root. If it were the warden, one box could use up the share of the host's
 * root and of all boxes. */
static pid_t clone_as(uint32_t root, struct clone_args *a)
{
	if (seteuid(root) < 0)
		return -1;
	pid_t pid = sys_clone3(a);
	int os = errno;
	if (pid != 0 && seteuid(0) < 0)
		base_bug(__FILE__, __LINE__, "root could not be had back");
	errno = os;
	return pid;
}

static int give_birth(struct slot *s, const struct birth *b, struct err *e)
{
	struct clone_args a = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_PIDFD | CLONE_INTO_CGROUP,
		.pidfd = (uint64_t)(uintptr_t)&s->pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)b->cgroup,
	};
	s->pid = clone_as(ids_base(s->number), &a);
	if (s->pid == 0)
		init_run(&b->fds);
	if (s->pid < 0) {
		s->pid = 0;
		return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "clone the box's first process");
	}
	return 0;
}

static int map_ids(struct slot *s, struct err *e)
{
	char path[48], map[48];
	snprintf(map, sizeof map, "0 %u %u\n", ids_base(s->number), BOX_UID_RANGE);
	static const char *const files[] = {"uid_map", "gid_map"};
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof path, "/proc/%d/%s", s->pid, files[i]);
		int r = fd_write_file(AT_FDCWD, path, str_of(map));
		if (r < 0)
			return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "write %s", files[i]);
	}
	s->userns = slot_open_ns(s->pid, "user");
	return s->userns < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open the user namespace") : 0;
}

void slot_make_layer(const struct slot_host *h, struct slot *s, const struct image *image)
{
	char name[SLOT_NAME];
	snprintf(name, sizeof name, "%u", s->number);
	if (pool_layer_make(h->pool, h->layers, name, BOX_DISK_DEFAULT, NULL) < 0)
		return;
	const struct layer_mount_args a = {.images = h->images,
		.tools = h->tools,
		.image = image,
		.dir = h->layers,
		.name = name,
		.userns = s->userns,
		.root = ids_base(s->number),
		.is_volatile = h->pool->kind == POOL_PLAIN};
	s->is_volatile = a.is_volatile;
	s->overlay = layer_mount(&a, s->spent, NULL);
	s->image = *image;
	if (s->overlay < 0)
		trash_put(h->layers, name, h->trash);
}

static int slot_build(
	const struct slot_host *h, struct slot *s, const struct image *image, struct birth *b, struct err *e)
{
	if (make_birth(h, s, b, e) < 0 || give_birth(s, b, e) < 0)
		return -1;
	s->start_time = slot_start_time(s->pid);
	if (map_ids(s, e) < 0 || cgroup_attach(h->cgroups, s->number, s->pid, e) < 0 ||
		init_send_maps(s->control, e) < 0)
		return -1;
	if (image)
		slot_make_layer(h, s, image);
	return 0;
}

/* The child does nothing yet but wait for us, so this wait is short. */
static void slot_undo(const struct slot_host *h, struct slot *s)
{
	if (s->pid > 0) {
		sys_pidfd_signal(s->pidfd, SIGKILL);
		waitid(P_PIDFD, (id_t)s->pidfd, &(siginfo_t){0}, WEXITED);
	}
	slot_close(s);
	cgroup_remove(h->cgroups, s->number);
	slot_forget(h, s->number);
}

void slot_forget(const struct slot_host *h, uint32_t number)
{
	char name[SLOT_NAME + 8];
	socket_name(name, number);
	unlinkat(h->sockets, name, 0);
	ask_name(name, number);
	unlinkat(h->sockets, name, 0);
	slot_drop_layer(h, number);
}

void slot_drop_layer(const struct slot_host *h, uint32_t number)
{
	char name[SLOT_NAME];
	snprintf(name, sizeof name, "%u", number);
	trash_put(h->layers, name, h->trash);
}

int slot_make(const struct slot_host *h, uint32_t number, const struct image *image, struct slot *ret, struct err *e)
{
	struct slot s = SLOT_EMPTY;
	struct birth b = {.fds = {-1, -1, -1, -1, -1, -1, -1, -1, {-1, -1}}, .cgroup = -1};
	s.number = number;
	if (cgroup_make(h->cgroups, number, e) < 0)
		return -1;
	int r = slot_build(h, &s, image, &b, e);
	birth_close(&b);
	if (r < 0) {
		slot_undo(h, &s);
		return -1;
	}
	*ret = s;
	return 0;
}

void slot_close(struct slot *s)
{
	fd_close(&s->pidfd);
	fd_close(&s->control);
	fd_close(&s->userns);
	fd_close(&s->mntns);
	fd_close(&s->overlay);
	fd_close(&s->ask);
	fd_close(&s->reply);
	for (int i = 0; i < LAYER_SPENT; i++)
		fd_close(&s->spent[i]);
}

int slot_open_ns(pid_t pid, const char *which)
{
	char path[48];
	snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, which);
	return open(path, O_RDONLY | O_CLOEXEC);
}

uint64_t slot_start_time(pid_t pid)
{
	char path[32];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	auto_buf struct buf text = {0};
	if (fd_read_file(AT_FDCWD, path, 4096, &text) < 0)
		return 0;
	/* The second field is the command in parentheses and may hold anything: count from the last one. */
	const char *s = buf_cstr(&text), *p = strrchr(s, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}
