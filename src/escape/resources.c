/*
 * Taking everything: the box must hit its own limit, and its neighbour must not notice.
 *
 * The neighbour's side is CHECK_NEIGHBOUR: the caller runs `atoll-escape pong` in another box at the same time. Each
 * check holds its resources for HOLD_MS (escape.h), so that the neighbour has the time.
 */
#include "escape/escape.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>

#include "proto/limits.h"

enum { TMPFS_TYPE = 0x01021994 };

/* Limits as the box was given them; the caller may say so, else they are the defaults. */
static long limit_mib(void)
{
	long v = arg_number("mem_mib");
	return v > 0 ? v : (long)(BOX_MEM_DEFAULT / MIB);
}

static long limit_pids(void)
{
	long v = arg_number("pids");
	return v > 0 ? v : (long)BOX_PIDS_DEFAULT;
}

static long *shared_counter(void)
{
	long *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static int eat_memory(void *arg)
{
	long *mib = arg, max = 2 * limit_mib();
	auto_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	(void)!write(fd, "1000", 4); /* the kernel kills this process first */
	for (*mib = 0; *mib < max; ++*mib) {
		char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return errno;
		for (size_t i = 0; i < MIB; i += 4096)
			p[i] = 1;
	}
	return 0;
}

static void memory_bomb(const struct check *c, struct outcome *o)
{
	(void)c;
	long *mib = shared_counter();
	char text[64];
	snprintf(text, sizeof(text), "killed before %ld MiB", limit_mib() + 1);
	expect(o, text);
	if (!mib) {
		errored(o, "mmap: %s", errno_name(errno));
		return;
	}
	int code = in_child(eat_memory, mib);
	if (code == 0 || *mib > limit_mib())
		escaped(o, "touched %ld MiB, the limit is %ld", *mib, limit_mib());
	else if (code == 256 + SIGKILL)
		refused(o, "killed after %ld MiB", *mib);
	else
		errored(o, "ended with code %d after %ld MiB", code, *mib);
}

struct bomb {
	long alive, most; /* at the same time */
	int os;
};

static void born(struct bomb *b)
{
	long n = __atomic_add_fetch(&b->alive, 1, __ATOMIC_SEQ_CST), most = b->most;
	while (n > most && !__atomic_compare_exchange_n(&b->most, &most, n, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

/* Every process forks as fast as it can until the time is over. */
static int multiply(void *arg)
{
	struct bomb *b = arg;
	pid_t first = getpid();
	time_t until = time(NULL) + 3;
	born(b);
	while (time(NULL) < until) {
		pid_t pid = fork();
		if (pid == 0)
			born(b);
		else if (pid < 0 && errno != EAGAIN)
			b->os = errno;
	}
	__atomic_sub_fetch(&b->alive, 1, __ATOMIC_SEQ_CST);
	if (getpid() != first)
		_exit(0);
	return 0;
}

static void fork_bomb(const struct check *c, struct outcome *o)
{
	(void)c;
	struct bomb *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect(o, "EAGAIN at the box's pids limit");
	if (b == MAP_FAILED) {
		errored(o, "mmap: %s", errno_name(errno));
		return;
	}
	int code = in_child(multiply, b);
	if (code != 0 || b->os)
		errored(o, "ended with code %d, fork: %s", code, errno_name(b->os));
	else if (b->most > limit_pids())
		escaped(o, "%ld processes at once, the limit is %ld", b->most, limit_pids());
	else if (b->most < 8)
		errored(o, "only %ld processes could be made", b->most);
	else
		refused(o, "EAGAIN after %ld processes", b->most);
}

static int open_many(void *arg)
{
	long *count = arg;
	for (;;) {
		if (open("/dev/null", O_RDONLY) < 0)
			break;
		__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
	}
	int os = errno;
	hold();
	return os;
}

/* EMFILE is the process's own limit; ENFILE would be the whole machine's. */
static void fd_exhaustion(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { PROCESSES = 16 };
	long *count = shared_counter();
	pid_t pids[PROCESSES];
	expect(o, "EMFILE or ENOMEM, never ENFILE");
	for (int i = 0; count && i < PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(open_many(count));
	}
	for (int i = 0; count && i < PROCESSES; i++) {
		int status = 0;
		if (pids[i] < 0 || waitpid(pids[i], &status, 0) != pids[i])
			continue;
		int os = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
		if (os == ENFILE)
			escaped(o, "ENFILE: the whole machine is out of files");
		else if (os == EMFILE || os == ENOMEM || WIFSIGNALED(status))
			refused(o, "%s", WIFSIGNALED(status) ? "killed by the memory limit" : errno_name(os));
		else
			errored(o, "open: %s", errno_name(os));
	}
}

static void pty_exhaustion(const struct check *c, struct outcome *o)
{
	(void)c;
	int n = 0;
	expect(o, "ENOSPC at the devpts limit");
	while (n < 4096 && open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
		n++;
	int os = errno;
	if (n > BOX_PTYS_MAX)
		escaped(o, "%d terminals, the limit is %d", n, BOX_PTYS_MAX);
	else if (os == ENOSPC && n > 0)
		refused(o, "ENOSPC after %d", n);
	else
		errored(o, "%s after %d", errno_name(os), n);
	hold();
}

/* Writes until the file system is full; returns MiB, *os the errno. */
static long fill(const char *dir, long max_mib, int *os)
{
	static char block[MIB];
	char path[200];
	long mib = 0;
	snprintf(path, sizeof(path), "%s/atoll-fill", dir);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	memset(block, 1, sizeof(block));
	*os = fd < 0 ? errno : 0;
	while (fd >= 0 && mib < max_mib) {
		ssize_t n = write(fd, block, sizeof(block));
		if (n < 0) {
			*os = errno;
			break;
		}
		mib++;
	}
	unlink(path);
	return mib;
}

/* A tmpfs is memory: it must be full before the box's memory is. */
static void shm_fill(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const dirs[] = {"/dev/shm", "/tmp", "/run"};
	expect(o, "ENOSPC below the memory limit");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		struct statfs fs;
		int os = 0;
		if (statfs(dirs[i], &fs) < 0 || fs.f_type != TMPFS_TYPE)
			continue;
		long mib = fill(dirs[i], limit_mib() + 64, &os);
		if (os == ENOSPC && mib < limit_mib())
			refused(o, "%s: ENOSPC after %ld MiB", dirs[i], mib);
		else if (mib >= limit_mib())
			escaped(o, "%s took %ld MiB, the box has %ld", dirs[i], mib, limit_mib());
		else
			errored(o, "%s: %s after %ld MiB", dirs[i], errno_name(os), mib);
	}
	if (o->verdict == VERDICT_NONE)
		errored(o, "no tmpfs found");
}

static void shm_inodes(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { MANY = 200000 };
	char path[64];
	int n = 0, os = 0;
	expect(o, "ENOSPC at the inode limit");
	for (; n < MANY; n++) {
		snprintf(path, sizeof(path), "/dev/shm/atoll-i%d", n);
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0) {
			os = errno;
			break;
		}
		close(fd);
	}
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/dev/shm/atoll-i%d", i);
		unlink(path);
	}
	if (n == MANY)
		escaped(o, "%d files in /dev/shm and no end", n);
	else if (os == ENOSPC)
		refused(o, "ENOSPC after %d files", n);
	else
		errored(o, "%s after %d files", errno_name(os), n);
}

static const struct check checks[] = {
	{"memory-bomb", "all the memory there is", "memory cgroup", memory_bomb, NULL, NEXT_DOOR},
	{"fork-bomb", "all the processes there are", "pids cgroup", fork_bomb, NULL, NEXT_DOOR},
	{"fd-exhaustion", "all the open files there are", "RLIMIT_NOFILE, memory cgroup", fd_exhaustion, NULL,
		NEXT_DOOR},
	{"pty-exhaustion", "all the terminals there are", "devpts max=", pty_exhaustion, NULL, NEXT_DOOR},
	{"shm-fill", "memory through /dev/shm and /tmp", "tmpfs size=", shm_fill, NULL, NEXT_DOOR},
	{"shm-inodes", "kernel memory through inodes in /dev/shm", "tmpfs nr_inodes=", shm_inodes, NULL, NEXT_DOOR},
};
const struct check_group group_resources = {"resources", checks, ARRAY_LEN(checks)};
