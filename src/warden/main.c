/*
 * atoll-warden: the one program that runs as root. It makes boxes for atolld and takes them down.
 *
 * Start: read the environment, open the cgroups, the image directory and the agent's program, leave the host's mounts
 * and network, drop privileges, find the boxes of the warden before, listen. Then one loop. A stop leaves boxes
 * running; the next start finds them.
 */
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/un.h>

#include "base/beside.h"
#include "base/fd.h"
#include "base/log.h"
#include "cage/program.h"
#include "cage/tools.h"
#include "proto/limits.h"
#include "warden/background.h"
#include "warden/isolate.h"
#include "warden/probe.h"
#include "warden/recover.h"
#include "warden/storage/carry.h"
#include "warden/storage/room.h"
#include "warden/storage/storage.h"
#include "warden/warden.h"

#define IDS_DIR "/run/atoll-ids"

static const char help[] = "usage: atoll-warden [--help | --probe]\n"
			   "\n"
			   "Makes and destroys the boxes of one atolld. Needs root. Started by 'atoll up'.\n"
			   "--probe tries what this host can do, for 'atoll doctor', and ends.\n"
			   "\n"
			   "environment:\n"
			   "  ATOLL_RUN     sockets and state, default /run/atoll\n"
			   "  ATOLL_DATA    the sandboxes' files, default /var/lib/atoll\n"
			   "  ATOLL_IMAGES  images, default $ATOLL_DATA/images\n"
			   "  ATOLL_AGENT   the agent's program, default atoll-agent beside this one\n"
			   "  ATOLL_USER    who may connect, default atoll\n"
			   "  ATOLL_POOL    'plain': plain directories, without disk limits and snapshots\n"
			   "  ATOLL_POOL_SIZE  at most so many bytes for the files of all sandboxes, like '100G'\n"
			   "  ATOLL_ZYGOTE  'off': contexts are started plainly, nothing is preloaded\n"
			   "  ATOLL_WARM_WORKERS  so many slots have a Node worker that waits, default 2; 0: none\n"
			   "  ATOLL_LOG, ATOLL_LOG_LEVEL  'json' or 'text'; 'error', 'warn', 'info', 'debug'\n";

struct config {
	const char *run, *data;
	char images[4096], agent[4096], fusermount[4096];
	const char *user_name;
	uid_t user;
	gid_t group;
};

static const char *from_env(const char *name, const char *otherwise)
{
	const char *v = getenv(name);
	return v && *v ? v : otherwise;
}

static void beside_self(const char *name, char *ret, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", ret, size - strlen(name) - 2);
	ret[n > 0 ? n : 0] = 0;
	char *slash = strrchr(ret, '/');
	snprintf(slash ? slash : ret, strlen(name) + 2, "/%s", name);
}

static int find_user(struct config *c, struct err *e)
{
	uint64_t number;
	const struct passwd *p = getpwnam(c->user_name);
	if (p) {
		c->user = p->pw_uid;
		c->group = p->pw_gid;
	} else if (str_to_u64(str_of(c->user_name), INT32_MAX, &number)) {
		c->user = c->group = (uid_t)number;
	} else {
		return err_set(e, ERRC_HOST_UNSUPPORTED, "there is no user '%s' (ATOLL_USER); 'atoll up' makes it",
			c->user_name);
	}
	return 0;
}

static int read_config(struct config *c, struct err *e)
{
	c->run = from_env("ATOLL_RUN", "/run/atoll");
	c->data = from_env("ATOLL_DATA", "/var/lib/atoll");
	c->user_name = from_env("ATOLL_USER", "atoll");
	const char *images = from_env("ATOLL_IMAGES", NULL), *agent = from_env("ATOLL_AGENT", NULL);
	snprintf(c->images, sizeof c->images, images ? "%s" : "%s/images", images ? images : c->data);
	if (agent)
		snprintf(c->agent, sizeof c->agent, "%s", agent);
	else
		beside_self("atoll-agent", c->agent, sizeof c->agent);
	beside_self("atoll-fusermount", c->fusermount, sizeof c->fusermount);
	if (*c->run != '/' || *c->data != '/' || *c->images != '/')
		return err_set(
			e, ERRC_INVALID_REQUEST, "ATOLL_RUN, ATOLL_DATA and ATOLL_IMAGES must be absolute paths");
	char longest[256];
	int n = snprintf(longest, sizeof longest, WARDEN_AGENT_SOCKET_FMT, c->run, IDS_BLOCKS * IDS_BLOCK);
	if (n >= (int)sizeof((struct sockaddr_un *)0)->sun_path)
		return err_set(e, ERRC_INVALID_REQUEST,
			"ATOLL_RUN is too long: the path of a socket in it would have %d bytes, %zu are allowed", n,
			sizeof((struct sockaddr_un *)0)->sun_path - 1);
	return find_user(c, e);
}

