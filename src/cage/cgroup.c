#include "cage/cgroup.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "cage/limits.h"
#include "proto/limits.h"

enum { CGROUP_FILE_MAX = 512 * 1024, CGROUP_PATH_MAX = 64 };

#define COMMANDS "commands"
#define AGENT	 "agent"

static void slot_path(char ret[CGROUP_PATH_MAX], uint32_t slot, const char *file)
{
	snprintf(ret, CGROUP_PATH_MAX, file ? "%u/%s" : "%u", slot, file);
}

/* The directory that holds the controller's files. */
static int home(const struct cgroups *c, enum cgroup_controller k)
{
	return c->v1[k] >= 0 ? c->v1[k] : c->v2;
}

/* A file of a leaf of the group, or the leaf itself. */
static void leaf_path(char ret[CGROUP_PATH_MAX], uint32_t slot, const char *leaf, const char *file)
{
	snprintf(ret, CGROUP_PATH_MAX, file ? "%u/%s/%s" : "%u/%s", slot, leaf, file);
}

/* Zygotes have no leaves, nor have boxes of a warden before there were any. */
static bool has_leaf(int dir, uint32_t slot)
{
	char path[CGROUP_PATH_MAX];
	leaf_path(path, slot, COMMANDS, NULL);
	return faccessat(dir, path, F_OK, 0) == 0;
}

/* Where the limits of commands are, and commands themselves. */
static void commands_path(char ret[CGROUP_PATH_MAX], int dir, uint32_t slot, const char *file)
{
	if (has_leaf(dir, slot))
		leaf_path(ret, slot, COMMANDS, file);
	else
		slot_path(ret, slot, file);
}

static bool v2_has_leaves(const struct cgroups *c)
{
	return c->v1[CGROUP_MEMORY] < 0 || c->v1[CGROUP_CPU] < 0;
}

static int cgroup_put(int dir, uint32_t slot, const char *file, const char *text)
{
	char path[CGROUP_PATH_MAX];
	slot_path(path, slot, file);
	return fd_write_file(dir, path, str_of(text));
}

static int put_u64(int dir, uint32_t slot, const char *file, uint64_t v)
{
	char text[24];
	snprintf(text, sizeof text, "%llu", (unsigned long long)v);
	return cgroup_put(dir, slot, file, text);
}

static int put_leaf(int dir, uint32_t slot, const char *leaf, const char *file, uint64_t v)
{
	char path[CGROUP_PATH_MAX], text[24];
	leaf_path(path, slot, leaf, file);
	snprintf(text, sizeof text, "%llu", (unsigned long long)v);
	return fd_write_file(dir, path, str_of(text));
}

static int cgroup_get(int dir, uint32_t slot, const char *file, struct buf *ret)
{
	char path[CGROUP_PATH_MAX];
	slot_path(path, slot, file);
	return fd_read_file(dir, path, CGROUP_FILE_MAX, ret);
}

static uint64_t get_u64(int dir, uint32_t slot, const char *file)
{
	auto_buf struct buf text = {0};
	uint64_t v = 0;
	if (cgroup_get(dir, slot, file, &text) == 0) {
		struct str rest;
		str_to_u64(str_split(buf_str(&text), '\n', &rest), UINT64_MAX, &v);
	}
	return v;
}

/* The number behind "<key> " in a file of such lines; `otherwise` if there is none. */
static uint64_t get_keyed(int dir, uint32_t slot, const char *file, const char *key, uint64_t otherwise)
{
	auto_buf struct buf text = {0};
	uint64_t v = otherwise;
	if (cgroup_get(dir, slot, file, &text) < 0)
		return otherwise;
	for (struct str rest = buf_str(&text), value; rest.n;) {
		struct str name = str_split(str_split(rest, '\n', &rest), ' ', &value);
		if (str_eq_c(name, key))
			str_to_u64(value, UINT64_MAX, &v);
	}
	return v;
}

int cgroup_make(const struct cgroups *c, uint32_t slot, struct err *e)
{
	const int dirs[] = {c->v2, c->v1[CGROUP_MEMORY], c->v1[CGROUP_PIDS], c->v1[CGROUP_CPU]};
	char name[CGROUP_PATH_MAX];
	slot_path(name, slot, NULL);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (dirs[i] < 0 || mkdirat(dirs[i], name, 0755) == 0)
			continue;
		int os = errno;
		cgroup_remove(c, slot);
		return err_os(e, ERRC_BOX_CREATE_FAILED, os, "make cgroup %s/%s", c->name, name);
	}
	return 0;
}

