/*
 * Control groups: the host's own hierarchies, and the file names and formats of a v2-only host, for which a directory
 * of plain files stands where this host keeps the controllers in v1.
 */
#include "cage/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cage/limits.h"
#include "test.h"

static struct cgroups c;
static pid_t child;

static void clean(void)
{
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	for (uint32_t slot = 0; slot < 4; slot++)
		cgroup_remove(&c, slot);
	cgroup_retire(&c);
}

static void open_host(void)
{
	char name[32];
	struct err e;
	if (geteuid() != 0)
		TEST_SKIP("needs root");
	snprintf(name, sizeof name, "atoll-test-%d", getpid());
	if (cgroup_open(&c, name, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	atexit(clean);
}

static pid_t sleeper(void)
{
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	return child;
}

TEST(a_group_is_made_in_every_hierarchy_and_removed)
{
	struct err e;
	open_host();
	CHECK(c.version == 1 || c.version == 2 || c.version == 12);
	CHECK(cgroup_make(&c, 3, &e) == 0);
	CHECK(cgroup_make(&c, 3, &e) < 0);
	CHECK_INT(e.os, EEXIST);
	CHECK(faccessat(c.v2, "3", F_OK, 0) < 0); /* the failed one took it along */
	CHECK(cgroup_make(&c, 3, &e) == 0);
	CHECK(!cgroup_is_populated(&c, 3));
	CHECK_INT(cgroup_remove(&c, 3), 0);
	CHECK_INT(cgroup_remove(&c, 3), 0);
	CHECK(!cgroup_name_lives(&c, c.name));
	CHECK(!cgroup_name_lives(&c, "atoll-nobody"));
	CHECK(!cgroup_name_lives(&c, "../x"));
}

TEST(limits_are_written_where_the_kernel_keeps_them)
{
	struct err e;
	open_host();
	CHECK(cgroup_make(&c, 1, &e) == 0);
	/* Up, down and up again: memory must never be above memory and swap. */
	static const struct box_limits l[] = {
		{64u * MIB, 500, 20}, {512u * MIB, 2000, 300}, {16u * MIB, 10, 8}, {1024ull * MIB, 1000, 256}};
	/* An eighth of the memory, between the smallest and the largest. */
	static const uint64_t sockets[] = {8u * MIB, 64u * MIB, 4u * MIB, 64u * MIB};
	for (size_t i = 0; i < ARRAY_LEN(l); i++) {
		if (cgroup_limit(&c, 1, &l[i], &e) < 0)
			test_fail(__FILE__, __LINE__, "%s", e.msg);
		struct buf text = {0};
		bool v1 = c.v1[CGROUP_MEMORY] >= 0;
		CHECK(fd_read_file(v1 ? c.v1[CGROUP_MEMORY] : c.v2, v1 ? "1/memory.limit_in_bytes" : "1/memory.max", 64,
			      &text) == 0);
		CHECK_INT(strtoull(buf_cstr(&text), NULL, 10), l[i].mem_bytes);
		buf_clear(&text);
		if (v1) {
			CHECK(fd_read_file(c.v1[CGROUP_MEMORY], "1/" CGROUP_V1_SOCKETS, 64, &text) == 0);
			CHECK_INT(strtoull(buf_cstr(&text), NULL, 10), sockets[i]);
			buf_clear(&text);
		}
		CHECK(fd_read_file(c.v1[CGROUP_PIDS] >= 0 ? c.v1[CGROUP_PIDS] : c.v2, "1/pids.max", 64, &text) == 0);
		CHECK_INT(strtoull(buf_cstr(&text), NULL, 10), l[i].pids);
		buf_free(&text);
	}
	int oom = cgroup_open_oom(&c, 1, &e);
	CHECK(oom >= 0);
	char line[512] = "";
	CHECK(read(oom, line, sizeof line - 1) > 0);
	CHECK(strstr(line, "oom_kill 0"));
	close(oom);
}

static uint64_t number_in(int dir, const char *path)
{
	struct buf text = {0};
	int r = fd_read_file(dir, path, 64, &text);
	if (r < 0)
		test_fail(__FILE__, __LINE__, "read %s: %d", path, r);
	uint64_t n = strtoull(buf_cstr(&text), NULL, 10);
	buf_free(&text);
	return n;
}

TEST(commands_are_limited_and_their_agent_is_not)
{
	struct err e;
	int files[CGROUP_LEAVES] = {-1, -1};
	open_host();
	bool v1 = c.v1[CGROUP_MEMORY] >= 0 && c.v1[CGROUP_CPU] >= 0;
	int memory = v1 ? c.v1[CGROUP_MEMORY] : c.v2, cpu = v1 ? c.v1[CGROUP_CPU] : c.v2;
	CHECK(cgroup_make(&c, 1, &e) == 0 && cgroup_split(&c, 1, &e) == 0);
	/* Up and down: a leaf never has more than its group, as v1 demands. */
	static const struct box_limits l[] = {{64u * MIB, 500, 20}, {512u * MIB, 2000, 20}, {16u * MIB, 10, 20}};
	for (size_t i = 0; i < ARRAY_LEN(l); i++) {
		if (cgroup_limit(&c, 1, &l[i], &e) < 0)
			test_fail(__FILE__, __LINE__, "%s", e.msg);
		uint64_t bytes = l[i].mem_bytes, quota = l[i].cpu_milli * 100;
		uint64_t own = bytes < AGENT_MEM_MIN ? AGENT_MEM_MIN : bytes;
		CHECK_INT(number_in(memory, v1 ? "1/commands/memory.limit_in_bytes" : "1/commands/memory.max"), bytes);
		CHECK_INT(number_in(memory, v1 ? "1/memory.limit_in_bytes" : "1/agent/memory.max"),
			v1 ? bytes + own : own);
		CHECK_INT(number_in(cpu, v1 ? "1/commands/cpu.cfs_quota_us" : "1/commands/cpu.max"), quota);
		CHECK_INT(number_in(cpu, v1 ? "1/cpu.cfs_quota_us" : "1/cpu.max"), quota + AGENT_CPU * 100);
	}
	CHECK(cgroup_open_leaves(&c, 1, files, &e) == 0);
	CHECK(files[0] >= 0 && (files[1] >= 0) == v1);
	CHECK(cgroup_remove(&c, 1) == 0 && faccessat(memory, "1", F_OK, 0) < 0);
}

TEST(programs_have_groups_beside_boxes_with_the_time_of_a_hundred)
{
	int fds[CGROUP_LEAVES];
	open_host();
	bool v1 = c.v1[CGROUP_CPU] >= 0;
	int n = cgroup_open_program(&c, CGROUP_GATE, fds);
	CHECK_INT(n, c.v1[CGROUP_MEMORY] < 0 && !v1 ? 1 : 2);
	auto_buf struct buf text = {0};
	CHECK_INT(fd_read_file(v1 ? c.v1[CGROUP_CPU] : c.v2, v1 ? "gate/cpu.shares" : "gate/cpu.weight", 64, &text), 0);
	CHECK_STR(buf_str(&text), v1 ? "102400\n" : "10000\n");
	pid_t pid = sleeper();
	char number[16];
	int size = snprintf(number, sizeof number, "%d", pid);
	for (int i = 0; i < n; i++)
		CHECK_INT(write(fds[i], number, (size_t)size), size);
	text.len = 0;
	CHECK_INT(fd_read_file(v1 ? c.v1[CGROUP_CPU] : c.v2, "gate/cgroup.procs", 64, &text), 0);
	CHECK_INT(atoi(text.p), pid);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	child = 0;
	cgroup_retire(&c);
	CHECK(faccessat(v1 ? c.v1[CGROUP_CPU] : c.v2, "gate", F_OK, 0) < 0);
}

/* The files of a v2-only host in plain directories: what is written, not what the kernel makes of it. */
TEST(programs_are_slowed_down_from_a_quarter_of_the_memory_on_with_v2)
{
	char dir[] = "/tmp/atoll-cgroup-XXXXXX", path[64];
	static const char *const files[] = {"cpu.weight", "memory.high", "cgroup.procs"};
	CHECK(mkdtemp(dir) != NULL);
	struct cgroups v2 = {.v2 = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .v1 = {-1, -1, -1}};
	CHECK_INT(mkdirat(v2.v2, "daemon", 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof path, "daemon/%s", files[i]);
		close(openat(v2.v2, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	}
	int fds[CGROUP_LEAVES];
	CHECK_INT(cgroup_open_program(&v2, CGROUP_DAEMON, fds), 1);
	close(fds[0]);
	auto_buf struct buf text = {0};
	uint64_t high = 0;
	CHECK_INT(fd_read_file(v2.v2, "daemon/memory.high", 64, &text), 0);
	CHECK(str_to_u64(buf_str(&text), UINT64_MAX, &high));
	CHECK(high == (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / PROGRAM_MEM_SHARE);
	text.len = 0;
	CHECK_INT(fd_read_file(v2.v2, "daemon/cpu.weight", 64, &text), 0);
	CHECK_STR(buf_str(&text), "10000");
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof path, "daemon/%s", files[i]);
		unlinkat(v2.v2, path, 0);
	}
	unlinkat(v2.v2, "daemon", AT_REMOVEDIR);
	close(v2.v2);
	rmdir(dir);
}

TEST(all_boxes_together_leave_the_host_half_of_its_tcp_memory)
{
	struct buf text = {0}, mem = {0};
	open_host();
	if (c.v1[CGROUP_MEMORY] < 0)
		TEST_SKIP("cgroup v2 counts socket buffers as memory");
	CHECK(fd_read_file(c.v1[CGROUP_MEMORY], CGROUP_V1_SOCKETS, 64, &text) == 0);
	CHECK(fd_read_file(AT_FDCWD, "/proc/sys/net/ipv4/tcp_mem", 128, &mem) == 0);
	unsigned long long low, pressure, high, page = (unsigned long long)sysconf(_SC_PAGESIZE);
	CHECK_INT(sscanf(buf_cstr(&mem), "%llu %llu %llu", &low, &pressure, &high), 3);
	CHECK_INT(strtoull(buf_cstr(&text), NULL, 10) / page, high * page / 100 * WARDEN_SOCKETS_PERCENT / page);
	buf_free(&text);
	buf_free(&mem);
}

TEST(processes_are_frozen_counted_and_killed)
{
	struct err e;
	struct box_info info = {0};
	int status;
	open_host();
	CHECK(cgroup_make(&c, 2, &e) == 0);
	pid_t pid = sleeper();
	int procs = openat(c.v2, "2/cgroup.procs", O_WRONLY | O_CLOEXEC);
	CHECK(procs >= 0 && dprintf(procs, "%d", pid) > 0);
	close(procs);
	CHECK(cgroup_attach(&c, 2, pid, &e) == 0);
	CHECK(cgroup_has_pid(&c, 2, pid) && !cgroup_has_pid(&c, 2, getpid()));
	CHECK(cgroup_is_populated(&c, 2));
	CHECK(cgroup_name_lives(&c, c.name));
	cgroup_usage(&c, 2, &info);
	CHECK_INT(info.pids_used, 1);
	CHECK_INT(cgroup_remove(&c, 2), -EBUSY);
	CHECK(cgroup_freeze(&c, 2, true, &e) == 0);
	while (!cgroup_is_frozen(&c, 2))
		usleep(500);
	CHECK(cgroup_freeze(&c, 2, false, &e) == 0);
	CHECK(cgroup_freeze(&c, 2, true, &e) == 0);
	cgroup_kill(&c, 2);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	child = 0;
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	while (cgroup_remove(&c, 2) < 0)
		usleep(500);
}

static const char *read_back(int dir, const char *name)
{
	static char text[256];
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	close(fd);
	return text;
}

static char plain[64];
static void clean_plain(void)
{
	static const char *const files[] = {"memory.max", "memory.swap.max", "pids.max", "cpu.max", "memory.current",
		"memory.peak", "memory.events", "pids.current", "cpu.stat"};
	char path[128];
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof path, "%s/7/%s", plain, files[i]);
		unlink(path);
	}
	snprintf(path, sizeof path, "%s/7", plain);
	rmdir(path);
	rmdir(plain);
}

static void put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

TEST(a_v2_host_has_its_own_names_and_formats)
{
	struct err e;
	snprintf(plain, sizeof plain, "/tmp/atoll-test-XXXXXX");
	CHECK(mkdtemp(plain));
	atexit(clean_plain);
	int dir = open(plain, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct cgroups v2 = {
		.v2 = dir, .roots = {-1, -1, -1, -1}, .v1 = {-1, -1, -1}, .private_mount = -1, .version = 2};
	CHECK(mkdirat(dir, "7", 0700) == 0);
	put(dir, "7/memory.max", "");
	put(dir, "7/memory.swap.max", "");
	put(dir, "7/pids.max", "");
	put(dir, "7/cpu.max", "");
	struct box_limits l = {.mem_bytes = 64u * MIB, .cpu_milli = 1500, .pids = 20};
	CHECK(cgroup_limit(&v2, 7, &l, &e) == 0);
	CHECK_CSTR(read_back(dir, "7/memory.max"), "67108864");
	CHECK_CSTR(read_back(dir, "7/memory.swap.max"), "0");
	CHECK_CSTR(read_back(dir, "7/pids.max"), "20");
	CHECK(faccessat(dir, "7/" CGROUP_V1_SOCKETS, F_OK, 0) < 0); /* buffers of sockets are part of memory.max */
	CHECK_CSTR(read_back(dir, "7/cpu.max"), "150000 100000");
	CHECK(cgroup_attach(&v2, 7, getpid(), &e) == 0); /* nothing to do: born there */
	put(dir, "7/memory.current", "1234\n");
	put(dir, "7/memory.peak", "5678\n");
	put(dir, "7/memory.events", "low 0\noom 3\noom_kill 2\n");
	put(dir, "7/pids.current", "9\n");
	put(dir, "7/cpu.stat", "usage_usec 77\nuser_usec 50\n");
	struct box_info info = {0};
	cgroup_usage(&v2, 7, &info);
	CHECK_INT(info.mem_used, 1234);
	CHECK_INT(info.mem_peak, 5678);
	CHECK_INT(info.oom_kills, 2);
	CHECK_INT(info.pids_used, 9);
	CHECK_INT(info.cpu_usec, 77);
	int oom = cgroup_open_oom(&v2, 7, &e);
	CHECK(oom >= 0);
	close(oom);
}

TEST_MAIN()