static int check_host(struct err *e)
{
	if (geteuid() != 0)
		return err_set(e, ERRC_HOST_UNSUPPORTED,
			"atoll-warden needs root: it makes namespaces, mounts and cgroups for the sandboxes");
	auto_buf struct buf max = {0};
	uint64_t n = 1;
	struct str rest;
	if (access("/proc/self/ns/user", F_OK) < 0)
		return err_set(e, ERRC_HOST_UNSUPPORTED, "this kernel has no user namespaces (CONFIG_USER_NS)");
	if (fd_read_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", 64, &max) == 0 &&
		str_to_u64(str_split(buf_str(&max), '\n', &rest), UINT64_MAX, &n) && n == 0)
		return err_set(e, ERRC_HOST_UNSUPPORTED,
			"user namespaces are switched off (sysctl user.max_user_namespaces is 0)");
	return 0;
}

/* mkdir -p of the last component only: the parents are the administrator's. */
static int make_dir(const char *base, const char *name, mode_t mode, struct err *e)
{
	char path[4096];
	snprintf(path, sizeof path, name ? "%s/%s" : "%s", base, name);
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "make the directory '%s'", path);
	struct stat st;
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != 0)
		return err_set(e, ERRC_HOST_UNSUPPORTED, "'%s' is not a directory of root", path);
	if (name && chmod(path, mode) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "set the mode of '%s'", path);
	return 0;
}

/* The agents' sockets: only the daemon's group may enter the directory; only root may list it. */
static int make_sockets_dir(const struct config *c, struct err *e)
{
	char path[4096];
	if (make_dir(c->run, "s", 0710, e) < 0)
		return -1;
	snprintf(path, sizeof path, "%s/s", c->run);
	return chown(path, 0, c->group) < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, errno, "give '%s' to the daemon", path)
					    : 0;
}

static int make_dirs(const struct config *c, struct err *e)
{
	if (make_dir(c->run, NULL, 0711, e) < 0 || make_sockets_dir(c, e) < 0 ||
		make_dir(c->run, "boxes", 0700, e) < 0 || make_dir(c->data, NULL, 0711, e) < 0 ||
		make_dir(c->data, "boxes", 0700, e) < 0 || make_dir(c->data, "slots", 0700, e) < 0 ||
		make_dir(c->data, "trash", 0700, e) < 0 || make_dir(c->data, "tools", 0700, e) < 0 ||
		make_dir(IDS_DIR, NULL, 0700, e) < 0)
		return -1;
	struct stat st;
	if (stat(c->images, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(
			e, ERRC_IMAGE_NOT_FOUND, "there is no image directory '%s'; 'make image' makes it", c->images);
	return 0;
}

/* Held as long as the warden lives. */
static int lock_run(const struct config *c, struct err *e)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/warden.lock", c->run);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || !ids_lock(fd))
		return errno == EAGAIN || errno == EACCES
			       ? err_set(e, ERRC_RESOURCE_BUSY, "another warden runs already in '%s'", c->run)
			       : err_os(e, ERRC_HOST_UNSUPPORTED, errno, "lock '%s'", path);
	return 0;
}

static void learn_host(struct warden *w)
{
	struct sysinfo si;
	auto_buf struct buf text = {0};
	struct str rest;
	uint64_t pid_max = BOX_PIDS_MAX;
	if (sysinfo(&si) == 0)
		w->offer.mem_total = (uint64_t)si.totalram * si.mem_unit;
	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/pid_max", 64, &text) == 0)
		str_to_u64(str_split(buf_str(&text), '\n', &rest), UINT32_MAX, &pid_max);
	w->offer.pids_max = pid_max < BOX_PIDS_MAX ? (uint32_t)pid_max : BOX_PIDS_MAX;
	w->offer.cpus_milli = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) * 1000;
	w->offer.cgroup_version = w->cgroups.version;
	w->offer.dynmods = w->cgroups.dynmods;
	log_event(LOG_INFO, "host", "cgroups=%u dynmods=%d private_hierarchy=%d cpus_milli=%u mem=%llu",
		w->offer.cgroup_version, w->cgroups.dynmods, w->cgroups.private_mount >= 0, w->offer.cpus_milli,
		(unsigned long long)w->offer.mem_total);
	background_open(w);
}