static int make_leaf(int dir, uint32_t slot, const char *leaf)
{
	char path[CGROUP_PATH_MAX];
	leaf_path(path, slot, leaf, NULL);
	return mkdirat(dir, path, 0755) < 0 ? -errno : 0;
}

/* The unified hierarchy lets no process be beside a group that has controllers: the agent needs a leaf too. */
static int split_v2(const struct cgroups *c, uint32_t slot)
{
	int r = 0;
	if (c->v1[CGROUP_MEMORY] < 0)
		r = cgroup_put(c->v2, slot, "cgroup.subtree_control", "+memory");
	if (r == 0 && c->v1[CGROUP_CPU] < 0)
		r = cgroup_put(c->v2, slot, "cgroup.subtree_control", "+cpu");
	if (r == 0)
		r = make_leaf(c->v2, slot, AGENT);
	return r < 0 ? r : make_leaf(c->v2, slot, COMMANDS);
}

int cgroup_split(const struct cgroups *c, uint32_t slot, struct err *e)
{
	static const enum cgroup_controller split[] = {CGROUP_MEMORY, CGROUP_CPU};
	int r = v2_has_leaves(c) ? split_v2(c, slot) : 0;
	for (size_t i = 0; i < ARRAY_LEN(split) && r == 0; i++)
		if (c->v1[split[i]] >= 0)
			r = make_leaf(c->v1[split[i]], slot, COMMANDS);
	return r < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, -r, "split cgroup %s/%u", c->name, slot) : 0;
}

int cgroup_open_v2(const struct cgroups *c, uint32_t slot, struct err *e)
{
	char name[CGROUP_PATH_MAX];
	if (has_leaf(c->v2, slot))
		leaf_path(name, slot, AGENT, NULL);
	else
		slot_path(name, slot, NULL);
	int fd = openat(c->v2, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open cgroup %s/%s", c->name, name) : fd;
}

int cgroup_attach(const struct cgroups *c, uint32_t slot, pid_t pid, struct err *e)
{
	for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
		int r = c->v1[i] < 0 ? 0 : put_u64(c->v1[i], slot, "cgroup.procs", (uint64_t)pid);
		if (r < 0)
			return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "attach to cgroup %s/%u", c->name, slot);
	}
	return 0;
}

/* Memory and memory + swap get the same number: no swap. The kernel wants mem <= memsw at every moment, so when the
 * new limit is above the old memsw that one goes first. */
static int limit_group_v1(const struct cgroups *c, uint32_t slot, const char *leaf, uint64_t bytes)
{
	int dir = c->v1[CGROUP_MEMORY];
	int r = put_leaf(dir, slot, leaf, "memory.limit_in_bytes", bytes);
	if (!c->memsw)
		return r;
	int sw = put_leaf(dir, slot, leaf, "memory.memsw.limit_in_bytes", bytes);
	if (r == -EINVAL)
		r = put_leaf(dir, slot, leaf, "memory.limit_in_bytes", bytes);
	return r < 0 ? r : sw;
}

/* What commands hold must not take the agent's life: it has as much again, and never little. */
static uint64_t agent_memory(uint64_t bytes)
{
	return bytes < AGENT_MEM_MIN ? AGENT_MEM_MIN : bytes;
}

static int limit_memory_v1(const struct cgroups *c, uint32_t slot, uint64_t bytes)
{
	if (!has_leaf(c->v1[CGROUP_MEMORY], slot))
		return limit_group_v1(c, slot, ".", bytes);
	int r = limit_group_v1(c, slot, COMMANDS, bytes);
	return r < 0 ? r : limit_group_v1(c, slot, ".", bytes + agent_memory(bytes));
}

/* The box's own group has no limit: sockets can push a group above its limit, and then the kernel would look for a
 * victim in all of it. */
static int limit_memory_v2(const struct cgroups *c, uint32_t slot, uint64_t bytes)
{
	bool split = has_leaf(c->v2, slot);
	int r = put_leaf(c->v2, slot, split ? COMMANDS : ".", "memory.max", bytes);
	if (r == 0 && split)
		r = put_leaf(c->v2, slot, AGENT, "memory.max", agent_memory(bytes));
	int swap = cgroup_put(c->v2, slot, "memory.swap.max", "0");
	return r < 0 ? r : swap == -ENOENT ? 0 : swap;
}

