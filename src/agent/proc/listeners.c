#include "agent/proc/listeners.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "proto/limits.h"

/* A line of /proc/net/tcp6 has at most 190 characters; listening sockets come before all others. */
enum { LINE = 192, STATE_LISTEN = 0x0a, FIELDS_BEFORE_STATE = 3 };
/* A new network namespace begins with queues of 4,096. */
enum { MORE = 4096 / BOX_SOMAXCONN - 1 };

static int allowed; /* sockets that listen, or have since the last count; a long queue counts as several */
static int longs;   /* sockets with a long queue: at least as many as there are */

/* "  0: 0100007F:1F90 00000000:0000 0A …" */
static bool line_listens(const char *line)
{
	for (int i = 0; i < FIELDS_BEFORE_STATE; i++) {
		line += strspn(line, " ");
		line += strcspn(line, " ");
	}
	return strtoul(line, NULL, 16) == STATE_LISTEN;
}

static int count_in(const char *path)
{
	static char text[(BOX_LISTENERS + 2) * LINE];
	int n = 0;
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : fd_read_full(fd, text, sizeof text - 1);
	if (size < 0)
		return 0; /* no such family */
	text[size] = 0;
	for (const char *at = strchr(text, '\n'); at && at[1]; at = strchr(at + 1, '\n'))
		n += line_listens(at + 1);
	return n;
}

bool listeners_have_short_queues(void)
{
	static int known; /* 1: they have; -1: they have not */
	char text[16] = "";
	if (!known) {
		auto_fd int fd = open("/proc/sys/net/core/somaxconn", O_RDONLY | O_CLOEXEC);
		bool read_it = fd >= 0 && fd_read_full(fd, text, sizeof text - 1) > 0;
		known = read_it && strtoul(text, NULL, 10) <= BOX_SOMAXCONN ? 1 : -1;
	}
	return known > 0;
}

/* The table does not tell long queues from short ones. */
static void count_again(void)
{
	int n = count_in("/proc/self/net/tcp") + count_in("/proc/self/net/tcp6");
	if (longs > n)
		longs = n;
	allowed = n + longs * MORE;
}

static bool take(int n)
{
	if (allowed + n > BOX_LISTENERS)
		count_again();
	if (allowed + n > BOX_LISTENERS)
		return false;
	allowed += n;
	return true;
}

bool listeners_take(void)
{
	return take(1);
}

bool listeners_lengthen(void)
{
	if (!take(MORE))
		return false;
	longs++;
	return true;
}
