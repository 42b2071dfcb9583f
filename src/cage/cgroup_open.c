/*
 * Finding the hierarchies. A line of mountinfo ends in "- <type> <source> <super options>"; a v1 hierarchy names its
 * controllers among the options.
 *
 * favordynmods: attaching a process to a group, as every command of a box is, takes a global reader-writer lock whose
 * first writer after a quiet time waits for an RCU grace period, 14-15 ms here. While any hierarchy is mounted with
 * this option the lock stays in its writer-friendly mode (55 us), so we mount an empty named hierarchy that no other
 * process sees.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cage/cgroup.h"
#include "cage/fs.h"
#include "cage/limits.h"

enum { MOUNTINFO_MAX = 4 << 20 };

static const char *const controller_names[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu"};

struct found {
	struct str v2;
	struct str v1[CGROUP_CONTROLLERS];
	bool any_v1, dynmods;
};

/* Is `word` one of the comma-separated words? */
static bool has_word(struct str list, const char *word)
{
	while (list.n) {
		struct str one = str_split(list, ',', &list);
		if (str_eq_c(one, word))
			return true;
	}
	return false;
}

static void read_line(struct str line, struct found *f)
{
	struct str field[5], rest = line;
	for (int i = 0; i < 5; i++)
		field[i] = str_split(rest, ' ', &rest);
	const char *dash = memmem(rest.p, rest.n, " - ", 3);
	if (!dash)
		return;
	rest = str_skip(rest, (size_t)(dash - rest.p) + 3);
	struct str type = str_split(rest, ' ', &rest), options;
	str_split(rest, ' ', &options);
	bool v1 = str_eq_c(type, "cgroup");
	if (!v1 && !str_eq_c(type, "cgroup2"))
		return;
	f->dynmods |= has_word(options, "favordynmods");
	if (!v1 && !f->v2.n)
		f->v2 = field[4];
	for (int i = 0; v1 && i < CGROUP_CONTROLLERS; i++)
		if (!f->v1[i].n && has_word(options, controller_names[i])) {
			f->v1[i] = field[4];
			f->any_v1 = true;
		}
}

/* Blanks and backslashes in a mount point are written as three octal digits. */
static int open_mountpoint(struct str escaped)
{
	char path[4096];
	size_t n = 0;
	for (size_t i = 0; i < escaped.n && n + 1 < sizeof path; i++) {
		if (escaped.p[i] == '\\' && i + 3 < escaped.n) {
			path[n++] = (char)((escaped.p[i + 1] - '0') * 64 + (escaped.p[i + 2] - '0') * 8 +
					   (escaped.p[i + 3] - '0'));
			i += 3;
		} else {
			path[n++] = escaped.p[i];
		}
	}
	path[n] = 0;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int open_own(int root, const char *name, const char *hierarchy, struct err *e)
{
	if (mkdirat(root, name, 0755) < 0 && errno != EEXIST)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "the cgroup hierarchy '%s' cannot be written (mkdir %s)",
			hierarchy, name);
	/* A mount of its own: a box that holds a file of it (the out-of-memory counter) sees no path of the host. */
	return fs_clone(root, name, 0, e);
}

/* Lets the children of `dir` have the controller. */
static int enable(int dir, const char *controller, struct err *e)
{
	auto_buf struct buf on = {0};
	if (fd_read_file(dir, "cgroup.subtree_control", 4096, &on) == 0) {
		struct str words = str_trim(buf_str(&on));
		while (words.n) {
			struct str one = str_split(words, ' ', &words);
			if (str_eq_c(str_trim(one), controller) || str_eq_c(one, controller))
				return 0;
		}
	}
	char text[32];
	snprintf(text, sizeof text, "+%s", controller);
	int r = fd_write_file(dir, "cgroup.subtree_control", str_of(text));
	if (r < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -r, "the cgroup controller '%s' cannot be enabled", controller);
	return 0;
}

static int open_v2(struct cgroups *c, const struct found *f, struct err *e)
{
	int root = c->roots[0] = f->v2.n ? open_mountpoint(f->v2) : fs_make("cgroup2", NULL, 0, 0, "mount cgroup2", e);
	if (root < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "the unified cgroup hierarchy cannot be opened");
	c->v2 = open_own(root, c->name, "unified", e);
	if (c->v2 < 0)
		return -1;
	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		if (!f->v1[i].n &&
			(enable(root, controller_names[i], e) < 0 || enable(c->v2, controller_names[i], e) < 0))
			return -1;
	return 0;
}

static int open_v1(struct cgroups *c, const struct found *f, struct err *e)
{
	for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
		if (!f->v1[i].n)
			continue;
		int root = c->roots[1 + i] = open_mountpoint(f->v1[i]);
		if (root < 0)
			return err_os(
				e, ERRC_HOST_UNSUPPORTED, errno, "open the cgroup hierarchy '%s'", controller_names[i]);
		c->v1[i] = open_own(root, c->name, controller_names[i], e);
		if (c->v1[i] < 0)
			return -1;
	}
	c->memsw = c->v1[CGROUP_MEMORY] >= 0 &&
		   faccessat(c->v1[CGROUP_MEMORY], "memory.memsw.limit_in_bytes", F_OK, 0) == 0;
	/* The groups of boxes inherit it: no swap while a box is awake (cgroup_allow_swap). */
	if (c->v1[CGROUP_MEMORY] >= 0)
		fd_write_file(c->v1[CGROUP_MEMORY], "memory.swappiness", STR("0"));
	return 0;
}

