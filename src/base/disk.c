#include "base/disk.h"

#include <sys/statvfs.h>

#include "base/limits.h"

uint64_t disk_room(int fd)
{
	struct statvfs st;
	if (fstatvfs(fd, &st) < 0)
		return 0;
	if (!st.f_blocks) /* a pipe, a socket, a file system in memory without a limit */
		return UINT64_MAX;
	uint64_t reserve = (uint64_t)st.f_blocks * st.f_frsize / DISK_RESERVE_SHARE;
	uint64_t room = (uint64_t)st.f_bavail * st.f_frsize;
	reserve = reserve < DISK_RESERVE_MAX ? reserve : DISK_RESERVE_MAX;
	return room > reserve ? room - reserve : 0;
}

bool disk_takes(struct disk_guard *g, int fd, uint64_t n)
{
	uint64_t step = n < DISK_LOOK ? DISK_LOOK : n;
	if (g->written + n > g->look_at) {
		uint64_t room = disk_room(fd);
		if (room < n)
			return false;
		g->look_at = g->written + (room < step ? room : step);
	}
	g->written += n;
	return true;
}
