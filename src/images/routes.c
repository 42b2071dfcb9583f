/*
 * The verbs that take a few calls: list, inspect, remove, prune, tag, import, export. docs/images.md and api/openapi.yaml describe the routes for clients.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/map.h"
#include "images/build_mounts.h"
#include "images/images.h"
#include "images/registry.h"

int temp_file(struct err *e)
{
	char path[4200];
	snprintf(path, sizeof path, "%s", the_order.state);
	int fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd < 0 ? err_os(e, errno == ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, errno, "make a file in %s",
				path)
		      : fd;
}

/* "default" and the like are directories that only the warden sees; it says whether they exist. */
int find_image(const struct store *s, struct str text, struct image_ref *ref, char ret_key[BOX_IMAGE_NAME_MAX + 1],
	struct err *e)
{
	auto_buf struct buf near = {0};
	if (image_ref_parse(text, ref, e) < 0)
		return -1;
	int r = image_lookup(s->meta, ref, ret_key, e);
	if (r <= 0)
		return r;
	if (strcmp(ref->name, "default:latest") == 0) {
		snprintf(ret_key, BOX_IMAGE_NAME_MAX + 1, "default");
		return 0;
	}
	image_near(s->meta, ref->name, &near);
	return err_set(e, ERRC_IMAGE_NOT_FOUND, "there is no image '%.*s'.%s", (int)(text.n < 100 ? text.n : 100),
		text.p, buf_cstr(&near));
}

/* ---- list, inspect ---- */

/* The members of an image's object. */
static void put_members(struct json_writer *w, struct store *s, const char *name, const char *key, bool whole)
{
	auto_config struct image_config c = {0};
	auto_buf struct buf text = {0};
	struct stat st = {0};
	struct err e;
	char file[BOX_IMAGE_NAME_MAX + 16];
	snprintf(file, sizeof file, "%s.json", key);
	json_member_cstr(w, "name", name);
	json_member_cstr(w, "id", key);
	if (fstatat(s->meta, file, &st, 0) == 0)
		json_member_i64(w, "created", (int64_t)st.st_mtim.tv_sec * 1000);
	if (config_load(s, key, &c, &e) == 0) {
		json_member_u64(w, "layers", c.layers.n);
		json_member_u64(w, "size", store_size(s, &c.layers));
		if (whole) {
			config_write(&c, &text);
			json_key(w, "config");
			json_raw(w, buf_str(&text));
		}
	}
}

static void put_image(struct json_writer *w, struct store *s, const char *name, const char *key)
{
	json_object_begin(w);
	put_members(w, s, name, key, false);
	json_object_end(w);
}

static void put_names(struct json_writer *w, struct store *s)
{
	int fd = openat(s->meta, "names", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; d && (entry = readdir(d));) {
		char name[IMAGE_REF_MAX + 1], key[BOX_IMAGE_NAME_MAX + 1];
		ssize_t n = readlinkat(fd, entry->d_name, key, sizeof key - 1);
		if (n <= 0 || !image_name_decode(entry->d_name, name))
			continue;
		key[n] = 0;
		put_image(w, s, name, key);
	}
	if (d)
		closedir(d);
}

/* Caches of builds: all that there are, or those that were removed. */
struct cached {
	uint64_t n, bytes;
};

static int collect(struct store *s, uint32_t flags, struct image_reply *ret, struct cached *caches, struct err *e);

/* The disk that all layers take, and what a prune would free. */
static int put_usage(struct json_writer *w, struct store *s, struct err *e)
{
	struct image_reply r = {0};
	struct cached caches = {0};
	if (collect(s, IMAGE_CACHE | IMAGE_DRY, &r, &caches, e) < 0)
		return -1;
	json_key(w, "usage");
	json_object_begin(w);
	json_member_u64(w, "layers", r.stored);
	json_member_u64(w, "bytes", r.stored_bytes);
	json_member_u64(w, "caches", caches.n);
	json_member_u64(w, "cacheBytes", caches.bytes);
	json_member_u64(w, "reclaimableLayers", r.layers);
	json_member_u64(w, "reclaimableBytes", r.bytes);
	json_object_end(w);
	return 0;
}

