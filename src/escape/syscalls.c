/*
 * System calls that a box has no use for and that have been ways into the kernel, or that command the whole machine.
 *
 * Arguments are real where a success harms nothing, otherwise such that a kernel which looks at them answers something
 * else than EPERM: so the errno tells a refusal from bad luck.
 */
#include "escape/escape.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

struct probe {
	const char *what;
	long nr, args[6];
};

static void probe(const struct check *c, struct outcome *o)
{
	for (const struct probe *p = c->data; p->what; p++) {
		const long *a = p->args;
		TRY(o, p->what, syscall(p->nr, a[0], a[1], a[2], a[3], a[4], a[5]), EPERM);
	}
}

static char bytes[4096]; /* zeros that kernel structs are made of */
static struct perf_event_attr perf_clock = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(perf_clock)};
static struct {
	unsigned type, key, value, entries, rest[16];
} bpf_map = {BPF_MAP_TYPE_ARRAY, 4, 4, 1, {0}};
#define ADDR(x)	  ((long)(x))
#define NO_FILE	  ADDR("/nonexistent/atoll-escape")
#define PROBES(n) static const struct probe n[]
#define PROBES_END                                                                                                     \
	{                                                                                                              \
		0                                                                                                      \
	}

PROBES(p_bpf) = {{"bpf(BPF_MAP_CREATE)", SYS_bpf, {BPF_MAP_CREATE, ADDR(&bpf_map), sizeof(bpf_map)}},
	{"bpf(BPF_PROG_LOAD)", SYS_bpf, {BPF_PROG_LOAD, ADDR(bytes), 128}}, PROBES_END};
PROBES(p_uring) = {{"io_uring_setup", SYS_io_uring_setup, {4, ADDR(bytes)}},
	{"io_uring_enter", SYS_io_uring_enter, {-1, 0, 0, 0, 0, 0}},
	{"io_uring_register", SYS_io_uring_register, {-1, 0, 0, 0}}, PROBES_END};
PROBES(p_uffd) = {{"userfaultfd", SYS_userfaultfd, {O_CLOEXEC}},
	{"userfaultfd(user mode only)", SYS_userfaultfd, {O_CLOEXEC | 1}}, PROBES_END};
PROBES(p_keys) = {{"keyctl(session keyring)", SYS_keyctl, {0, -3, 1}},
	{"add_key", SYS_add_key, {ADDR("user"), ADDR("atoll-escape"), ADDR("x"), 1, -2}},
	{"request_key", SYS_request_key, {ADDR("user"), ADDR("atoll-escape-none"), 0, 0}}, PROBES_END};
PROBES(p_perf) = {{"perf_event_open", SYS_perf_event_open, {ADDR(&perf_clock), 0, -1, -1, 0}}, PROBES_END};
PROBES(p_kexec) = {{"kexec_load", SYS_kexec_load, {0, 0, 0, 0xffff}},
#ifdef SYS_kexec_file_load
	{"kexec_file_load", SYS_kexec_file_load, {-1, -1, 0, 0, 0xffff}},
#endif
	PROBES_END};
PROBES(p_module) = {{"init_module", SYS_init_module, {ADDR(bytes), 64, ADDR("")}},
	{"finit_module", SYS_finit_module, {-1, ADDR(""), 0}},
	{"delete_module", SYS_delete_module, {ADDR("atoll_escape"), O_NONBLOCK}}, PROBES_END};
PROBES(p_swap) = {{"swapon", SYS_swapon, {NO_FILE, 0}}, {"swapoff", SYS_swapoff, {NO_FILE}}, PROBES_END};
PROBES(p_reboot) = {{"reboot", SYS_reboot, {0, 0, 0, 0}}, PROBES_END};
PROBES(p_acct) = {{"acct", SYS_acct, {NO_FILE}}, PROBES_END};
PROBES(p_quota) = {{"quotactl(Q_GETINFO)", SYS_quotactl, {0x80000500, NO_FILE, 0, ADDR(bytes)}}, PROBES_END};
PROBES(p_ports) = {
#ifdef SYS_iopl
	{"iopl(3)", SYS_iopl, {3}}, {"ioperm", SYS_ioperm, {0x80, 1, 1}},
#endif
	PROBES_END};
PROBES(p_fanotify) = {{"fanotify_init(permission class)", SYS_fanotify_init, {4, 0}},
	{"fanotify_init(whole file system)", SYS_fanotify_init, {0x200, 0}}, PROBES_END};
PROBES(p_handle) = {
	{"name_to_handle_at", SYS_name_to_handle_at, {AT_FDCWD, ADDR("/"), ADDR(bytes), ADDR(bytes + 512), 0}},
	PROBES_END};