/* A warden without fusermount serves boxes without FUSE mounts. */
static void make_tools(const struct config *c, char name[TOOLS_NAME])
{
	char path[4096];
	struct err e;
	snprintf(path, sizeof path, "%s/tools", c->data);
	auto_fd int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || tools_make(dir, c->fusermount, name, &e) < 0) {
		log_event(LOG_WARN, "no FUSE mounts in boxes", "reason=%s", LOG_Q(dir < 0 ? strerror(errno) : e.msg));
		*name = 0;
	}
}

static void open_tools(struct warden *w, const char *name)
{
	char path[sizeof "/data/tools/" + TOOLS_NAME];
	snprintf(path, sizeof path, "/data/tools/%s", name);
	w->host.tools = *name ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : 0;
	if (w->host.tools < 0)
		w->host.tools = 0;
}

/* One name for everything that is machine-wide, from where the state lies. */
static void instance_name(const char *run, char ret[32])
{
	uint64_t hash = 14695981039346656037ull;
	for (; *run; run++)
		hash = (hash ^ (unsigned char)*run) * 1099511628211ull;
	snprintf(ret, 32, "atoll-%08x", (unsigned)(hash ^ hash >> 32));
}

static bool owner_lives(void *arg, const char *owner)
{
	return cgroup_name_lives(arg, owner);
}

static int open_dir(const char *path, int *ret, struct err *e)
{
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open %s", path) : 0;
}

