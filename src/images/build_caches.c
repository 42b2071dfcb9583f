/*
 * The volumes behind RUN --mount. A cache is a volume whose name is made of its id; it stays until `image prune`, or
 * until there are more than SERVICE_CACHES_MAX of them. Builds that use it hold a lock on a file with its name, shared
 * or alone: a process that is killed holds no lock. Each owner of builds has caches of its own.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "images/build_mounts.h"

/* ---- volumes ---- */

static int call(struct work *w, const char *method, const char *name, struct str body, struct buf *ret, struct err *e)
{
	auto_buf struct buf path = {0};
	ret->max = SERVICE_PAGE_MAX;
	buf_printf(&path, "/v1/volumes%s%s", *name ? "/" : "", name);
	return daemon_call(&w->link, method, buf_cstr(&path), body, ret, e);
}

/* 0, 1 when this daemon has no volumes, -1. */
static int make(struct work *w, const char *name, uint64_t size, struct err *e)
{
	auto_buf struct buf body = {0}, answer = {0};
	buf_printf(&body, "{\"size\":%llu}", (unsigned long long)(size < BOX_DISK_MIN ? BOX_DISK_MIN : size));
	if (call(w, "POST", name, buf_str(&body), &answer, e) == 0)
		return 0;
	return e->code == ERRC_HOST_UNSUPPORTED ? 1 : -1;
}

static bool drop(struct work *w, const char *name)
{
	auto_buf struct buf answer = {0};
	struct err e;
	return call(w, "DELETE", name, STR(""), &answer, &e) == 0;
}

/* The bytes in it and the sandboxes that name it; false: it is not there. */
static bool look(struct work *w, const char *name, uint64_t *ret_used, uint64_t *ret_users)
{
	auto_buf struct buf answer = {0};
	struct err e;
	if (call(w, "GET", name, STR(""), &answer, &e) < 0)
		return false;
	auto_json struct json_doc *doc = json_parse(buf_str(&answer), &e);
	*ret_used = *ret_users = 0;
	return doc && json_read_u64(json_root(doc), "used", 0, INT64_MAX, ret_used, &e) == 0 &&
	       json_read_u64(json_root(doc), "users", 0, UINT32_MAX, ret_users, &e) == 0;
}