/* v1 counts the buffers of TCP and UDP sockets apart from memory, and only where this limit is set; v2 counts them as
 * memory. */
static int limit_sockets_v1(const struct cgroups *c, uint32_t slot, uint64_t mem_bytes)
{
	int dir = c->v1[CGROUP_MEMORY];
	uint64_t bytes = mem_bytes / BOX_SOCKETS_SHARE;
	bytes = bytes < BOX_SOCKETS_MIN ? BOX_SOCKETS_MIN : bytes > BOX_SOCKETS_MAX ? BOX_SOCKETS_MAX : bytes;
	int r = put_leaf(dir, slot, has_leaf(dir, slot) ? COMMANDS : ".", CGROUP_V1_SOCKETS, bytes);
	return r == -ENOENT ? 0 : r; /* a kernel without it counts none */
}

enum { CPU_PERIOD_USEC = 100000 };

static int put_cpu(const struct cgroups *c, uint32_t slot, const char *leaf, uint32_t milli)
{
	uint64_t quota = (uint64_t)milli * (CPU_PERIOD_USEC / 1000);
	if (c->v1[CGROUP_CPU] >= 0)
		return put_leaf(c->v1[CGROUP_CPU], slot, leaf, "cpu.cfs_quota_us", quota);
	char path[CGROUP_PATH_MAX], text[48];
	leaf_path(path, slot, leaf, "cpu.max");
	snprintf(text, sizeof text, "%llu %d", (unsigned long long)quota, CPU_PERIOD_USEC);
	return fd_write_file(c->v2, path, str_of(text));
}

/* However busy the commands are, the agent has AGENT_CPU: time limits and kills depend on it. v1 refuses a leaf that
 * may have more than its group: when the limit grows, the group goes first. */
static int limit_cpu(const struct cgroups *c, uint32_t slot, uint32_t milli)
{
	if (!has_leaf(home(c, CGROUP_CPU), slot))
		return put_cpu(c, slot, ".", milli);
	int r = put_cpu(c, slot, COMMANDS, milli);
	int group = put_cpu(c, slot, ".", milli + AGENT_CPU);
	if (r == -EINVAL)
		r = put_cpu(c, slot, COMMANDS, milli);
	return r < 0 ? r : group;
}

int cgroup_limit(const struct cgroups *c, uint32_t slot, const struct box_limits *l, struct err *e)
{
	bool v1 = c->v1[CGROUP_MEMORY] >= 0;
	int r = v1 ? limit_sockets_v1(c, slot, l->mem_bytes) : 0;
	if (r == -EBUSY)
		return err_set(e, ERRC_INVALID_LIMITS,
			"the sockets of the sandbox hold more bytes now than %llu bytes of memory allow",
			(unsigned long long)l->mem_bytes);
	if (r < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "limit the buffers of sockets");
	r = v1 ? limit_memory_v1(c, slot, l->mem_bytes) : limit_memory_v2(c, slot, l->mem_bytes);
	if (r == -EBUSY)
		return err_set(e, ERRC_INVALID_LIMITS, "the sandbox uses more than %llu bytes of memory now",
			(unsigned long long)l->mem_bytes);
	if (r < 0)
		return err_os(
			e, ERRC_BOX_CREATE_FAILED, -r, "limit memory to %llu bytes", (unsigned long long)l->mem_bytes);
	r = put_u64(home(c, CGROUP_PIDS), slot, "pids.max", l->pids);
	if (r < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "limit processes to %u", l->pids);
	r = limit_cpu(c, slot, l->cpu_milli);
	if (r < 0)
		return err_os(e, ERRC_BOX_CREATE_FAILED, -r, "limit cpu to %u thousandths", l->cpu_milli);
	return 0;
}

int cgroup_open_oom(const struct cgroups *c, uint32_t slot, struct err *e)
{
	char path[CGROUP_PATH_MAX];
	bool v1 = c->v1[CGROUP_MEMORY] >= 0;
	/* v1 counts a kill in the victim's own group only. */
	commands_path(path, home(c, CGROUP_MEMORY), slot, v1 ? "memory.oom_control" : "memory.events");
	int fd = openat(home(c, CGROUP_MEMORY), path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open %s", path) : fd;
}

int cgroup_open_procs(const struct cgroups *c, uint32_t slot, int ret[1 + CGROUP_CONTROLLERS])
{
	const int dirs[] = {c->v2, c->v1[CGROUP_MEMORY], c->v1[CGROUP_PIDS], c->v1[CGROUP_CPU]};
	char path[CGROUP_PATH_MAX];
	int n = 0;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (dirs[i] < 0)
			continue;
		commands_path(path, dirs[i], slot, "cgroup.procs");
		if ((ret[n++] = openat(dirs[i], path, O_WRONLY | O_CLOEXEC)) < 0)
			return -1;
	}
	return n;
}