static int open_dirs(struct warden *w, struct err *e)
{
	int ids;
	if (storage_enter(w, e) < 0 || open_dir("/run/boxes", &w->records_dir, e) < 0 ||
		open_dir("/run/s", &w->host.sockets, e) < 0 || open_dir("/images", &w->host.images, e) < 0 ||
		open_dir("/ids", &ids, e) < 0)
		return -1;
	w->own_net = slot_open_ns(getpid(), "net");
	if (w->own_net < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open the warden's network namespace");
	w->own_mounts = slot_open_ns(getpid(), "mnt");
	if (w->own_mounts < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open the warden's mount namespace");
	w->host.sockets_path = "/run/s";
	w->host.cgroups = &w->cgroups;
	ids_init(&w->ids, ids, w->cgroups.name, owner_lives, &w->cgroups);
	return 0;
}

static void on_signal(void *arg, int signo)
{
	struct warden *w = arg;
	log_event(LOG_INFO, "stopping", "signal=%d boxes=%zu", signo, w->boxes.count);
	loop_stop(w->loop);
}

/* From the first mount on the host: a signal waits until watch_signals can act on it and the mount is taken back. */
static void hold_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static int watch_signals(struct warden *w, struct err *e)
{
	int r = loop_service_signals(w->loop, on_signal, w);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watch signals") : 0;
}

static void on_supervisor_gone(struct loop_io *io, uint32_t events)
{
	(void)io;
	(void)events;
	log_event(LOG_WARN, "the supervisor is gone; boxes stay alive", "parent=%d", (int)getppid());
	_exit(1);
}

/* A supervisor that wants us to end with it has set PR_SET_PDEATHSIG. The kernel forgets that at the first change of
 * the file-system user (layers.c), so we watch the supervisor's pidfd ourselves. */
static int watch_supervisor(struct warden *w, struct err *e)
{
	static struct loop_io io;
	int wanted = 0;
	if (prctl(PR_GET_PDEATHSIG, &wanted) < 0 || !wanted)
		return 0;
	int fd = sys_pidfd_open(getppid());
	int r = fd < 0 ? -errno : loop_add(w->loop, &io, fd, EPOLLIN, on_supervisor_gone);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the supervisor") : 0;
}

static void want_zygotes(struct warden *w, const struct image *own)
{
	const char *zygote = from_env("ATOLL_ZYGOTE", "");
	w->zygotes_off = strcmp(zygote, "off") == 0;
	if (*zygote && !w->zygotes_off)
		log_event(LOG_WARN, "ATOLL_ZYGOTE can be 'off' or not set", "value=%s", LOG_Q(zygote));
	zygote_want(w, own);
}

static int warden_start(struct warden *w, struct err *e)
{
	struct config c = {0};
	char name[32];
	if (check_host(e) < 0 || watch_supervisor(w, e) < 0 || read_config(&c, e) < 0 || make_dirs(&c, e) < 0 ||
		lock_run(&c, e) < 0)
		return -1;
	instance_name(c.run, name);
	if (cgroup_open(&w->cgroups, name, e) < 0)
		return -1;
	background_tell_up(&w->cgroups);
	w->host.agent = program_load(c.agent, "atoll-agent", e);
	if (w->host.agent < 0)
		return -1;
	w->user = w->host.user = c.user;
	w->host.group = c.group;
	learn_host(w);
	if (storage_open(w, c.data, e) < 0)
		return -1;
	hold_signals();
	network_prepare_host(w, c.run);
	char tools[TOOLS_NAME], pool[4096];
	make_tools(&c, tools);
	fuse_prepare(w);
	snprintf(pool, sizeof pool, "%s/pool", c.data);
	const struct isolate_paths paths = {
		c.run, c.data, c.images, IDS_DIR, w->pool.kind == POOL_DIRECTORY ? pool : NULL, w->pool.mount};
	notes_collect(c.images, name, c.data);
	if (isolate_mounts(&paths, e) < 0 || open_dirs(w, e) < 0)
		return -1;
	open_tools(w, tools);
	if (isolate_privileges(e) < 0)
		return -1;
	struct image own = {0};
	lately_name(w, "default");
	if (image_find(w->host.images, "default", &own, e) < 0)
		log_event(LOG_WARN, "no default image", "error=%s", LOG_Q(e->msg));
	images_prepare(w, name);
	if (watch_signals(w, e) < 0)
		return -1;
	network_start(w);
	w->offer.network = w->network.bpf >= 0;
	if (storer_lock(w, e) < 0)
		return -1;
	storage_recover(w);
	recover(w);
	staging_recover(w);
	want_zygotes(w, &own);
	warm_init(w, from_env("ATOLL_WARM_WORKERS", ""));
	if (reaper_start(w, e) < 0 || storer_start(w, e) < 0 ||
		images_listen(w, "/run/" IMAGE_SOCKET, c.group, e) < 0 ||
		server_start(w, "/run/warden.sock", c.group, e) < 0)
		return -1;
	if (locks_watch(w, e) < 0)
		return -1;
	pool_kick(w);
	carry_start(w);
	log_event(LOG_INFO, "ready", "run=%s data=%s instance=%s user=%s boxes=%zu", LOG_Q(c.run), LOG_Q(c.data), name,
		LOG_Q(c.user_name), w->boxes.count);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--probe") == 0)
		return probe_run(from_env("ATOLL_DATA", "/var/lib/atoll"));
	if (argc > 1) {
		bool asked = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
		fputs(help, asked ? stdout : stderr);
		return asked ? 0 : 2;
	}
	beside_name("atoll-warden");
	log_init("atoll-warden");
	static struct warden w;
	w.listen_fd = -1;
	reaper_init(&w);
	storer_init(&w);
	room_init(&w);
	list_init(&w.storage_ops);
	pager_init(&w);
	list_init(&w.slots);
	list_init(&w.waiting);
	list_init(&w.all);
	list_init(&w.list_mark);
	list_init(&w.images.conns);
	w.loop = loop_new();
	struct err e = {0};
	if (!w.loop || warden_start(&w, &e) < 0) {
		fprintf(stderr, "atoll-warden: %s\n", w.loop ? e.msg : "no event loop");
		return 1;
	}
	loop_run(w.loop);
	pool_drain(&w);
	zygotes_end(&w);
	unlink("/run/" IMAGE_SOCKET);
	unlink("/run/warden.sock");
	if (w.boxes.count == 0) {
		cgroup_retire(&w.cgroups);
		ids_release(&w.ids);
		network_retire(&w);
	}
	return 0;
}
