#include "agent/fuse/mounts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/limits.h"
#include "base/buf.h"
#include "base/fd.h"

struct mount_point {
	uint64_t id;
	char *path;
};

static bool begun;
static int table_fd = -1; /* /proc/self/mountinfo */
static bool cut;	  /* the table was too long: anything may be a FUSE mount */
static struct mount_point *points;
static size_t points_n;

void fuse_mounts_begin(void)
{
	begun = true;
}

/* ---- the table ---- */

static void forget(void)
{
	for (size_t i = 0; i < points_n; i++)
		free(points[i].path);
	points_n = 0;
}

/* The kernel writes blank, tab, newline and '\' as three octal digits. */
static char *unescaped(struct str s)
{
	char *out = str_dup(s), *to = out;
	for (const char *p = out; *p; to++) {
		unsigned byte;
		bool coded = *p == '\\' && sscanf(p + 1, "%3o", &byte) == 1;
		*to = coded ? (char)byte : *p;
		p += coded ? 4 : 1;
	}
	*to = 0;
	return out;
}

static bool is_fuse(struct str type)
{
	return str_eq_c(type, "fuse") || str_eq_c(type, "fuseblk") || str_starts(type, STR("fuse."));
}

/* "36 35 98:0 /root /mount/point options [optional …] - type source options" */
static void add_line(struct str line)
{
	struct str rest = line, field[5];
	uint64_t id;
	for (size_t i = 0; i < ARRAY_LEN(field); i++)
		field[i] = str_split(rest, ' ', &rest);
	const char *dash = memmem(rest.p, rest.n, " - ", 3);
	if (!dash || !str_to_u64(field[0], UINT64_MAX, &id))
		return;
	struct str type = str_skip(rest, (size_t)(dash - rest.p) + 3);
	if (!is_fuse(str_split(type, ' ', &type)))
		return;
	points = xrealloc(points, (points_n + 1) * sizeof *points);
	points[points_n++] = (struct mount_point){id, unescaped(field[4])};
}

static void read_table(void)
{
	auto_buf struct buf text = {.max = FUSE_TABLE_MAX};
	char piece[16 * KIB];
	ssize_t n;
	forget();
	cut = false;
	lseek(table_fd, 0, SEEK_SET);
	while ((n = read(table_fd, piece, sizeof piece)) > 0 && !cut) {
		cut = buf_size(&text) + (size_t)n > FUSE_TABLE_MAX;
		if (!cut)
			buf_add(&text, piece, (size_t)n);
	}
	for (struct str rest = buf_str(&text); rest.n;)
		add_line(str_split(rest, '\n', &rest));
}

/* The kernel reports a change of the table once, to poll. */
static bool table_changed(void)
{
	struct pollfd p = {.fd = table_fd, .events = POLLPRI};
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLPRI | POLLERR));
}

bool fuse_mounts_any(void)
{
	if (!begun)
		return false;
	bool first = table_fd < 0;
	if (first)
		table_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (table_fd < 0)
		return true;
	if (table_changed() || first)
		read_table();
	return cut || points_n;
}

/* ---- a path ---- */

static int open_path(const char *path, uint64_t resolve)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

/* The mount that the descriptor is in, by /proc: statx could ask the file system. 0: not known. */
static uint64_t mount_of(int fd)
{
	char path[48], text[256];
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	auto_fd int info = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = info < 0 ? -1 : read(info, text, sizeof text - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	const char *at = strstr(text, "mnt_id:");
	return at ? strtoull(at + strlen("mnt_id:"), NULL, 10) : 0;
}

static bool in_fuse(int fd)
{
	uint64_t id = mount_of(fd);
	for (size_t i = 0; i < points_n; i++)
		if (points[i].id == id)
			return true;
	return cut || !id;
}

/* Opens the path without asking a FUSE server. An fd; -1: it leads into a FUSE mount, or may; -2: it does not, and
 * cannot be opened. */
static int open_outside(const char *path)
{
	int fd = open_path(path, RESOLVE_NO_XDEV);
	if (fd >= 0)
		return fd;
	if (errno != EXDEV)
		return -2;
	/* It crosses a mount, which may be a volume. The kernel may use what it has in memory, and ask nobody. */
	fd = open_path(path, RESOLVE_CACHED);
	if (fd >= 0 && in_fuse(fd)) {
		close(fd);
		return -1;
	}
	return fd < 0 ? -1 : fd;
}

bool fuse_mounts_on(const char *path)
{
	if (!fuse_mounts_any())
		return false;
	auto_fd int fd = open_outside(path);
	return fd == -1;
}

bool fuse_mounts_on_or_below(const char *path)
{
	if (!fuse_mounts_any())
		return false;
	auto_fd int fd = open_outside(path);
	if (fd < 0)
		return fd == -1;
	char link[48], real[AGENT_PATH_MAX + 1];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, real, sizeof real - 1);
	if (n <= 0 || cut)
		return true;
	size_t len = n == 1 ? 0 : (size_t)n; /* "/" is above everything */
	for (size_t i = 0; i < points_n; i++)
		if (strncmp(points[i].path, real, len) == 0 && points[i].path[len] == '/')
			return true;
	return false;
}
