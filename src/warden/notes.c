/*
 * notes.c - notes of the images that a daemon uses (users/INSTANCE/), of daemons that have ended for good.
 *
 * A daemon that is stopped may have sandboxes, so its notes keep its images. It has ended for good when its data
 * directory is gone, its warden does not live, and it has noted nothing for IMAGE_ENDED_SECONDS: a disk that is not
 * mounted for a while looks alike. Every warden notes its data directory in users/INSTANCE/.data when it starts; notes
 * of a warden that has not are kept.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/log.h"
#include "proto/image.h"
#include "warden/images.h"
#include "warden/limits.h"
#include "warden/record.h"

enum { PATH = 4096 };

static int open_dir(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* The lock that its warden holds (staging.c). */
static bool warden_lives(int images, const char *instance)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char path[NAME_MAX + 32];
	snprintf(path, sizeof path, "staging/%s/lock", instance);
	auto_fd int fd = openat(images, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && (fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK);
}

static bool has_ended(int images, int dir, const char *instance)
{
	auto_buf struct buf data = {0};
	struct stat st;
	if (fstat(dir, &st) < 0 || st.st_mtime + IMAGE_ENDED_SECONDS > time(NULL) ||
		fd_read_file(dir, ".data", PATH, &data) < 0 || !buf_size(&data))
		return false;
	return lstat(buf_cstr(&data), &st) < 0 && (errno == ENOENT || errno == ENOTDIR) &&
	       !warden_lives(images, instance);
}

struct look {
	int images, users;
	const char *own;
};

static void forget_note(void *arg, const char *name)
{
	unlinkat(*(const int *)arg, name, 0);
}

static void look_at(void *arg, const char *instance)
{
	const struct look *l = arg;
	auto_fd int dir = strcmp(instance, l->own) == 0 ? -1 : open_dir(l->users, instance);
	if (dir < 0 || !has_ended(l->images, dir, instance))
		return;
	record_each(dir, forget_note, &dir);
	unlinkat(dir, ".data", 0);
	unlinkat(l->users, instance, AT_REMOVEDIR);
	log_event(LOG_INFO, "removed the image notes of a daemon that has ended", "instance=%s", LOG_Q(instance));
}

void notes_collect(const char *images, const char *instance, const char *data)
{
	char path[NAME_MAX + 32];
	auto_fd int dir = open(images, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return; /* images_prepare says so */
	mkdirat(dir, "users", 0700);
	snprintf(path, sizeof path, "users/%s", instance);
	mkdirat(dir, path, 0700);
	snprintf(path, sizeof path, "users/%s/.data", instance);
	int r = fd_replace_file(dir, path, str_of(data), 0600);
	if (r < 0)
		return; /* the directory cannot be written */
	auto_fd int users = open_dir(dir, "users");
	if (users >= 0)
		record_each(users, look_at, &(struct look){dir, users, instance});
}