int do_list(struct order *o, struct store *s, struct err *e)
{
	auto_buf struct buf out = {0}, usage = {0};
	struct json_writer w = json_writer(&out);
	if (order_param(o, "usage", &usage, e) < 0)
		return -1;
	json_object_begin(&w);
	json_key(&w, "images");
	json_array_begin(&w);
	put_image(&w, s, "default", "default");
	put_names(&w, s);
	json_array_end(&w);
	if (str_eq_c(buf_str(&usage), "true") && put_usage(&w, s, e) < 0)
		return -1;
	json_object_end(&w);
	tell_answer(200, buf_str(&out));
	return 0;
}

int do_inspect(struct order *o, struct store *s, struct err *e)
{
	struct image_ref parsed;
	char key[BOX_IMAGE_NAME_MAX + 1];
	auto_buf struct buf out = {0}, packages = {0};
	struct json_writer w = json_writer(&out);
	if (find_image(s, o->ref, &parsed, key, e) < 0 || order_param(o, "packages", &packages, e) < 0)
		return -1;
	json_object_begin(&w);
	put_members(&w, s, *parsed.name ? parsed.name : key, key, true);
	if (str_eq_c(buf_str(&packages), "true") && packages_put(&w, s, key, e) < 0)
		return -1;
	json_object_end(&w);
	tell_answer(200, buf_str(&out));
	return 0;
}

/* ---- remove, prune ---- */

/* The images of all sandboxes of this daemon, page by page. */
static int used_images(struct work *w, struct map *ret, struct err *e)
{
	auto_buf struct buf path = {0};
	buf_add_c(&path, "/v1/sandboxes");
	for (;;) {
		auto_buf struct buf text = {.max = SERVICE_PAGE_MAX};
		if (daemon_call(&w->link, "GET", buf_cstr(&path), STR(""), &text, e) < 0)
			return -1;
		auto_json struct json_doc *doc = json_parse(buf_str(&text), e);
		const char *next = NULL;
		if (!doc || json_read_cstr(json_root(doc), "next", &next, e) < 0)
			return -1;
		json_each(it, json_get(json_root(doc), "sandboxes"))
		{
			const struct json *id = json_get(it, "imageId");
			if (id && id->type == JSON_T_STRING)
				map_put(ret, id->text, ret);
		}
		if (!next)
			return 0;
		buf_clear(&path);
		buf_add_c(&path, "/v1/sandboxes?after=");
		daemon_encode(&path, next);
	}
}

/* Tells the warden which images no sandbox of this daemon uses any more, running or stopped; then it collects. */
static int collect(struct store *s, uint32_t flags, struct image_reply *ret, struct cached *caches, struct err *e)
{
	auto_work struct work w = {0};
	struct map used = {0};
	if (work_open(&w, e) < 0 || used_images(&w, &used, e) < 0)
		return -1;
	int fd = openat(s->meta, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; d && (entry = readdir(d));) {
		struct str file = str_of(entry->d_name);
		if (!str_ends(file, STR(".layers")))
			continue;
		auto_free char *key = str_dup(str_n(file.p, file.n - 7));
		struct err ignored;
		if (strcmp(key, IMAGE_SCRATCH) != 0 && !map_get(&used, str_of(key)))
			store_unuse(s, key, &ignored);
	}
	if (d)
		closedir(d);
	map_free(&used);
	if (store_collect(s, flags, ret, e) < 0)
		return -1;
	if (flags & IMAGE_CACHE && caches_prune(&w, flags & IMAGE_DRY, &caches->n, &caches->bytes, e) < 0)
		return -1;
	ret->bytes += caches->bytes;
	/* What pulls have left is only in the way of a prune. */
	uint64_t left = flags & IMAGE_CACHE ? pull_sweep(true, flags & IMAGE_DRY) : 0;
	if (flags & IMAGE_CACHE && !(flags & IMAGE_DRY))
		push_sweep();
	ret->bytes += left;
	ret->stored_bytes += flags & IMAGE_DRY ? left : 0;
	return 0;
}

static int answer_collected(const struct image_reply *r, const struct cached *caches)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_u64(&w, "images", r->images);
	json_member_u64(&w, "layers", r->layers);
	json_member_u64(&w, "caches", caches->n);
	json_member_u64(&w, "bytes", r->bytes);
	json_object_end(&w);
	tell_answer(200, buf_str(&out));
	return 0;
}

