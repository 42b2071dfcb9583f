#include "cage/ids.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"

void ids_init(struct ids *ids, int dir, const char *owner, bool (*owner_lives)(void *, const char *), void *arg)
{
	*ids = (struct ids){.dir = dir, .owner_lives = owner_lives, .arg = arg};
	memset(ids->locks, -1, sizeof ids->locks);
	snprintf(ids->owner, sizeof ids->owner, "%s", owner);
}

void ids_close(struct ids *ids)
{
	for (int b = 0; b < IDS_BLOCKS; b++)
		fd_close(&ids->locks[b]);
	fd_close(&ids->dir);
}

bool ids_lock(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_SETLK, &whole) == 0;
}

static void block_name(char ret[16], uint32_t block)
{
	snprintf(ret, 16, "%u", block);
}

static void read_owner(int fd, char ret[64])
{
	ssize_t n = pread(fd, ret, 63, 0);
	ret[n > 0 ? n : 0] = 0;
}

/* The block's file, locked; -1 when another running warden has it. A warden that releases a block unlinks its file
 * while it holds the lock, so a lock on a file without a name is worth nothing. */
static int lock_block(struct ids *ids, uint32_t block, bool create)
{
	char name[16];
	block_name(name, block);
	auto_fd int fd = openat(ids->dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
	struct stat a, b;
	if (fd < 0 || !ids_lock(fd) || fstat(fd, &a) < 0 || fstatat(ids->dir, name, &b, AT_SYMLINK_NOFOLLOW) < 0 ||
		a.st_ino != b.st_ino)
		return -1;
	return take_fd(&fd);
}

int ids_reclaim(struct ids *ids)
{
	int n = 0;
	for (uint32_t b = 0; b < IDS_BLOCKS; b++) {
		char owner[64];
		auto_fd int fd = ids->locks[b] < 0 ? lock_block(ids, b, false) : -1;
		if (fd < 0)
			continue;
		read_owner(fd, owner);
		if (strcmp(owner, ids->owner) != 0)
			continue;
		ids->locks[b] = take_fd(&fd);
		n++;
	}
	return n;
}

static bool try_claim(struct ids *ids, uint32_t b)
{
	char owner[64];
	auto_fd int fd = lock_block(ids, b, true);
	if (fd < 0)
		return false;
	read_owner(fd, owner);
	if (*owner && strcmp(owner, ids->owner) != 0 && ids->owner_lives(ids->arg, owner))
		return false;
	size_t n = strlen(ids->owner);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, ids->owner, n, 0) != (ssize_t)n)
		return false;
	ids->locks[b] = take_fd(&fd);
	return true;
}

bool ids_take(struct ids *ids, uint32_t block)
{
	return ids->locks[block] >= 0 || try_claim(ids, block);
}

int ids_claim(struct ids *ids, uint32_t *ret_block, struct err *e)
{
	for (uint32_t b = 0; b < IDS_BLOCKS; b++) {
		if (b == IDS_FOREIGN || ids->locks[b] >= 0 || !try_claim(ids, b))
			continue;
		*ret_block = b;
		return 0;
	}
	return err_set(e, ERRC_LIMIT_REACHED, "no free range of user ids: other wardens on this machine hold them all");
}

void ids_release(struct ids *ids)
{
	for (uint32_t b = 0; b < IDS_BLOCKS; b++) {
		char name[16];
		if (ids->locks[b] < 0)
			continue;
		block_name(name, b);
		unlinkat(ids->dir, name, 0);
		fd_close(&ids->locks[b]);
	}
}
