/*
 * The places of RUN --mount in a box: where the mounts of directories go (the box gets them as volumes when it starts),
 * and files that are there for one command only. All of it happens in the box's own files: links that the image or the
 * command has made lead nowhere else.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "mover/mover.h"

/* Takes the last part off; false at the root. */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');
	if (!slash || slash == path)
		return false;
	*slash = 0;
	return true;
}

/* The topmost part of the path that does not exist, or "". */
static void find_top(const char *path, char *ret)
{
	char at[PATH_MAX];
	struct stat st;
	*ret = 0;
	snprintf(at, sizeof at, "%s", path);
	while (lstat(at, &st) < 0 && errno == ENOENT) {
		snprintf(ret, PATH_MAX, "%s", at);
		if (!go_up(at))
			return;
	}
}

/* For each path a line: where its links lead, a tab, and the topmost part that does not exist. */
int mover_places(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char top[PATH_MAX], real[PATH_MAX], above[PATH_MAX];
		struct stat st;
		find_top(argv[i], top);
		snprintf(above, sizeof above, "%s", *top ? top : argv[i]);
		if (*top && !go_up(above))
			snprintf(above, sizeof above, "/");
		if (!realpath(above, real) || stat(real, &st) < 0)
			mover_die("'%s' cannot be entered: %s", above, strerror(errno));
		if (!S_ISDIR(st.st_mode))
			mover_die("'%s' is no directory", above);
		const char *rest = argv[i] + (strcmp(above, "/") == 0 ? 0 : strlen(above));
		size_t n = strcmp(real, "/") == 0 ? 0 : strlen(real);
		printf("%.*s%s\t", (int)n, real, rest);
		if (*top)
			printf("%.*s%s", (int)n, real, strrchr(top, '/'));
		printf("\n");
	}
	return 0;
}

/* PATH TOP …: removes empty directories that were made for mounts, from PATH up to TOP. */
int mover_unplace(int argc, char **argv)
{
	for (int i = 0; i + 1 < argc; i += 2) {
		char at[PATH_MAX];
		snprintf(at, sizeof at, "%s", argv[i]);
		while (rmdir(at) == 0 && strcmp(at, argv[i + 1]) != 0 && go_up(at))
			;
	}
	return 0;
}

/* ---- files for one command ---- */

static struct placed {
	char *path, *aside, *secret; /* aside: what was there before; secret: where its bytes are */
	char top[PATH_MAX];	     /* of the directories that were made for it */
} placed[MOVER_FILES_MAX];
static size_t placed_n;

static void copy_stdin(int out, uint64_t size, const char *path)
{
	char piece[65536];
	while (size) {
		ssize_t n = read(0, piece, size < sizeof piece ? size : sizeof piece);
		if (n <= 0 || fd_write_full(out, piece, (size_t)n) < 0)
			mover_die("'%s' cannot be written: %s", path,
				n < 0 ? strerror(errno) : "No space left on device, or the input was cut off");
		size -= (uint64_t)n;
	}
}

static void put_env(const char *name, uint64_t size)
{
	auto_free char *value = xcalloc(1, size + 1);
	for (uint64_t at = 0; at < size;) {
		ssize_t n = read(0, value + at, size - at);
		if (n <= 0)
			mover_die("the value of '%s' was cut off", name);
		at += (uint64_t)n;
	}
	if (strlen(value) != size || setenv(name, value, 1) < 0)
		mover_die("a secret that holds NUL cannot be the variable '%s'", name);
}

/* KIND:UID:GID:MODE:SIZE:PATH, whose bytes are next on stdin. KIND is f for a file; s for a secret, whose bytes are on
 * a tmpfs of the box with a link to them; e for a variable. */
void place_file(const char *spec)
{
	struct placed *p = &placed[placed_n];
	unsigned uid, gid, mode;
	unsigned long long size;
	char kind;
	int at = 0;
	struct stat st;
	if (sscanf(spec, "%c:%u:%u:%o:%llu:%n", &kind, &uid, &gid, &mode, &size, &at) != 5 || !at ||
		(kind != 'e' && spec[at] != '/') || placed_n == MOVER_FILES_MAX || size > MOVER_BYTES_MAX)
		mover_die("a malformed file '%s'", spec);
	if (kind == 'e')
		return put_env(spec + at, size);
	placed_n++;
	p->path = xstrdup(spec + at);
	find_top(p->path, p->top);
	auto_free char *above = xstrdup(p->path);
	if (go_up(above))
		make_path(above, &(struct user){0});
	if (lstat(p->path, &st) == 0) {
		p->aside = xasprintf("%s.atoll-aside", p->path);
		if (S_ISDIR(st.st_mode) || rename(p->path, p->aside) < 0)
			mover_die("'%s' cannot be the place of a file: %s", p->path,
				S_ISDIR(st.st_mode) ? "it is a directory" : strerror(errno));
	}
	if (kind == 's')
		p->secret = xasprintf("/dev/shm/.atoll-secret-%zu", placed_n);
	const char *path = p->secret ? p->secret : p->path;
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || (p->secret && symlink(p->secret, p->path) < 0))
		mover_die("'%s' cannot be made: %s", p->path, strerror(errno));
	copy_stdin(fd, size, p->path);
	if (fchown(fd, uid, gid) < 0 || fchmod(fd, mode & 07777) < 0)
		mover_die("the owner of '%s' cannot be set: %s", p->path, strerror(errno));
}

bool place_any(void)
{
	return placed_n > 0;
}

/* The command may have put anything in the places: what is there goes, files and links only. */
void place_clean(void)
{
	while (placed_n) {
		struct placed *p = &placed[--placed_n];
		if (p->secret)
			unlink(p->secret);
		unlink(p->path);
		if (p->aside)
			rename(p->aside, p->path);
		else if (go_up(p->path) && *p->top && strlen(p->path) >= strlen(p->top))
			mover_unplace(2, (char *[]){p->path, p->top});
	}
}
