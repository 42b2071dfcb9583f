#include "agent/fuse/mounts.h"

#include <elf.h>
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

/* ---- a program ---- */

static char *from(const char *cwd, const char *path)
{
	return *path == '/' || !cwd ? xstrdup(path) : xasprintf("%s/%s", cwd, path);
}

/* The word behind "#!", as the kernel reads it; "" when there is none. */
static void script_names(const char *head, size_t n, char ret[FUSE_PROGRAM_HEAD])
{
	size_t begin = 2, len = 0;
	while (begin < n && (head[begin] == ' ' || head[begin] == '\t'))
		begin++;
	while (begin + len < n && head[begin + len] && !strchr(" \t\n", head[begin + len]))
		len++;
	memcpy(ret, head + begin, len);
	ret[len] = 0;
}

/* The loader of a dynamic program; "" when it has none. False: it cannot be found out. */
static bool elf_names(int fd, const char *head, size_t n, char ret[FUSE_PROGRAM_HEAD])
{
	Elf64_Ehdr eh;
	ret[0] = 0;
	if (n < sizeof eh)
		return false;
	memcpy(&eh, head, sizeof eh);
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_phentsize != sizeof(Elf64_Phdr))
		return false;
	for (int i = 0; i < eh.e_phnum; i++) {
		Elf64_Phdr ph;
		if (i == FUSE_PROGRAM_HEADERS_MAX ||
			pread(fd, &ph, sizeof ph, (off_t)(eh.e_phoff + (size_t)i * sizeof ph)) != sizeof ph)
			return false;
		if (ph.p_type != PT_INTERP)
			continue;
		if (ph.p_filesz >= FUSE_PROGRAM_HEAD || pread(fd, ret, ph.p_filesz, (off_t)ph.p_offset) < 0)
			return false;
		ret[ph.p_filesz] = 0;
		break;
	}
	return true;
}

enum named { NAMES_NOTHING, NAMES_SCRIPT, NAMES_LOADER, NAMES_UNKNOWN };

/* Which program the kernel will open besides this one. `file` is open for its path alone, and outside of FUSE mounts.
 */
static enum named names(int file, char ret[FUSE_PROGRAM_HEAD])
{
	char path[48], head[FUSE_PROGRAM_HEAD - 1];
	struct stat st;
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode))
		return NAMES_NOTHING;
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	auto_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a lease of the box would hold it up */
	ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
	if (n < 0)
		return NAMES_UNKNOWN;
	if (n > 2 && memcmp(head, "#!", 2) == 0) {
		script_names(head, (size_t)n, ret);
		return *ret ? NAMES_SCRIPT : NAMES_NOTHING;
	}
	if (n < SELFMAG || memcmp(head, ELFMAG, SELFMAG) != 0)
		return NAMES_NOTHING;
	return !elf_names(fd, head, (size_t)n, ret) ? NAMES_UNKNOWN : *ret ? NAMES_LOADER : NAMES_NOTHING;
}

bool fuse_mounts_run(const char *cwd, const char *program)
{
	char next[FUSE_PROGRAM_HEAD];
	if (!fuse_mounts_any())
		return false;
	auto_free char *path = from(cwd, program);
	for (int i = 0; i < FUSE_PROGRAM_DEPTH_MAX; i++) {
		auto_fd int file = open_outside(path);
		if (file < 0)
			return file == -1;
		enum named what = names(file, next);
		if (what == NAMES_NOTHING || what == NAMES_UNKNOWN)
			return what == NAMES_UNKNOWN;
		free(path);
		path = from(cwd, next);
		if (what == NAMES_LOADER)
			return fuse_mounts_on(path);
	}
	return true;
}
