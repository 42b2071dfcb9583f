/*
 * The storer's jobs. Each makes its result under making/<ticket>/ and gives it its name with one rename: a job that is
 * killed leaves a rest that the next start of the warden deletes. A directory of its own for every job matters for
 * speed too: the kernel holds the lock of the directory while a snapshot waits for the disk.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "cage/layers.h"
#include "cage/limits.h"
#include "cage/pool/carry.h"
#include "cage/pool/diff.h"
#include "cage/pool/full.h"
#include "cage/pool/pool.h"
#include "cage/pool/receive.h"
#include "cage/sys.h"
#include "cage/trash.h"
#include "warden/storage/storer.h"

#define PART POOL_PART

enum { CARRY_NICE = 10 };
enum { RENAME_SWAP = 2 /* RENAME_EXCHANGE */ };

/* making/<ticket>, empty. */
struct place {
	int dir, fd;
	char name[32];
};

static int place_make(const struct storer_view *v, uint64_t ticket, struct place *ret)
{
	ret->dir = v->pool->making;
	snprintf(ret->name, sizeof ret->name, "%llu", (unsigned long long)ticket);
	if (mkdirat(ret->dir, ret->name, 0700) < 0 && errno != EEXIST)
		return -errno;
	ret->fd = openat(ret->dir, ret->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return ret->fd < 0 ? -errno : 0;
}

static void place_drop(struct place *p)
{
	btrfs_subvolume_delete(p->fd, PART);
	fd_close(&p->fd);
	unlinkat(p->dir, p->name, AT_REMOVEDIR);
}

static int open_dir(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_snapshot(const struct storer_view *v, const char *name)
{
	char path[SNAPSHOT_NAME_MAX + sizeof "/" PART];
	snprintf(path, sizeof path, "%s/" PART, name);
	return open_dir(v->pool->snapshots, path);
}

static void go_to_background(const struct storer_view *v)
{
	setpriority(PRIO_PROCESS, 0, CARRY_NICE);
	if (v->background >= 0 && write(v->background, "0", 1) < 0)
		return; /* it only takes more of the time */
}

/* The kernel writes the dirty data of a subvolume before it copies it: copy it once for that alone. */
static int flush(struct storer_view *v, const struct storer_job *job)
{
	struct place at = {.fd = -1};
	struct layer_note n = {0};
	auto_fd int layer = open_dir(v->pool->boxes, job->layer);
	int r = layer < 0 ? layer : pool_note_read(layer, &n);
	if (r == 0)
		r = place_make(v, job->ticket, &at);
	if (r < 0)
		return r;
	r = btrfs_snapshot_make(at.fd, PART, layer, false, pool_group_of_copies(v->pool, &n));
	place_drop(&at);
	return r;
}

static int snapshot(struct storer_view *v, const struct storer_job *job)
{
	auto_fd int layer = open_dir(v->pool->boxes, job->layer);
	if (layer < 0)
		return layer;
	if (mkdirat(v->pool->snapshots, job->snapshot, 0700) < 0 && errno != EEXIST)
		return -errno;
	auto_fd int dir = open_dir(v->pool->snapshots, job->snapshot);
	int r = dir < 0 ? dir : pool_snapshot_slow(v->pool, layer, dir, PART);
	if (r < 0 && r != -EEXIST)
		unlinkat(v->pool->snapshots, job->snapshot, AT_REMOVEDIR);
	return r;
}

static int drop(struct storer_view *v, const struct storer_job *job)
{
	auto_fd int dir = open_dir(v->pool->snapshots, job->snapshot);
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	int r = btrfs_subvolume_delete(dir, PART);
	if (r < 0 && r != -ENOENT)
		return r;
	btrfs_reclaim(v->pool->root);
	full_watch_slow(v->pool); /* the box gets the room of the snapshot back */
	return unlinkat(v->pool->snapshots, job->snapshot, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int clone_into(struct storer_view *v, const struct place *at, const char *name, struct pool_clone *c)
{
	auto_fd int source = open_snapshot(v, name);
	bool own = c->group == 0;
	int r = source < 0 ? source : -ENOENT;
	/* A group without a subvolume may be swept in between. */
	for (int i = 0; source >= 0 && r == -ENOENT && i < 3; i++) {
		r = own ? pool_group_new(v->pool, &c->group) : 0;
		if (r == 0)
			r = pool_clone_slow(v->pool, source, at->fd, PART, c);
	}
	return r;
}

static int clone(struct storer_view *v, const struct storer_job *job)
{
	struct place at;
	struct pool_clone c = {.limit = job->limit};
	int r = place_make(v, job->ticket, &at);
	if (r < 0)
		return r;
	r = clone_into(v, &at, job->snapshot, &c);
	if (r == 0 && sys_rename_new(at.fd, PART, v->pool->boxes, job->layer) < 0)
		r = -errno;
	place_drop(&at);
	return r;
}

/* The old layer lies where the new one was made, or in the plain directories. */
static int swap(struct storer_view *v, const struct place *at, const char *name)
{
	if (syscall(SYS_renameat2, at->fd, PART, v->pool->boxes, name, RENAME_SWAP) == 0) {
		trash_put(at->fd, PART, v->pool->trash);
		return 0;
	}
	if (errno != ENOENT)
		return -errno;
	if (sys_rename_new(at->fd, PART, v->pool->boxes, name) < 0)
		return -errno;
	trash_put(v->plain_boxes, name, v->plain_trash);
	return 0;
}

static int replace(struct storer_view *v, const struct storer_job *job)
{
	struct place at;
	struct layer_note old = {0};
	struct pool_clone c = {.limit = job->limit};
	auto_fd int layer = open_dir(v->pool->boxes, job->layer);
	if (layer >= 0 && pool_note_read(layer, &old) == 0) {
		c.group = old.group;
		c.old = &old;
	}
	int r = place_make(v, job->ticket, &at);
	if (r < 0)
		return r;
	r = clone_into(v, &at, job->snapshot, &c);
	if (r == 0)
		r = swap(v, &at, job->layer);
	place_drop(&at);
	return r;
}

static int recount(struct storer_view *v, const struct storer_job *job)
{
	go_to_background(v);
	if (!*job->layer)
		return pool_recount_all_slow(v->pool);
	auto_fd int layer = open_dir(v->pool->boxes, job->layer);
	return layer < 0 ? layer : pool_recount_slow(v->pool, layer);
}

/* The plain layer goes when its copy is on the disk and has its name. */
static int carry(struct storer_view *v, const struct storer_job *job)
{
	struct place at;
	struct err e = {0};
	auto_fd int plain = open_dir(v->plain_boxes, job->layer);
	auto_fd int upper = plain < 0 ? -1 : open_dir(plain, "upper");
	int r = upper < 0 ? -ENOENT : place_make(v, job->ticket, &at);
	if (r < 0)
		return r;
	setpriority(PRIO_PROCESS, 0, CARRY_NICE);
	if (pool_layer_make(v->pool, at.fd, PART, job->limit, &e) < 0)
		r = e.os ? -e.os : -EIO;
	auto_fd int to = r < 0 ? -1 : open_dir(at.fd, PART "/upper");
	if (r == 0)
		r = to < 0 ? to : carry_tree(upper, to);
	if (r == 0 && syncfs(to) < 0)
		r = -errno;
	if (r == 0 && sys_rename_new(at.fd, PART, v->pool->boxes, job->layer) < 0)
		r = -errno;
	if (r == 0)
		trash_put(v->plain_boxes, job->layer, v->plain_trash);
	place_drop(&at);
	return r;
}

static int compare(struct storer_view *v, const struct storer_job *job, int out)
{
	int roots[IMAGE_LAYERS_MAX];
	struct diff_image image = {.roots = roots};
	struct image found;
	struct err e = {0};
	auto_fd int layer = open_dir(v->pool->boxes, job->layer);
	auto_fd int then = open_snapshot(v, job->snapshot);
	if (layer < 0 || then < 0)
		return layer < 0 ? layer : then;
	if (image_find(v->images, job->image, &found, &e) < 0 || image_open(v->images, &found, roots, &image.n, &e) < 0)
		return -ENOENT;
	int r = diff_write(layer, then, &image, out);
	for (size_t i = 0; i < image.n; i++)
		close(roots[i]);
	return r;
}

/* ---- backups ---- */

static int send_snapshot(struct storer_view *v, const struct storer_job *job, int out)
{
	auto_fd int from = open_snapshot(v, job->snapshot);
	auto_fd int parent = *job->parent ? open_snapshot(v, job->parent) : -1;
	if (from < 0 || (*job->parent && parent < 0))
		return from < 0 ? from : parent;
	go_to_background(v);
	return btrfs_send(from, parent, out);
}

/* The streams are parsed in a process that sees the new subvolume and nothing else. */
static int receive_into(int root, int in)
{
	int status = 0;
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EIO);
		receive_life(in, root, STORER_FD_LOCK);
	}
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static int keep_received(struct storer_view *v, const struct place *at, const char *name, int root)
{
	if (mkdirat(v->pool->snapshots, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	auto_fd int dir = open_dir(v->pool->snapshots, name);
	if (dir < 0)
		return dir;
	int r = sys_rename_new(at->fd, PART, dir, PART) < 0 ? -errno : btrfs_subvolume_freeze(root);
	if (r < 0 && r != -EEXIST)
		unlinkat(v->pool->snapshots, name, AT_REMOVEDIR);
	return r;
}

static int receive(struct storer_view *v, const struct storer_job *job, int in)
{
	struct place at;
	struct layer_note n;
	int r = place_make(v, job->ticket, &at);
	if (r < 0)
		return r;
	go_to_background(v);
	/* Twice the limit: files are replaced while both are there. */
	r = pool_incoming_make(v->pool, at.fd, PART, 2 * job->limit + RECEIVE_MORE, &n);
	auto_fd int root = r < 0 ? -1 : open_dir(at.fd, PART);
	if (r == 0)
		r = root < 0 ? root : receive_into(root, in);
	if (r == 0)
		r = pool_note_write(root, &n);
	if (r == 0)
		r = keep_received(v, &at, job->snapshot, root);
	place_drop(&at);
	return r;
}

static int receive_and_tell(struct storer_view *v, const struct storer_job *job, int in)
{
	int r = receive(v, job, in);
	int32_t os = -r;
	send(in, &os, sizeof os, MSG_NOSIGNAL);
	return r;
}

int storer_run(struct storer_view *v, const struct storer_job *job, int fd)
{
	int r = -ENOSYS;
	switch ((enum storer_kind)job->kind) {
	case STORER_FLUSH:
		r = flush(v, job);
		break;
	case STORER_SNAPSHOT:
		r = snapshot(v, job);
		break;
	case STORER_DROP:
		r = drop(v, job);
		break;
	case STORER_CLONE:
		r = clone(v, job);
		break;
	case STORER_REPLACE:
		r = replace(v, job);
		break;
	case STORER_RECOUNT:
		r = recount(v, job);
		break;
	case STORER_DIFF:
		r = compare(v, job, fd);
		break;
	case STORER_ROOM:
		pool_await_room_slow(v->pool);
		r = 0;
		break;
	case STORER_CARRY:
		r = carry(v, job);
		break;
	case STORER_SEND:
		r = send_snapshot(v, job, fd);
		break;
	case STORER_RECEIVE:
		r = receive_and_tell(v, job, fd);
		break;
	case STORER_CANCEL:
		break;
	}
	return -r;
}