int do_remove(struct order *o, struct store *s, struct err *e)
{
	struct image_ref parsed;
	struct image_reply r = {0};
	char key[BOX_IMAGE_NAME_MAX + 1];
	if (find_image(s, o->ref, &parsed, key, e) < 0)
		return -1;
	if (!image_key_made_here(str_of(key)) || strcmp(key, IMAGE_SCRATCH) == 0)
		return err_set(e, ERRC_PERMISSION_DENIED, "'%s' is Atoll's own image", key);
	if (*parsed.name && store_link(s, false, parsed.name, "", e) < 0)
		return -1;
	struct cached caches = {0};
	return collect(s, 0, &r, &caches, e) < 0 ? -1 : answer_collected(&r, &caches);
}

int do_prune(struct order *o, struct store *s, struct err *e)
{
	(void)o;
	struct image_reply r = {0};
	struct cached caches = {0};
	return collect(s, IMAGE_CACHE, &r, &caches, e) < 0 ? -1 : answer_collected(&r, &caches);
}

/* ---- tag ---- */

int do_tag(struct order *o, struct store *s, struct err *e)
{
	auto_json struct json_doc *doc = order_json(o, e);
	struct str source = STR_NULL, target = STR_NULL;
	struct image_ref from, to;
	char key[BOX_IMAGE_NAME_MAX + 1];
	if (!doc || json_read_str(json_root(doc), "source", &source, e) < 0 ||
		json_read_str(json_root(doc), "target", &target, e) < 0)
		return -1;
	if (!source.p || !target.p)
		return err_field(e, source.p ? "target" : "source", "fields 'source' and 'target' are needed");
	if (find_image(s, source, &from, key, e) < 0 || image_ref_parse(target, &to, e) < 0)
		return -1;
	if (*to.key || !*to.name)
		return err_field(e, "target", "field 'target' must be a name, not a digest");
	if (store_link(s, false, to.name, key, e) < 0)
		return -1;
	tell_answer(200, STR("{}"));
	return 0;
}

/* ---- import, export ---- */

static void say_done(const char *name, const char *key)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "done");
	json_member_cstr(&w, "name", name);
	json_member_cstr(&w, "id", key);
	json_object_end(&w);
	tell_event(&text);
}

static int read_name(struct order *o, const char *param, struct image_ref *ret, struct err *e)
{
	auto_buf struct buf name = {0};
	if (order_param(o, param, &name, e) < 0)
		return -1;
	if (!buf_size(&name))
		return err_field(e, param, "parameter '%s' must name the image", param);
	if (image_ref_parse(buf_str(&name), ret, e) < 0)
		return -1;
	return *ret->name && !*ret->key ? 0 : err_field(e, param, "parameter '%s' must be a name, not a digest", param);
}

int do_import(struct order *o, struct store *s, struct err *e)
{
	auto_work struct work w = {0};
	struct image_ref ref;
	char key[BOX_IMAGE_NAME_MAX + 1];
	if (read_name(o, "name", &ref, e) < 0)
		return -1;
	auto_fd int fd = temp_file(e);
	if (fd < 0 || order_body_to(o, fd, e) < 0 || work_open(&w, e) < 0)
		return -1;
	struct import im = {.store = s, .work = &w, .fd = fd, .name = ref.name};
	if (import_archive(&im, key, e) < 0)
		return -1;
	work_drop(&w);
	say_done(ref.name, key);
	return 0;
}

static int send_file(int fd, struct err *e)
{
	static char piece[1 << 17];
	ssize_t n = lseek(fd, 0, SEEK_SET);
	if (n >= 0)
		tell_stream("application/x-tar");
	while (n >= 0 && (n = read(fd, piece, sizeof piece)) > 0)
		tell_bytes(str_n(piece, (size_t)n));
	return n < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "read the archive") : 0;
}

int do_export(struct order *o, struct store *s, struct err *e)
{
	auto_work struct work w = {0};
	auto_buf struct buf given = {0};
	auto_fd int fd = temp_file(e);
	struct image_ref parsed;
	char key[BOX_IMAGE_NAME_MAX + 1];
	if (fd < 0 || order_param(o, "export", &given, e) < 0 || find_image(s, o->ref, &parsed, key, e) < 0 ||
		work_open(&w, e) < 0)
		return -1;
	const char *format = buf_cstr(&given);
	if (strcmp(format, "rootfs") != 0 && strcmp(format, "oci") != 0)
		return err_field(e, "export", "parameter 'export' must be rootfs or oci");
	int r = strcmp(format, "oci") == 0 ? export_oci(s, &w, key, parsed.name, fd, e)
					   : export_rootfs(s, &w, key, fd, e);
	if (r < 0)
		return -1;
	work_drop(&w);
	return send_file(fd, e);
}