static int list(struct work *w, const char *prefix, struct words *ret, struct err *e)
{
	auto_buf struct buf answer = {0};
	if (call(w, "GET", "", STR(""), &answer, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(buf_str(&answer), e);
	json_each(it, doc ? json_get(json_root(doc), "volumes") : NULL)
	{
		struct str name = STR_NULL;
		if (json_read_str(it, "name", &name, NULL) == 0 && str_starts(name, str_of(prefix)))
			words_add(ret, name);
	}
	return doc ? 0 : -1;
}

/* ---- locks ---- */

static int locks_dir(struct err *e)
{
	char path[4200];
	snprintf(path, sizeof path, "%s/caches", the_order.state);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make %s", path);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "open %s", path) : fd;
}

/* An open lock file, whose time says when the cache was used last; how: LOCK_SH or LOCK_EX. -EWOULDBLOCK: others have
 * it.
 */
static int lock(int dir, const char *name, int how)
{
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	struct stat st = {0};
	int error = flock(fd, how | LOCK_NB) < 0 ? errno : 0;
	/* A prune may have removed the file meanwhile: the next look makes a new one. */
	if (!error && fstat(fd, &st) == 0 && st.st_nlink)
		return fd;
	close(fd);
	return error ? -error : -EWOULDBLOCK;
}

static void wait_a_moment(void)
{
	poll(NULL, 0, SERVICE_CACHE_LOOK);
}

static void name_cache(const char *owner, const char *id, unsigned n, char ret[VOLUME_NAME_MAX + 1])
{
	auto_buf struct buf text = {0};
	char hex[IMAGE_HEX + 1];
	if (*owner)
		buf_printf(&text, "owner %s ", owner);
	buf_printf(&text, "cache %u %s", n, id);
	digest_of(buf_str(&text), hex);
	snprintf(ret, VOLUME_NAME_MAX + 1, CACHE_VOLUMES "%.32s", hex);
}

static int lock_cache(struct build *b, int dir, struct mount *m, struct err *e)
{
	uint64_t until = clock_ms() + SERVICE_CACHE_WAIT;
	bool said = false;
	for (;;) {
		/* A private cache that is in use is left alone: there are several for one id. */
		for (unsigned n = 0; n < (m->sharing == MOUNT_PRIVATE ? SERVICE_CACHE_PRIVATE : 1u); n++) {
			name_cache(b->order->owner, m->id, n, m->volume);
			m->lock = lock(dir, m->volume, m->sharing == MOUNT_SHARED ? LOCK_SH : LOCK_EX);
			if (m->lock >= 0)
				return 0;
			if (m->lock != -EWOULDBLOCK)
				return err_os(e, ERRC_FILESYSTEM_ERROR, -m->lock, "lock the cache '%.60s'", m->id);
		}
		if (clock_ms() > until)
			return err_set(e, ERRC_RESOURCE_BUSY, "the cache '%.60s' is in use by another build", m->id);
		if (!said)
			build_say("output", STR("waiting for a cache that another build uses\n"));
		said = true;
		wait_a_moment();
	}
}

/* A build that was killed holds no lock, but its box may live a moment longer. */
static int wait_for_box(struct build *b, const struct mount *m, struct err *e)
{
	uint64_t used, users = 0, until = clock_ms() + SERVICE_CACHE_BOX;
	while (look(&b->work, m->volume, &used, &users) && users) {
		if (clock_ms() > until)
			return err_set(e, ERRC_RESOURCE_BUSY, "the cache '%.60s' is in use by a sandbox", m->id);
		wait_a_moment();
	}
	return 0;
}

/* Removes the cache that was not used for the longest time, when there are too many. */
static void make_room(struct build *b, int dir)
{
	struct words all = {0};
	struct err e;
	const char *oldest = NULL;
	int64_t when = INT64_MAX;
	if (list(&b->work, CACHE_VOLUMES, &all, &e) == 0 && all.n >= SERVICE_CACHES_MAX)
		for (size_t i = 0; i < all.n; i++) {
			struct stat st = {0};
			fstatat(dir, all.v[i], &st, AT_SYMLINK_NOFOLLOW);
			if (st.st_mtim.tv_sec < when) {
				when = st.st_mtim.tv_sec;
				oldest = all.v[i];
			}
		}
	auto_fd int held = oldest ? lock(dir, oldest, LOCK_EX) : -1;
	if (held >= 0)
		drop(&b->work, oldest);
	words_free(&all);
}

int cache_take(struct build *b, struct mount *m, struct err *e)
{
	uint64_t used, users;
	auto_fd int dir = locks_dir(e);
	if (dir < 0 || lock_cache(b, dir, m, e) < 0)
		return -1;
	futimens(m->lock, NULL);
	if (m->sharing != MOUNT_SHARED && wait_for_box(b, m, e) < 0)
		return -1;
	m->is_new = !look(&b->work, m->volume, &used, &users);
	if (m->is_new)
		make_room(b, dir);
	return make(&b->work, m->volume, SERVICE_CACHE_SIZE, e);
}

int scratch_take(struct build *b, struct mount *m, size_t n, struct err *e)
{
	snprintf(m->volume, sizeof m->volume, OTHER_VOLUMES "%d.%zu", (int)getpid(), n);
	m->is_new = true;
	return make(&b->work, m->volume, m->size ? m->size : SERVICE_SCRATCH_SIZE, e);
}

void mounts_release(struct build *b, struct mounts *all)
{
	for (size_t i = 0; i < all->n; i++) {
		struct mount *m = &all->v[i];
		if (*m->volume && m->type != MOUNT_CACHE)
			drop(&b->work, m->volume);
		fd_close(&m->lock);
		*m->volume = 0;
	}
}

void caches_drop_of(struct work *w, pid_t owner)
{
	struct words all = {0};
	struct err e;
	struct str rest;
	if (list(w, OTHER_VOLUMES, &all, &e) < 0)
		return;
	for (size_t i = 0; i < all.n; i++) {
		uint64_t pid;
		struct str number = str_skip(str_of(all.v[i]), sizeof OTHER_VOLUMES - 1);
		if (str_to_u64(str_split(number, '.', &rest), INT32_MAX, &pid) && pid &&
			(owner ? (pid_t)pid == owner : !left_is_at_work((pid_t)pid)))
			drop(w, all.v[i]);
	}
	words_free(&all);
}

int caches_prune(struct work *w, bool dry, uint64_t *ret_n, uint64_t *ret_bytes, struct err *e)
{
	struct words all = {0};
	*ret_n = *ret_bytes = 0;
	auto_fd int dir = locks_dir(e);
	if (dir < 0 || list(w, CACHE_VOLUMES, &all, e) < 0)
		return -1;
	for (size_t i = 0; i < all.n; i++) {
		uint64_t used, users;
		auto_fd int held = lock(dir, all.v[i], dry ? LOCK_SH : LOCK_EX);
		if (held < 0 || !look(w, all.v[i], &used, &users) || (!dry && !drop(w, all.v[i])))
			continue;
		*ret_n += 1;
		*ret_bytes += used;
		if (!dry)
			unlinkat(dir, all.v[i], 0);
	}
	words_free(&all);
	return 0;
}
