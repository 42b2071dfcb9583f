/*
 * Groups beside those of boxes, in our own directory: work that can wait, and the programs that hold sockets for boxes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "cage/cgroup.h"
#include "cage/limits.h"

static const char *const beside[] = {CGROUP_BACKGROUND, CGROUP_GATE, CGROUP_DAEMON};

static int open_group(int root, const char *name)
{
	if (mkdirat(root, name, 0755) < 0 && errno != EEXIST)
		return -1;
	return openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int put(int dir, const char *file, uint64_t v)
{
	char text[24];
	snprintf(text, sizeof text, "%llu", (unsigned long long)v);
	int r = fd_write_file(dir, file, str_of(text));
	if (r < 0)
		errno = -r;
	return r < 0 ? -1 : 0;
}

/* The same part in both: a box has 1024 of v1 and 100 of v2. */
static int put_weight(int dir, bool v1, uint64_t percent)
{
	return v1 ? put(dir, "cpu.shares", percent * 1024 / 100) : put(dir, "cpu.weight", percent);
}

static int open_procs(int dir)
{
	return openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
}

int cgroup_open_background(const struct cgroups *c)
{
	bool v1 = c->v1[CGROUP_CPU] >= 0;
	auto_fd int dir = open_group(v1 ? c->v1[CGROUP_CPU] : c->v2, CGROUP_BACKGROUND);
	return dir < 0 || put_weight(dir, v1, BACKGROUND_WEIGHT) < 0 ? -1 : open_procs(dir);
}

/* On v1 the group has no limit of its own for sockets. Sockets over it would drop all that they receive, those of every
 * box alike, and what it counts would also count in the limit of all boxes together. The gate knows which box fills
 * what, and bounds each of them (gate/windows.h). */
static int open_in(const struct cgroups *c, enum cgroup_controller k, const char *name)
{
	bool v1 = c->v1[k] >= 0;
	auto_fd int dir = open_group(v1 ? c->v1[k] : c->in_service ? c->unit : c->v2, name);
	if (dir < 0 || (k == CGROUP_CPU && put_weight(dir, v1, PROGRAM_WEIGHT) < 0))
		return -1;
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	if (k == CGROUP_MEMORY && !v1 && put(dir, "memory.high", memory / PROGRAM_MEM_SHARE) < 0)
		return -1;
	return open_procs(dir);
}

/* ---- in a service of systemd ---- */

/* Of "0::/system.slice/atoll.service/supervisor" the service, without the slash in front. */
static struct str service_of(struct str lines)
{
	static const struct str end = STR(".service");
	while (lines.n) {
		struct str line = str_split(lines, '\n', &lines);
		if (!str_starts(line, STR("0::/")))
			continue;
		line = str_skip(line, 4);
		const char *at = memmem(line.p, line.n, end.p, end.n);
		size_t n = at ? (size_t)(at - line.p) + end.n : 0;
		return at && (n == line.n || line.p[n] == '/') ? str_n(line.p, n) : STR_NULL;
	}
	return STR_NULL;
}

/* The supervisor and we; a child of theirs may come meanwhile. */
static int move_all(int unit, int supervisor)
{
	enum { TRIES = 8 };
	for (int i = 0; i < TRIES; i++) {
		auto_buf struct buf text = {0};
		if (fd_read_file(unit, "cgroup.procs", 64 * KIB, &text) < 0)
			return -1;
		struct str pids = buf_str(&text);
		if (!str_trim(pids).n)
			return 0;
		while (pids.n)
			fd_write_file(supervisor, "cgroup.procs", str_split(pids, '\n', &pids));
	}
	return -1;
}

void cgroup_open_unit(struct cgroups *c)
{
	auto_buf struct buf text = {0};
	if (c->v1[CGROUP_MEMORY] >= 0 || c->v1[CGROUP_CPU] >= 0 ||
		fd_read_file(AT_FDCWD, "/proc/self/cgroup", 4096, &text) < 0)
		return;
	struct str service = service_of(buf_str(&text));
	if (!service.n)
		return;
	c->in_service = true;
	auto_free char *path = str_dup(service);
	auto_fd int unit = openat(c->roots[0], path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int supervisor = unit < 0 ? -1 : open_group(unit, "supervisor");
	if (supervisor < 0 || move_all(unit, supervisor) < 0 ||
		fd_write_file(unit, "cgroup.subtree_control", STR("+memory +cpu")) < 0)
		return;
	c->unit = take_fd(&unit);
}

int cgroup_open_program(const struct cgroups *c, const char *name, int ret[CGROUP_LEAVES])
{
	static const enum cgroup_controller both[] = {CGROUP_MEMORY, CGROUP_CPU};
	int n = 0;
	if (c->in_service && c->unit < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		int fd = open_in(c, both[i], name);
		if (fd < 0) {
			while (n)
				fd_close(&ret[--n]);
			return -1;
		}
		/* v2 has both in one directory: one descriptor is enough. */
		if (n && c->v1[CGROUP_MEMORY] < 0 && c->v1[CGROUP_CPU] < 0)
			close(fd);
		else
			ret[n++] = fd;
	}
	return n;
}

/* A job of the daemon that ends with it may be on its way out. */
static void remove_group(int root, const char *name)
{
	enum { PAUSE_MS = 10, PAUSES = 200 };
	for (int i = 0; i < PAUSES && unlinkat(root, name, AT_REMOVEDIR) < 0 && errno == EBUSY; i++)
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
}

void cgroup_remove_beside(const struct cgroups *c)
{
	const int dirs[] = {c->v2, c->in_service ? c->unit : -1, c->v1[CGROUP_MEMORY], c->v1[CGROUP_CPU]};
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		for (size_t k = 0; dirs[i] >= 0 && k < ARRAY_LEN(beside); k++)
			remove_group(dirs[i], beside[k]);
}