int cgroup_open_leaves(const struct cgroups *c, uint32_t slot, int ret[CGROUP_LEAVES], struct err *e)
{
	const int dirs[] = {v2_has_leaves(c) ? c->v2 : -1, c->v1[CGROUP_MEMORY], c->v1[CGROUP_CPU]};
	char path[CGROUP_PATH_MAX];
	int n = 0;
	leaf_path(path, slot, COMMANDS, "cgroup.procs");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (dirs[i] < 0)
			continue;
		INVARIANT(n < CGROUP_LEAVES);
		if ((ret[n++] = openat(dirs[i], path, O_WRONLY | O_CLOEXEC)) < 0)
			return err_os(e, ERRC_BOX_CREATE_FAILED, errno, "open %s", path);
	}
	return 0;
}

uint64_t cgroup_pids(const struct cgroups *c, uint32_t slot)
{
	return get_u64(home(c, CGROUP_PIDS), slot, "pids.current");
}

/* v1 tells the sum of memory and swap only. */
static uint64_t swap_used(const struct cgroups *c, uint32_t slot, uint64_t mem_used)
{
	if (c->v1[CGROUP_MEMORY] < 0)
		return get_u64(c->v2, slot, "memory.swap.current");
	uint64_t both = c->memsw ? get_u64(c->v1[CGROUP_MEMORY], slot, "memory.memsw.usage_in_bytes") : 0;
	return both > mem_used ? both - mem_used : 0;
}

/* The counter of a group leaves out those below it. */
static uint64_t oom_kills_v1(const struct cgroups *c, uint32_t slot)
{
	int dir = c->v1[CGROUP_MEMORY];
	uint64_t n = get_keyed(dir, slot, "memory.oom_control", "oom_kill", 0);
	if (has_leaf(dir, slot))
		n += get_keyed(dir, slot, COMMANDS "/memory.oom_control", "oom_kill", 0);
	return n;
}

void cgroup_usage(const struct cgroups *c, uint32_t slot, struct box_info *info)
{
	int memory = home(c, CGROUP_MEMORY);
	bool v1 = c->v1[CGROUP_MEMORY] >= 0;
	info->mem_used = get_u64(memory, slot, v1 ? "memory.usage_in_bytes" : "memory.current");
	info->mem_swapped = swap_used(c, slot, info->mem_used);
	info->mem_peak = get_u64(memory, slot, v1 ? "memory.max_usage_in_bytes" : "memory.peak");
	info->oom_kills = v1 ? oom_kills_v1(c, slot) : get_keyed(memory, slot, "memory.events", "oom_kill", 0);
	info->pids_used = get_u64(home(c, CGROUP_PIDS), slot, "pids.current");
	info->cpu_usec = get_keyed(c->v2, slot, "cpu.stat", "usage_usec", 0);
}

uint64_t cgroup_dirty(const struct cgroups *c, uint32_t slot)
{
	bool v1 = c->v1[CGROUP_MEMORY] >= 0;
	return get_keyed(home(c, CGROUP_MEMORY), slot, "memory.stat", v1 ? "total_dirty" : "file_dirty", UINT64_MAX);
}

/* v1: a swappiness of 0 keeps anonymous memory where it is. Each group has its own; children inherit it when they are
 * made, at first from our directory. */
static int set_swappiness(const struct cgroups *c, uint32_t slot, const char *text)
{
	int dir = c->v1[CGROUP_MEMORY];
	int r = cgroup_put(dir, slot, "memory.swappiness", text);
	return r < 0 || !has_leaf(dir, slot) ? r : cgroup_put(dir, slot, COMMANDS "/memory.swappiness", text);
}

int cgroup_allow_swap(const struct cgroups *c, uint32_t slot, bool on, struct err *e)
{
	int r = c->v1[CGROUP_MEMORY] >= 0 ? set_swappiness(c, slot, on ? "100" : "0")
					  : cgroup_put(c->v2, slot, "memory.swap.max", on ? "max" : "0");
	if (r == -ENOENT && !on)
		return 0; /* a kernel without swap */
	return r < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, -r, "%s swap for the sandbox", on ? "allow" : "forbid") : 0;
}

