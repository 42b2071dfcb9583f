/*
 * doctor_host.c - checks the host: cgroups, limits, devices, Atoll's programs, image and daemon.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cli/client.h"
#include "cli/doctor/doctor.h"
#include "cli/up/up.h"
#include "proto/gate.h"

/* ---- cgroups ---- */

struct cgroup_view {
	bool v2;		/* a cgroup2 hierarchy is mounted */
	bool memory, pids, cpu; /* controllers with which limits can be set, v1 or v2 */
	bool v1;		/* one of the three controllers is on a v1 hierarchy */
	bool dynmods;
	char path[128]; /* of one hierarchy that boxes would use */
};

static bool has_word(const char *list, const char *word, const char *separators)
{
	size_t n = strlen(word);
	for (const char *p = list; *p;) {
		size_t w = strcspn(p, separators);
		if (w == n && strncmp(p, word, n) == 0)
			return true;
		p += w;
		p += strspn(p, separators);
	}
	return false;
}

static void view_v2(struct cgroup_view *v, const char *mount_point)
{
	char path[256], controllers[256];
	v->v2 = true;
	snprintf(path, sizeof path, "%s/cgroup.controllers", mount_point);
	if (!doctor_read(path, controllers, sizeof controllers))
		return;
	v->memory |= has_word(controllers, "memory", " ");
	v->pids |= has_word(controllers, "pids", " ");
	v->cpu |= has_word(controllers, "cpu", " ");
}

static void view_v1(struct cgroup_view *v, const char *options)
{
	bool memory = has_word(options, "memory", ","), pids = has_word(options, "pids", ",");
	bool cpu = has_word(options, "cpu", ",");
	v->memory |= memory;
	v->pids |= pids;
	v->cpu |= cpu;
	v->v1 |= memory || pids || cpu;
}

/* /proc/self/mountinfo: "36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory" */
static void view_line(struct cgroup_view *v, char *line)
{
	char *dash = strstr(line, " - cgroup");
	char mount_point[128], type[16], options[256];
	if (!dash || sscanf(line, "%*s %*s %*s %*s %127s", mount_point) != 1 ||
		sscanf(dash, " - %15s %*s %255s", type, options) != 2)
		return;
	v->dynmods |= has_word(options, "favordynmods", ",");
	if (strcmp(type, "cgroup2") == 0)
		view_v2(v, mount_point);
	else
		view_v1(v, options);
	if (!*v->path)
		memcpy(v->path, mount_point, sizeof mount_point);
}

static struct cgroup_view view_cgroups(void)
{
	struct cgroup_view v = {0};
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	while (f && fgets(line, sizeof line, f))
		view_line(&v, line);
	if (f)
		fclose(f);
	return v;
}

static void check_cgroups(struct cli *c, struct doctor_row *r)
{
	(void)c;
	struct cgroup_view v = view_cgroups();
	const char *version = v.v1 ? v.v2 ? "v1 beside v2" : "v1" : "v2";
	if (!v.memory || !v.pids || !v.cpu)
		doctor_set(r, DOCTOR_MISSING,
			"Mount the cgroup2 hierarchy on /sys/fs/cgroup, or boot without cgroup_disable=…",
			"no controller for%s%s%s", v.memory ? "" : " memory", v.pids ? "" : " pids",
			v.cpu ? "" : " cpu");
	else if (geteuid() == 0 && access(v.path, W_OK) < 0)
		doctor_set(
			r, DOCTOR_MISSING, "Run where /sys/fs/cgroup is mounted writable.", "%s is read-only", v.path);
	else
		doctor_set(r, DOCTOR_OK, NULL, "%s, with memory, pids and cpu", version);
}

static void check_dynmods(struct cli *c, struct doctor_row *r)
{
	(void)c;
	struct cgroup_view v = view_cgroups();
	if (!v.v1)
		doctor_set(r, DOCTOR_OK, NULL, "not needed: boxes start inside their v2 cgroup");
	else if (v.dynmods)
		doctor_set(r, DOCTOR_OK, NULL, "favordynmods is on");
	else
		doctor_set(r, DOCTOR_NOTE, "'atoll up' mounts a hierarchy with favordynmods while it runs.",
			"favordynmods is off: a start after an idle time takes 15 ms longer");
}

/* ---- sizes and devices ---- */

