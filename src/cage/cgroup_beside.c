/*
 * Groups beside those of boxes, in our own directory: work that can wait, and the programs that hold sockets for boxes.
 */
#include <stdio.h>
#include <sys/stat.h>
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
	auto_fd int dir = open_group(v1 ? c->v1[k] : c->v2, name);
	if (dir < 0 || (k == CGROUP_CPU && put_weight(dir, v1, PROGRAM_WEIGHT) < 0))
		return -1;
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	if (k == CGROUP_MEMORY && !v1 && put(dir, "memory.high", memory / PROGRAM_MEM_SHARE) < 0)
		return -1;
	return open_procs(dir);
}

int cgroup_open_program(const struct cgroups *c, const char *name, int ret[CGROUP_LEAVES])
{
	static const enum cgroup_controller both[] = {CGROUP_MEMORY, CGROUP_CPU};
	int n = 0;
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

void cgroup_remove_beside(const struct cgroups *c)
{
	const int dirs[] = {c->v2, c->v1[CGROUP_MEMORY], c->v1[CGROUP_CPU]};
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		for (size_t k = 0; dirs[i] >= 0 && k < ARRAY_LEN(beside); k++)
			unlinkat(dirs[i], beside[k], AT_REMOVEDIR);
}