int cgroup_open_reclaim(const struct cgroups *c, uint32_t slot, char ret_text[24], struct err *e)
{
	char path[CGROUP_PATH_MAX];
	bool v1 = c->v1[CGROUP_MEMORY] >= 0;
	uint64_t used = v1 ? 0 : get_u64(c->v2, slot, "memory.current");
	slot_path(path, slot, v1 ? "memory.force_empty" : "memory.reclaim");
	snprintf(ret_text, 24, "%llu", (unsigned long long)used);
	int fd = openat(home(c, CGROUP_MEMORY), path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, errno, "open %s", path) : fd;
}

int cgroup_freeze(const struct cgroups *c, uint32_t slot, bool on, struct err *e)
{
	int r = cgroup_put(c->v2, slot, "cgroup.freeze", on ? "1" : "0");
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "%s the sandbox", on ? "freeze" : "thaw") : 0;
}

bool cgroup_is_frozen(const struct cgroups *c, uint32_t slot)
{
	return get_keyed(c->v2, slot, "cgroup.events", "frozen", 0) == 1;
}

bool cgroup_is_populated(const struct cgroups *c, uint32_t slot)
{
	return get_keyed(c->v2, slot, "cgroup.events", "populated", 0) == 1;
}

void cgroup_kill(const struct cgroups *c, uint32_t slot)
{
	cgroup_put(c->v2, slot, "cgroup.kill", "1");
}

static void each_pid_in(
	const struct cgroups *c, uint32_t slot, const char *file, void (*each)(void *arg, pid_t pid), void *arg)
{
	auto_buf struct buf text = {0};
	if (cgroup_get(c->v2, slot, file, &text) < 0)
		return;
	for (struct str rest = buf_str(&text); rest.n;) {
		uint64_t pid;
		if (str_to_u64(str_split(rest, '\n', &rest), INT32_MAX, &pid))
			each(arg, (pid_t)pid);
	}
}

void cgroup_each_pid(const struct cgroups *c, uint32_t slot, void (*each)(void *arg, pid_t pid), void *arg)
{
	each_pid_in(c, slot, "cgroup.procs", each, arg);
	if (!v2_has_leaves(c))
		return;
	each_pid_in(c, slot, AGENT "/cgroup.procs", each, arg);
	each_pid_in(c, slot, COMMANDS "/cgroup.procs", each, arg);
}

struct wanted {
	pid_t pid;
	bool found;
};

static void compare(void *arg, pid_t pid)
{
	struct wanted *w = arg;
	w->found |= w->pid == pid;
}

bool cgroup_has_pid(const struct cgroups *c, uint32_t slot, pid_t pid)
{
	struct wanted w = {.pid = pid};
	cgroup_each_pid(c, slot, compare, &w);
	return w.found;
}

static int remove_leaf(int dir, uint32_t slot, const char *leaf)
{
	char path[CGROUP_PATH_MAX];
	leaf_path(path, slot, leaf, NULL);
	return unlinkat(dir, path, AT_REMOVEDIR) < 0 && errno != ENOENT ? -EBUSY : 0;
}

static int remove_group(int dir, uint32_t slot)
{
	char name[CGROUP_PATH_MAX];
	slot_path(name, slot, NULL);
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (remove_leaf(dir, slot, COMMANDS) < 0 || remove_leaf(dir, slot, AGENT) < 0)
		return -EBUSY;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -EBUSY : 0;
}

int cgroup_remove(const struct cgroups *c, uint32_t slot)
{
	const int dirs[] = {c->v1[CGROUP_MEMORY], c->v1[CGROUP_PIDS], c->v1[CGROUP_CPU], c->v2};
	int r = 0;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (dirs[i] >= 0 && remove_group(dirs[i], slot) < 0)
			r = -EBUSY;
	return r;
}

static void each_in(int dir, void (*each)(void *arg, uint32_t slot), void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(d));) {
		uint64_t slot;
		if (str_to_u64(str_of(entry->d_name), UINT32_MAX, &slot))
			each(arg, (uint32_t)slot);
	}
	closedir(d);
}

void cgroup_each(const struct cgroups *c, void (*each)(void *arg, uint32_t slot), void *arg)
{
	each_in(c->v2, each, arg);
	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		if (c->v1[i] >= 0)
			each_in(c->v1[i], each, arg);
}