static void check_inotify(struct cli *c, struct doctor_row *r)
{
	(void)c;
	char instances[32] = "0", watches[32] = "0";
	doctor_read(UP_INOTIFY_INSTANCES, instances, sizeof instances);
	doctor_read(UP_INOTIFY_WATCHES, watches, sizeof watches);
	uint64_t n = 0;
	str_to_u64(str_of(instances), UINT64_MAX, &n);
	doctor_set(r, n < UP_INOTIFY_INSTANCES_WANTED ? DOCTOR_NOTE : DOCTOR_OK,
		n < UP_INOTIFY_INSTANCES_WANTED ? "'atoll up' raises it when it starts." : NULL,
		"%s instances and %s watches for all boxes together", instances, watches);
}

static void check_ptys(struct cli *c, struct doctor_row *r)
{
	(void)c;
	char max[32] = "?", used[32] = "?";
	doctor_read("/proc/sys/kernel/pty/max", max, sizeof max);
	doctor_read("/proc/sys/kernel/pty/nr", used, sizeof used);
	doctor_set(r, DOCTOR_OK, NULL, "at most %s on this host, %s in use", max, used);
}

/* What the gate that runs may open: a service manager gave it another limit than this shell has. False: none runs, or
 * this user may not know. */
static bool gate_files(uint64_t *ret)
{
	char path[PATH_MAX + 16], text[4096];
	int pid = 0;
	snprintf(path, sizeof path, "%s/up.lock", cli_run_dir());
	if (!doctor_read(path, text, sizeof text) || sscanf(text, "up %*d warden %*d atolld %*d gate %d", &pid) != 1 ||
		pid <= 0)
		return false;
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	if (!doctor_read(path, text, sizeof text) || strcmp(text, "atoll-gate") != 0)
		return false;
	snprintf(path, sizeof path, "/proc/%d/limits", pid);
	const char *line = doctor_read(path, text, sizeof text) ? strstr(text, "\nMax open files") : NULL;
	unsigned long long hard;
	if (!line || sscanf(line, " Max open files %*s %llu", &hard) != 1)
		return false;
	*ret = hard;
	return true;
}

static void check_limits(struct cli *c, struct doctor_row *r)
{
	(void)c;
	char pid_max[32] = "?";
	struct rlimit files = {0};
	doctor_read("/proc/sys/kernel/pid_max", pid_max, sizeof pid_max);
	getrlimit(RLIMIT_NOFILE, &files);
	uint64_t n = files.rlim_max;
	bool runs = gate_files(&n);
	size_t conns = gate_connections(n < SIZE_MAX ? (size_t)n : SIZE_MAX, 0);
	doctor_set(r, conns < NET_CONNS_MAX ? DOCTOR_NOTE : DOCTOR_OK,
		conns < NET_CONNS_MAX
			? "More connections need a higher hard limit of open files (ulimit -Hn, LimitNOFILE=)."
			: NULL,
		"%s pids, %llu open files %s: %zu connections of boxes fit at once, fewer with many boxes", pid_max,
		(unsigned long long)n, runs ? "for the gate that runs" : "per process", conns);
}

static void check_swap(struct cli *c, struct doctor_row *r)
{
	(void)c;
	char text[512] = "";
	doctor_read("/proc/swaps", text, sizeof text);
	const char *second = strchr(text, '\n');
	bool on = second && second[1];
	doctor_set(r, on ? DOCTOR_OK : DOCTOR_NOTE,
		on ? NULL
		   : "Add swap, so that sleeping boxes free their memory: fallocate -l 8G /swapfile && chmod 600 "
		     "/swapfile && "
		     "mkswap /swapfile && swapon /swapfile",
		on ? "on: the memory of sleeping boxes goes there" : "none: sleeping boxes keep their memory");
}

static void check_device(struct doctor_row *r, const char *path, const char *with, const char *without)
{
	struct stat st;
	bool there = stat(path, &st) == 0 && S_ISCHR(st.st_mode);
	doctor_set(r, there ? DOCTOR_OK : DOCTOR_NOTE, NULL, "%s%s%s", there ? "" : path,
		there ? "" : " is not there: ", there ? with : without);
}

static void check_fuse(struct cli *c, struct doctor_row *r)
{
	(void)c;
	check_device(r, "/dev/fuse", "boxes can mount buckets", "no bucket mounts");
}