/* Process numbers are one table for the whole machine: all boxes together leave the host some of them. */
static int reserve_pids(const struct cgroups *c, struct err *e)
{
	auto_buf struct buf text = {0};
	uint64_t max;
	char share[24];
	int r = fd_read_file(AT_FDCWD, "/proc/sys/kernel/pid_max", 64, &text);
	if (r < 0 || !str_to_u64(str_trim(str_split(buf_str(&text), '\n', &(struct str){0})), UINT32_MAX, &max))
		return err_os(e, ERRC_HOST_UNSUPPORTED, r < 0 ? -r : EINVAL, "read /proc/sys/kernel/pid_max");
	snprintf(share, sizeof share, "%llu", (unsigned long long)(max * WARDEN_PIDS_PERCENT / 100));
	r = fd_write_file(c->v1[CGROUP_PIDS] >= 0 ? c->v1[CGROUP_PIDS] : c->v2, "pids.max", str_of(share));
	return r < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, -r, "limit the processes of all sandboxes") : 0;
}

/* v1 counts socket buffers apart from memory. All boxes together get half of the memory that net.ipv4.tcp_mem allows
 * before TCP refuses. The limit also keeps the counting switched on: the kernel patches its own code for the first
 * group that counts and after the last one. */
static int reserve_sockets(const struct cgroups *c, struct err *e)
{
	auto_buf struct buf text = {0};
	uint64_t pages = 0;
	char share[24];
	if (c->v1[CGROUP_MEMORY] < 0 || faccessat(c->v1[CGROUP_MEMORY], CGROUP_V1_SOCKETS, F_OK, 0) < 0)
		return 0;
	int r = fd_read_file(AT_FDCWD, "/proc/sys/net/ipv4/tcp_mem", 128, &text);
	struct str rest = str_split(buf_str(&text), '\n', &(struct str){0});
	while (r >= 0 && rest.n)
		if (!str_to_u64(str_trim(str_split(rest, '\t', &rest)), UINT32_MAX, &pages))
			r = -EINVAL;
	/* Only the first network namespace of a machine shows it. Elsewhere: what the kernel makes of the memory. */
	if (r == -ENOENT)
		pages = (uint64_t)sysconf(_SC_PHYS_PAGES) / 32 * 3;
	else if (r < 0 || !pages)
		return err_os(e, ERRC_HOST_UNSUPPORTED, r < 0 ? -r : EINVAL, "read /proc/sys/net/ipv4/tcp_mem");
	uint64_t bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 100 * WARDEN_SOCKETS_PERCENT;
	snprintf(share, sizeof share, "%llu", (unsigned long long)bytes);
	r = fd_write_file(c->v1[CGROUP_MEMORY], CGROUP_V1_SOCKETS, str_of(share));
	return r < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, -r, "limit the sockets of all sandboxes") : 0;
}

static void favor_dynmods(struct cgroups *c, const struct found *f)
{
	c->dynmods = f->dynmods;
	if (c->dynmods)
		return;
	const struct fs_option options[] = {{"none"}, {"name", c->name}, {"favordynmods"}};
	c->private_mount = fs_make("cgroup", options, ARRAY_LEN(options), 0, "mount a cgroup hierarchy", NULL);
	c->dynmods = c->private_mount >= 0;
}

int cgroup_open(struct cgroups *c, const char *name, struct err *e)
{
	*c = (struct cgroups){.v2 = -1, .unit = -1, .roots = {-1, -1, -1, -1}, .v1 = {-1, -1, -1}, .private_mount = -1};
	snprintf(c->name, sizeof c->name, "%s", name);
	auto_buf struct buf text = {.max = MOUNTINFO_MAX};
	int r = fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text);
	if (r < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, -r, "read /proc/self/mountinfo");
	struct found f = {0};
	for (struct str rest = buf_str(&text); rest.n;)
		read_line(str_split(rest, '\n', &rest), &f);
	if (open_v2(c, &f, e) < 0 || open_v1(c, &f, e) < 0 || reserve_pids(c, e) < 0 || reserve_sockets(c, e) < 0) {
		cgroup_close(c);
		return -1;
	}
	favor_dynmods(c, &f);
	c->version = !f.any_v1 ? 2 : f.v2.n ? 12 : 1;
	cgroup_open_unit(c);
	return 0;
}

void cgroup_close(struct cgroups *c)
{
	fd_close(&c->v2);
	fd_close(&c->unit);
	fd_close(&c->private_mount);
	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		fd_close(&c->v1[i]);
	for (size_t i = 0; i < ARRAY_LEN(c->roots); i++)
		fd_close(&c->roots[i]);
}

void cgroup_retire(const struct cgroups *c)
{
	cgroup_remove_beside(c);
	for (size_t i = 0; i < ARRAY_LEN(c->roots); i++)
		if (c->roots[i] >= 0)
			unlinkat(c->roots[i], c->name, AT_REMOVEDIR);
}

bool cgroup_name_lives(const struct cgroups *c, const char *name)
{
	char path[96];
	auto_buf struct buf text = {0};
	snprintf(path, sizeof path, "%s/cgroup.events", name);
	if (strchr(name, '/') || fd_read_file(c->roots[0], path, 4096, &text) < 0)
		return false;
	return memmem(text.p, text.len, "populated 1", 11) != NULL;
}