PROBES(p_numa) = {{"move_pages", SYS_move_pages, {1, 0, 0, 0, 0, 0}},
	{"migrate_pages", SYS_migrate_pages, {1, 0, 0, 0}}, PROBES_END};
PROBES(p_peek) = {
	{"kcmp", SYS_kcmp, {1, 1, 0, 0, 0}}, {"process_madvise", SYS_process_madvise, {-1, 0, 0, 0, 0}}, PROBES_END};
PROBES(p_old) = {{"lookup_dcookie", 212, {0, 0, 0}},
#ifdef __x86_64__
	{"uselib", SYS_uselib, {NO_FILE}}, {"ustat", SYS_ustat, {0, ADDR(bytes)}}, {"sysfs", SYS_sysfs, {3}},
	{"_sysctl", SYS__sysctl, {ADDR(bytes)}}, {"nfsservctl", SYS_nfsservctl, {0, 0, 0}},
#endif
	PROBES_END};

/* Sets the time that it is: a kernel that allows it loses a microsecond at most. */
static void set_time(const struct check *c, struct outcome *o)
{
	(void)c;
	struct timespec now;
	struct timeval tv;
	struct timex tx = {0}, ca = {0};
	clock_gettime(CLOCK_REALTIME, &now);
	TRY(o, "clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &now), EPERM);
	gettimeofday(&tv, NULL);
	TRY(o, "settimeofday", syscall(SYS_settimeofday, &tv, NULL), EPERM);
	(void)syscall(SYS_adjtimex, &tx); /* every user may read */
	tx.modes = ADJ_TICK;
	TRY(o, "adjtimex", syscall(SYS_adjtimex, &tx), EPERM);
	(void)syscall(SYS_clock_adjtime, CLOCK_REALTIME, &ca);
	ca.modes = ADJ_TICK;
	TRY(o, "clock_adjtime", syscall(SYS_clock_adjtime, CLOCK_REALTIME, &ca), EPERM);
}

static int hang_up(void *arg)
{
	(void)arg;
	setsid(); /* a session without a terminal: nothing to hang up */
	return syscall(SYS_vhangup) == 0 ? 0 : errno;
}

static void vhangup_try(const struct check *c, struct outcome *o)
{
	(void)c;
	int code = in_child(hang_up, NULL);
	TRY(o, "vhangup", (errno = code, code ? -1 : 0), EPERM);
}

#ifdef __x86_64__
static long int80(long nr, long a, long b, long c)
{
	long rc;
	__asm__ volatile("int $0x80" : "=a"(rc) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
	return rc;
}

static int by_int80(void *arg)
{
	const long *a = arg;
	long rc = int80(a[0], a[1], a[2], a[3]);
	return rc >= 0 ? 0 : (int)-rc & 255;
}

static int by_x32(void *arg)
{
	const long *a = arg;
	return syscall(0x40000000 | a[0], a[1], a[2], a[3]) >= 0 ? 0 : errno;
}

static void judge_abi(struct outcome *o, const char *what, int code)
{
	expect(o, "SIGSYS, EPERM or ENOSYS");
	if (code == 0)
		escaped(o, "%s succeeded", what);
	else if (code == 256 + 31)
		refused(o, "%s: SIGSYS", what);
	else if (code == 256 + 11)
		refused(o, "%s: SIGSEGV, this kernel has no 32-bit calls", what);
	else if (code == EPERM || code == ENOSYS)
		refused(o, "%s: %s", what, errno_name(code));
	else
		errored(o, "%s: code %d", what, code);
}

/* The numbers mean other calls there: a filter that looks only at the number is walked around. */
static void other_abi(const struct check *c, struct outcome *o)
{
	(void)c;
	long getpid32[4] = {20}, keyctl32[4] = {288, 0, -3, 1}, getpid_x32[4] = {39};
	judge_abi(o, "getpid by int 0x80", in_child(by_int80, getpid32));
	judge_abi(o, "keyctl by int 0x80", in_child(by_int80, keyctl32));
	judge_abi(o, "getpid by x32", in_child(by_x32, getpid_x32));
}
#else
static void other_abi(const struct check *c, struct outcome *o)
{
	(void)c;
	skipped(o, "this machine has one system call interface");
}
#endif

/* ADDR_NO_RANDOMIZE and READ_IMPLIES_EXEC take protections from programs that run later in the same process. */
static void personalities(const struct check *c, struct outcome *o)
{
	(void)c;
	static const unsigned long bad[] = {
		0x0400000, 0x0100000, 0x0008000, 0x0000001}; /* rx, mmap page zero, …, SVR4 */
	char what[64];
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		snprintf(what, sizeof(what), "personality(%07lx)", bad[i]);
		TRY(o, what, syscall(SYS_personality, bad[i]), EPERM);
		(void)syscall(SYS_personality, 0ul);
	}
}

static void ldt(const struct check *c, struct outcome *o)
{
	(void)c;
#ifdef SYS_modify_ldt
	TRY(o, "modify_ldt(read)", syscall(SYS_modify_ldt, 0, bytes, sizeof(bytes)), EPERM, ENOSYS);
#else
	skipped(o, "this machine has no local descriptor table");
#endif
}

/* CVE-2022-0847: a spliced page whose pipe buffer kept CAN_MERGE is written into the file's cache. Only an old kernel
 * can fail this; the box shares its kernel with the host, so it is worth knowing. */
static void dirty_pipe(const struct check *c, struct outcome *o)
{
	(void)c;
	char path[128], back[16] = "";
	int p[2];
	snprintf(path, sizeof(path), "%s/ro", scratch_dir());
	auto_fd int w = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	auto_fd int r = open(path, O_RDONLY | O_CLOEXEC);
	if (w < 0 || r < 0 || write(w, "untouched", 9) != 9 || pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0) {
		errored(o, "no file to try it on: %s", errno_name(errno));
		return;
	}
	while (write(p[1], bytes, sizeof(bytes)) > 0)
		;
	while (read(p[0], bytes, sizeof(bytes)) > 0)
		;
	loff_t off = 0;
	expect(o, "the file stays as it was");
	if (splice(r, &off, p[1], NULL, 1, 0) != 1 || write(p[1], "DIRTY", 5) != 5)
		errored(o, "splice: %s", errno_name(errno));
	else if (pread(r, back, 9, 0) != 9 || strncmp(back, "untouched", 9) != 0)
		escaped(o, "the page cache was overwritten: '%.9s'", back);
	else
		refused(o, "the file is untouched");
	memset(bytes, 0, sizeof(bytes));
	unlink(path);
}

#define FILTER "seccomp, capabilities"
#define ONLY   "seccomp"
static const struct check checks[] = {
	{"bpf", "CVE-2020-8835, CVE-2021-3490 …: load BPF maps and programs", FILTER, probe, p_bpf, CHECK_DEMO},
	{"io-uring", "CVE-2022-29582, CVE-2023-2598 …: io_uring, which also walks around filters", ONLY, probe, p_uring,
		CHECK_DEMO},
	{"userfaultfd", "stop the kernel in the middle of a copy to win races", FILTER, probe, p_uffd, CHECK_DEMO},
	{"keyrings", "CVE-2016-0728: keyrings are not namespaced", ONLY, probe, p_keys, CHECK_DEMO},
	{"perf", "CVE-2013-2094 …: performance counters of the whole machine", FILTER, probe, p_perf, CHECK_DEMO},
	{"kexec", "boot another kernel", FILTER, probe, p_kexec, CHECK_DEMO},
	{"modules", "load or remove kernel modules", FILTER, probe, p_module, CHECK_DEMO},
	{"swap", "swap on or off", FILTER, probe, p_swap, CHECK_DEMO},
	{"reboot", "reboot(2)", FILTER, probe, p_reboot, CHECK_DEMO},
	{"acct", "process accounting of the host into a file of ours", FILTER, probe, p_acct, CHECK_DEMO},
	{"quotactl", "disk quotas of the host", FILTER, probe, p_quota, CHECK_DEMO},
	{"io-ports", "iopl and ioperm: hardware ports", FILTER, probe, p_ports, CHECK_DEMO},
	{"fanotify", "watch or block the host's file accesses", FILTER, probe, p_fanotify, CHECK_DEMO},
	{"file-handles", "name_to_handle_at, the first half of shocker", ONLY, probe, p_handle, CHECK_DEMO},
	{"numa", "move the pages of other processes", FILTER, probe, p_numa, CHECK_DEMO},
	{"peek", "kcmp and process_madvise on other processes", FILTER, probe, p_peek, CHECK_DEMO},
	{"old-calls", "calls that only old exploits still use", ONLY, probe, p_old, CHECK_DEMO},
	{"set-time", "the clock of the host", FILTER, set_time, NULL, 0},
	{"vhangup", "hang up the terminal", FILTER, vhangup_try, NULL, CHECK_DEMO},
	{"other-abi", "system calls by the i386 and x32 numbers, past the filter", ONLY, other_abi, NULL, CHECK_DEMO},
	{"personality", "personalities that take memory protections away", ONLY, personalities, NULL, CHECK_DEMO},
	{"modify-ldt", "CVE-2015-5157, CVE-2017-17053 …: the local descriptor table", ONLY, ldt, NULL, CHECK_DEMO},
	{"dirty-pipe", "CVE-2022-0847: write into a file that is only readable", "kernel", dirty_pipe, NULL, 0},
};
const struct check_group group_syscalls = {"syscalls", checks, ARRAY_LEN(checks)};