static void check_kvm(struct cli *c, struct doctor_row *r)
{
	(void)c;
	check_device(r, "/dev/kvm", "present; boxes do not use it", "boxes do not need it");
}

/* ---- Atoll itself ---- */

/* An ELF file without an interpreter runs in any box. */
static bool is_static_elf(const char *path)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr eh;
	if (fd < 0 || fd_read_full(fd, &eh, sizeof eh) != sizeof eh || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		Elf64_Phdr ph;
		if (pread(fd, &ph, sizeof ph, (off_t)(eh.e_phoff + i * sizeof ph)) != sizeof ph ||
			ph.p_type == PT_INTERP)
			return false;
	}
	return true;
}

static void check_programs(struct cli *c, struct doctor_row *r)
{
	(void)c;
	char path[4200];
	const char *missing = up_missing_program(cli_bin_dir());
	snprintf(path, sizeof path, "%s/atoll-agent", cli_bin_dir());
	if (missing)
		doctor_set(r, DOCTOR_MISSING, "Build them with 'make', or install them all together.",
			"%s is missing beside this program", missing);
	else if (access(path, R_OK) < 0 && errno == EACCES && geteuid() != 0)
		doctor_set(r, DOCTOR_OK, NULL, "in %s, where this user cannot look", cli_bin_dir());
	else if (!is_static_elf(path))
		doctor_set(r, DOCTOR_MISSING, "Build it with musl, as 'make' does.", "atoll-agent is not static");
	else
		doctor_set(r, DOCTOR_OK, NULL, "atolld, atoll-warden, atoll-agent (static)");
}

static void check_image(struct cli *c, struct doctor_row *r)
{
	(void)c;
	if (up_image_there())
		doctor_set(r, DOCTOR_OK, NULL, "%.150s", cli_images_dir());
	else if (access(cli_images_dir(), R_OK | X_OK) < 0 && errno == EACCES)
		doctor_set(
			r, DOCTOR_UNKNOWN, "Run 'atoll doctor' as root.", "you may not read %.150s", cli_images_dir());
	else
		doctor_set(r, DOCTOR_MISSING, "Make the default image once with 'make image'.", "none in %.150s",
			cli_images_dir());
}

/* Before the first start there is no daemon, which is no fault; one that ATOLL_URL names must answer. */
static bool may_be_absent(const struct err *e)
{
	const char *url = getenv("ATOLL_URL");
	return !(url && *url) && e->code == ERRC_CONTAINER_UNAVAILABLE;
}

static void check_daemon(struct cli *c, struct doctor_row *r)
{
	auto_client struct client cl = {0};
	struct err e;
	auto_buf struct buf body = {0};
	char advice[sizeof c->hint] = "";
	int status = client_open(c, &cl, &e);
	if (status == 0)
		status = client_ask(&cl, "GET", "/v1/health", STR(""), &body, &e);
	snprintf(advice, sizeof advice, "%s", c->hint);
	c->hint[0] = 0;
	bool warden = strstr(buf_cstr(&body), "\"warden\":true") != NULL;
	if (status == 200)
		doctor_set(r, warden ? DOCTOR_OK : DOCTOR_NOTE, warden ? NULL : "Read the daemon's log.", "%s %s",
			warden ? "answers at" : "no warden, cannot make boxes:", cl.where);
	else if (status > 0)
		doctor_set(r, DOCTOR_MISSING, "Check ATOLL_URL: another program may listen there.",
			"%s answers %d: %.100s", cl.where, status, buf_cstr(&body));
	else
		doctor_set(r, may_be_absent(&e) ? DOCTOR_NOTE : DOCTOR_MISSING, advice, "%.190s", e.msg);
}

const struct doctor_check doctor_host_checks[] = {
	{"resources", "cgroups", check_cgroups},
	{"resources", "cgroup attach", check_dynmods},
	{"resources", "inotify", check_inotify},
	{"resources", "pseudo-terminals", check_ptys},
	{"resources", "process limits", check_limits},
	{"resources", "swap", check_swap},
	{"resources", "fuse", check_fuse},
	{"resources", "kvm", check_kvm},
	{"atoll", "programs", check_programs},
	{"atoll", "image", check_image},
	{"atoll", "daemon", check_daemon},
};
const size_t doctor_host_checks_count = ARRAY_LEN(doctor_host_checks);
