#include "warden/images_child.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "cage/trash.h"
#include "cage/tree.h"
#include "proto/id.h"
#include "warden/limits.h"
#include "warden/warden.h"

enum { NAME = 300 };

static int make_dirs(int dir)
{
	static const struct {
		const char *name;
		mode_t mode;
	} wanted[] = {{"layers", 0700}, {"layers/" IMAGE_EMPTY_LAYER, 0755}, {"meta", 0755}, {"meta/names", 0755},
		{"meta/cache", 0755}, {"meta/sizes", 0755}, {"users", 0700}, {"making", 0700}, {"trash", 0700}};
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (mkdirat(dir, wanted[i].name, wanted[i].mode) < 0 && errno != EEXIST)
			return -errno;
	struct stat st;
	if (fstatat(dir, "meta/" IMAGE_SCRATCH ".layers", &st, 0) == 0)
		return 0;
	int r = fd_replace_file(dir, "meta/" IMAGE_SCRATCH ".json", STR("{}\n"), 0644);
	return r < 0 ? r : fd_replace_file(dir, "meta/" IMAGE_SCRATCH ".layers", STR(IMAGE_EMPTY_LAYER "\n"), 0644);
}

static int open_dir(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

typedef void (*on_entry)(void *arg, int dir, const char *name);

static void each_entry(int parent, const char *path, on_entry f, void *arg)
{
	int fd = open_dir(parent, path);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; d && (entry = readdir(d));)
		if (*entry->d_name != '.')
			f(arg, dirfd(d), entry->d_name);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

/* Half-made things have the number of their process at the end of their name. */
static void sweep_made(void *arg, int dir, const char *name)
{
	const char *dash = strrchr(name, '-');
	uint64_t pid;
	char proc[32];
	if (!str_to_u64(str_of(dash ? dash + 1 : name), INT32_MAX, &pid))
		return;
	snprintf(proc, sizeof proc, "/proc/%d", (int)pid);
	if (access(proc, F_OK) < 0)
		trash_put(dir, name, *(const int *)arg);
}

/* What the children of a killed warden left. The next collection empties the trash. */
static void sweep(int dir)
{
	auto_fd int trash = open_dir(dir, "trash");
	if (trash >= 0)
		each_entry(dir, "making", sweep_made, &trash);
}

void images_prepare(struct warden *w, const char *instance)
{
	struct images *i = &w->images;
	char users[64];
	i->dir = w->host.images;
	i->meta = i->users = -1;
	snprintf(users, sizeof users, "users/%s", instance);
	int r = make_dirs(i->dir);
	if (r == 0 && mkdirat(i->dir, users, 0700) < 0 && errno != EEXIST)
		r = -errno;
	i->staging = (struct staging){.lock = -1, .boxes = -1, .trash = -1};
	if (r == 0)
		r = staging_open(w, instance);
	if (r == 0) {
		i->meta = open_dir(i->dir, "meta");
		i->users = open_dir(i->dir, users);
	}
	i->usable = i->meta >= 0 && i->users >= 0;
	if (i->usable)
		sweep(i->dir);
	if (!i->usable)
		log_event(LOG_WARN, "the image directory cannot be written: no images but Atoll's own", "error=%s",
			LOG_Q(strerror(-r)));
}

/* Held until the child ends. */
static int lock(const struct images_work *w, struct err *e)
{
	int fd = openat(w->images->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	while (fd >= 0 && flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "lock the image directory");
	return fd < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "open the lock of the image directory") : fd;
}

static int fail(struct err *e, int os, const char *what)
{
	return err_os(e, os == ENOSPC || os == EDQUOT ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, os, "%s", what);
}

/* ---- a box's layer ---- */

static int fetch_upper(const struct images_work *w, const char *made, struct err *e)
{
	char upper[BOX_FILENAME_MAX + 8], box[BOX_FILENAME_MAX];
	box_id_filename(str_of(w->rq->box), box);
	snprintf(upper, sizeof upper, "%s/upper", box);
	if (w->boxes >= 0 && renameat(w->boxes, upper, w->images->dir, made) == 0)
		return 0;
	if (w->boxes < 0 || errno == ENOENT)
		return err_set(e, ERRC_SANDBOX_NOT_FOUND, "there are no files of sandbox '%s'", w->rq->box);
	if (errno != EXDEV)
		return fail(e, errno, "take the sandbox's layer");
	auto_fd int from = open_dir(w->boxes, upper);
	if (from < 0)
		return fail(e, errno, "open the sandbox's layer");
	int r = tree_copy(from, w->images->dir, made);
	return r < 0 ? fail(e, -r, "copy the sandbox's layer") : 0;
}

static int take(const struct images_work *w, struct err *e)
{
	char made[NAME], to[NAME];
	snprintf(made, sizeof made, "making/%d", (int)getpid());
	snprintf(to, sizeof to, "layers/%s", w->rq->layer);
	auto_fd int trash = open_dir(w->images->dir, "trash");
	int r = fetch_upper(w, made, e);
	if (r == 0) {
		auto_fd int held = lock(w, e);
		/* A layer of this name is the same layer: the name is the digest of how it was made. */
		if (held < 0 || (sys_rename_new(w->images->dir, made, w->images->dir, to) < 0 && errno != EEXIST))
			r = held < 0 ? -1 : fail(e, errno, "keep the layer");
	}
	trash_put(w->images->dir, made, trash);
	trash_empty(trash);
	return r;
}

/* ---- an image ---- */

static int read_given(int fd, size_t max, struct buf *ret, struct err *e)
{
	char piece[65536];
	off_t at = 0;
	for (ssize_t n; (n = pread(fd, piece, sizeof piece, at)) != 0; at += n) {
		if (n < 0)
			return fail(e, errno, "read the image's description");
		if (buf_size(ret) + (size_t)n > max || !buf_add(ret, piece, (size_t)n))
			return err_set(
				e, ERRC_PAYLOAD_TOO_LARGE, "the image's description is larger than %zu bytes", max);
	}
	return 0;
}

static int check_layers(const struct images_work *w, struct str text, struct err *e)
{
	struct str line;
	size_t n = 0;
	for (bool ok = true; image_layer_next(&text, &line, &ok); n++) {
		char path[NAME];
		struct stat st;
		snprintf(path, sizeof path, ok && image_hex_ok(line) ? "layers/%.*s" : "%.*s/rootfs",
			ok ? (int)line.n : 0, line.p);
		if (!ok || fstatat(w->images->dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			return err_set(e, ERRC_INVALID_REQUEST, "layer %zu of the image is not there", n + 1);
	}
	return n >= 1 && n <= IMAGE_LAYERS_MAX
		       ? 0
		       : err_set(e, ERRC_INVALID_REQUEST, "an image has 1 to %d layers, not %zu", IMAGE_LAYERS_MAX, n);
}

static int put(const struct images_work *w, struct err *e)
{
	auto_buf struct buf layers = {0}, old = {0}, config = {.max = IMAGE_CONFIG_MAX};
	char name[NAME];
	auto_fd int held = lock(w, e);
	if (held < 0 || read_given(w->fds[0], IMAGE_LAYERS_MAX * (IMAGE_HEX + 1), &layers, e) < 0 ||
		read_given(w->fds[1], IMAGE_CONFIG_MAX, &config, e) < 0 || check_layers(w, buf_str(&layers), e) < 0)
		return -1;
	/* The same key is the same configuration. Slots that were made ahead know an image by this very file. */
	snprintf(name, sizeof name, "%s.layers", w->rq->key);
	if (fd_read_file(w->images->meta, name, IMAGE_LAYERS_MAX * (IMAGE_HEX + 1), &old) == 0 &&
		str_eq(buf_str(&old), buf_str(&layers)))
		return 0;
	/* The layers come last: an image is there when its layers are. */
	snprintf(name, sizeof name, "%s.json", w->rq->key);
	int r = fd_replace_file(w->images->meta, name, buf_str(&config), 0644);
	snprintf(name, sizeof name, "%s.layers", w->rq->key);
	r = r < 0 ? r : fd_replace_file(w->images->meta, name, buf_str(&layers), 0644);
	return r < 0 ? fail(e, -r, "write the image's description") : 0;
}

static int put_packages(const struct images_work *w, struct err *e)
{
	auto_buf struct buf text = {.max = IMAGE_PACKAGES_MAX};
	struct stat st;
	char name[NAME];
	auto_fd int held = lock(w, e);
	if (held < 0 || read_given(w->fds[0], IMAGE_PACKAGES_MAX, &text, e) < 0)
		return -1;
	snprintf(name, sizeof name, "%s.layers", w->rq->key);
	if (fstatat(w->images->meta, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(e, errno, "find the image");
	snprintf(name, sizeof name, "%s.packages", w->rq->key);
	int r = fd_replace_file(w->images->meta, name, buf_str(&text), 0644);
	return r < 0 ? fail(e, -r, "write the image's packages") : 0;
}

/* ---- names ---- */

static int put_link(const struct images_work *w, struct err *e)
{
	const char *space = w->rq->flags & IMAGE_CACHE ? "cache" : "names";
	char path[NAME], made[NAME];
	snprintf(path, sizeof path, "%s/%s", space, w->rq->name);
	snprintf(made, sizeof made, "../making/link-%d", (int)getpid());
	auto_fd int held = lock(w, e);
	if (held < 0)
		return -1;
	if (!*w->rq->key)
		return unlinkat(w->images->meta, path, 0) == 0 || errno == ENOENT ? 0
										  : fail(e, errno, "remove the name");
	if (symlinkat(w->rq->key, w->images->meta, made) == 0 &&
		renameat(w->images->meta, made, w->images->meta, path) == 0)
		return 0;
	int os = errno;
	unlinkat(w->images->meta, made, 0);
	return fail(e, os, "write the name");
}

static int unuse(const struct images_work *w)
{
	struct stat st;
	/* A create that has just looked the image up may not have its box yet. */
	if (fstatat(w->images->users, w->rq->key, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		time(NULL) - st.st_mtime > IMAGE_USE_SECONDS)
		unlinkat(w->images->users, w->rq->key, 0);
	return 0;
}

/* ---- collection ---- */

struct collection {
	const struct images_work *w;
	struct map keys, layers; /* what must stay */
	struct map gone;	 /* images that would be removed */
	struct image_reply *reply;
	int trash;
};

static bool is_dry(const struct collection *c)
{
	return c->w->rq->flags & IMAGE_DRY;
}

static void keep(struct map *m, struct str s)
{
	map_put(m, s, m);
}

static void keep_link(void *arg, int dir, const char *name)
{
	struct collection *c = arg;
	char key[BOX_IMAGE_NAME_MAX + 2];
	ssize_t n = readlinkat(dir, name, key, sizeof key);
	if (n > 0)
		keep(&c->keys, str_n(key, (size_t)n));
}

static void keep_used(void *arg, int dir, const char *name)
{
	(void)dir;
	keep(&((struct collection *)arg)->keys, str_of(name));
}

static void keep_users(void *arg, int dir, const char *instance)
{
	each_entry(dir, instance, keep_used, arg);
}

static bool used_now(struct collection *c, const char *key)
{
	struct collection again = {.w = c->w};
	each_entry(c->w->images->dir, "users", keep_users, &again);
	return map_get(&again.keys, str_of(key)) != NULL;
}

static void collect_image(void *arg, int dir, const char *name)
{
	struct collection *c = arg;
	struct str file = str_of(name);
	char key[BOX_IMAGE_NAME_MAX + 1], json[NAME], away[NAME];
	if (!str_ends(file, STR(".layers")) || file.n - 7 > BOX_IMAGE_NAME_MAX)
		return;
	snprintf(key, sizeof key, "%.*s", (int)(file.n - 7), name);
	if (map_get(&c->keys, str_of(key)) || !image_key_made_here(str_of(key)) || strcmp(key, IMAGE_SCRATCH) == 0)
		return;
	if (is_dry(c)) {
		keep(&c->gone, str_of(name));
		c->reply->images++;
		return;
	}
	/* A create notes its use, then looks the image up. Take the image away, then look at the notes: either the
	 * create does not find it, or we see the note and put it back. */
	snprintf(away, sizeof away, "../making/image-%d", (int)getpid());
	if (renameat(dir, name, dir, away) < 0)
		return;
	if (used_now(c, key)) {
		renameat(dir, away, dir, name);
		return;
	}
	snprintf(json, sizeof json, "%s.json", key);
	unlinkat(dir, json, 0);
	snprintf(json, sizeof json, "%s.packages", key);
	unlinkat(dir, json, 0);
	unlinkat(dir, away, 0);
	c->reply->images++;
}

static void keep_layers(void *arg, int dir, const char *name)
{
	struct collection *c = arg;
	auto_buf struct buf text = {0};
	struct str rest, line;
	bool ok = true;
	if (!str_ends(str_of(name), STR(".layers")) || map_get(&c->gone, str_of(name)) ||
		fd_read_file(dir, name, IMAGE_LAYERS_MAX * (IMAGE_HEX + 1), &text) < 0)
		return;
	rest = buf_str(&text);
	while (image_layer_next(&rest, &line, &ok))
		keep(&c->layers, line);
}

/* A layer is there before the image that it is for: young ones may belong to a build that goes on. */
static void collect_layer(void *arg, int dir, const char *name)
{
	struct collection *c = arg;
	struct stat st;
	if (map_get(&c->layers, str_of(name)) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (st.st_ctim.tv_sec + IMAGE_LAYER_SECONDS > time(NULL))
		return;
	if (!is_dry(c) && trash_put(dir, name, c->trash) < 0)
		return;
	c->reply->layers++;
	c->reply->bytes += images_size(c->w->images, name);
	if (!is_dry(c))
		images_size_forget(c->w->images, name);
}

static void count_layer(void *arg, int dir, const char *name)
{
	struct collection *c = arg;
	(void)dir;
	if (strcmp(name, IMAGE_EMPTY_LAYER) == 0)
		return;
	c->reply->stored++;
	c->reply->stored_bytes += images_size(c->w->images, name);
}

static void forget_step(void *arg, int dir, const char *name)
{
	(void)arg;
	unlinkat(dir, name, 0);
}

static void measure(const struct images_work *w, struct err *e)
{
	auto_fd int held = lock(w, e);
	if (held >= 0)
		images_measure(w->images);
}

static int collect(const struct images_work *w, struct image_reply *reply)
{
	auto_fd int trash = open_dir(w->images->dir, "trash");
	auto_fd int held = lock(w, &reply->err);
	struct collection c = {.w = w, .reply = reply, .trash = trash};
	if (held < 0)
		return -1;
	images_measure(w->images);
	each_entry(w->images->dir, "layers", count_layer, &c);
	bool cache = !(w->rq->flags & IMAGE_CACHE);
	if (!cache && !is_dry(&c))
		each_entry(w->images->meta, "cache", forget_step, NULL);
	keep(&c.layers, STR(IMAGE_EMPTY_LAYER));
	each_entry(w->images->meta, "names", keep_link, &c);
	if (cache)
		each_entry(w->images->meta, "cache", keep_link, &c);
	each_entry(w->images->dir, "users", keep_users, &c);
	each_entry(w->images->meta, ".", collect_image, &c);
	each_entry(w->images->meta, ".", keep_layers, &c);
	each_entry(w->images->dir, "layers", collect_layer, &c);
	fd_close(&held);
	trash_empty(trash);
	return 0;
}

void images_child(const struct images_work *w, struct image_reply *ret)
{
	switch ((enum image_op)w->rq->op) {
	case IMAGE_TAKE:
		take(w, &ret->err);
		break;
	case IMAGE_PUT:
		put(w, &ret->err);
		break;
	case IMAGE_PACKAGES:
		put_packages(w, &ret->err);
		break;
	case IMAGE_LINK:
		put_link(w, &ret->err);
		break;
	case IMAGE_UNUSE:
		unuse(w);
		break;
	case IMAGE_MEASURE:
		measure(w, &ret->err);
		break;
	case IMAGE_COLLECT:
		collect(w, ret);
		break;
	case IMAGE_META:
	case IMAGE_REACH:
	case IMAGE_STAGE:
	case IMAGE_ENDED:
		break;
	}
}
