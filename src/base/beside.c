#include "base/beside.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/str.h"

#define BESIDE_ENV "ATOLL_BESIDE"

static struct {
	char name[32];
	int fd;
} kept[BESIDE_MAX];
static size_t kept_n;

void beside_name(const char *name)
{
	prctl(PR_SET_NAME, name);
}

void beside_shown(const char *name, char ret[BESIDE_PATH])
{
	char self[BESIDE_PATH / 2];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = 0;
	snprintf(ret, BESIDE_PATH, "%s/%s", slash ? self : ".", name);
}

/* A descriptor from the parent, or -1. */
static int handed_down(const char *name)
{
	struct str list = str_of(getenv(BESIDE_ENV));
	while (list.n) {
		struct str number, one = str_split(list, ':', &list), key = str_split(one, '=', &number);
		uint64_t fd;
		if (str_eq_c(key, name) && str_to_u64(number, INT32_MAX, &fd) &&
			fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0)
			return (int)fd;
	}
	return -1;
}

void beside_keep(const char *name)
{
	char path[BESIDE_PATH];
	INVARIANT(kept_n < BESIDE_MAX);
	int fd = handed_down(name);
	if (fd < 0) {
		beside_shown(name, path);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		return;
	kept[kept_n].fd = fd;
	snprintf(kept[kept_n++].name, sizeof kept->name, "%s", name);
}

void beside_path(const char *name, char ret[BESIDE_PATH])
{
	for (size_t i = 0; i < kept_n; i++)
		if (strcmp(kept[i].name, name) == 0) {
			snprintf(ret, BESIDE_PATH, "/proc/self/fd/%d", kept[i].fd);
			return;
		}
	beside_shown(name, ret);
}

void beside_hand_down(const char *dir, const char *const *names)
{
	char list[256] = "", path[BESIDE_PATH];
	size_t n = 0;
	for (; *names; names++) {
		snprintf(path, sizeof path, "%s/%s", dir, *names);
		int fd = open(path, O_RDONLY);
		if (fd >= 0 && n < sizeof list)
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%s=%d", n ? ":" : "", *names, fd);
	}
	setenv(BESIDE_ENV, list, 1);
}
