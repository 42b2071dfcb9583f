#include "cage/trash.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cage/pool/btrfs.h"

/* Unique among the names of this and earlier processes: the clock goes on, the counter tells names of one moment apart.
 */
static void fresh_name(char ret[48])
{
	static unsigned counter;
	snprintf(ret, 48, "%llx-%x-%x", (unsigned long long)clock_wall_ms(), (unsigned)getpid(), counter++);
}

int trash_put(int dir, const char *name, int trash)
{
	char to[48];
	fresh_name(to);
	if (renameat(dir, name, trash, to) == 0)
		return 0;
	int os = errno;
	/* A full btrfs refuses renames, but lets subvolumes be deleted: that makes room. */
	if ((os == ENOSPC || os == EDQUOT) && btrfs_subvolume_delete(dir, name) == 0)
		return 0;
	return -os;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Deletes the entry, or lifts it into the trash when it is a directory that is not empty. An entry that is gone is a
 * success: a reaper of the warden before may still be at work. */
static int trash_drop(int dir, const char *name, int trash)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	return trash_put(dir, name, trash);
}

/* One pass over a directory; true when something was done. */
static bool trash_sweep(DIR *d, int trash)
{
	bool progress = false;
	rewinddir(d);
	for (struct dirent *entry; (entry = readdir(d));)
		if (!is_dots(entry->d_name) && trash_drop(dirfd(d), entry->d_name, trash) == 0)
			progress = true;
	return progress;
}

static DIR *open_dir(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	DIR *d = fdopendir(fd);
	if (!d)
		close(fd);
	return d;
}

/* Empties and removes one directory of the trash. */
static int remove_dir(int trash, const char *name)
{
	if (btrfs_subvolume_delete(trash, name) == 0) /* a layer of a pool, at once */
		return 0;
	for (;;) {
		if (unlinkat(trash, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		int os = errno;
		DIR *d = os == ENOTEMPTY || os == EEXIST ? open_dir(trash, name) : NULL;
		if (!d)
			return -os;
		bool progress = trash_sweep(d, trash);
		closedir(d);
		if (!progress)
			return -ENOTEMPTY;
	}
}

unsigned trash_empty(int trash)
{
	DIR *d = open_dir(trash, ".");
	if (!d)
		return 1;
	unsigned stuck;
	for (bool progress = true; progress;) {
		progress = false;
		stuck = 0;
		rewinddir(d);
		for (struct dirent *entry; (entry = readdir(d));) {
			if (is_dots(entry->d_name))
				continue;
			if (unlinkat(trash, entry->d_name, 0) == 0 || remove_dir(trash, entry->d_name) == 0)
				progress = true;
			else
				stuck++;
		}
	}
	closedir(d);
	return stuck;
}
