/*
 * An archive becomes an image. What kind it is says its content: `oci-layout` and index.json (OCI), manifest.json
 * (`docker save`), anything else is a root file system. Digest and size of every blob are checked before the blob is
 * used.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "images/images.h"

/* ---- layers ---- */

/* A layer's name: OCI's chain id, because the tree depends on what lies below it (whiteouts). */
static void chain_name(const struct words *below, const char *diff_id, char ret[IMAGE_HEX + 1])
{
	auto_buf struct buf text = {0};
	if (!below->n) {
		snprintf(ret, IMAGE_HEX + 1, "%s", diff_id);
		return;
	}
	buf_printf(&text, "sha256:%s sha256:%s", below->v[below->n - 1], diff_id);
	digest_of(buf_str(&text), ret);
}

/* The image of these layers and nothing else, for a box. False when a layer is not stored yet. */
static bool bare_image(struct store *s, const struct words *layers, char key[BOX_IMAGE_NAME_MAX + 1], struct err *e)
{
	if (!layers->n) {
		snprintf(key, BOX_IMAGE_NAME_MAX + 1, IMAGE_SCRATCH);
		return true;
	}
	struct image_config bare = {.layers = *layers};
	return config_save(s, &bare, key, NULL, e) == 0;
}

void import_stored(struct store *s, const struct words *diffs, bool *ret)
{
	struct words layers = {0};
	for (size_t i = 0; i < diffs->n; i++) {
		char name[IMAGE_HEX + 1], key[BOX_IMAGE_NAME_MAX + 1];
		struct err none;
		chain_name(&layers, diffs->v[i], name);
		words_add(&layers, str_of(name));
		if (!bare_image(s, &layers, key, &none))
			break;
		ret[i] = true;
	}
	words_free(&layers);
}

/* A seekable range as a descriptor that ends at its end: a pipe would need a writer, so a child copies. */
int range_fd(const struct layer_source *from, pid_t *ret_pid, struct err *e)
{
	int ends[2];
	if (pipe(ends) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a pipe");
	*ret_pid = fork();
	if (*ret_pid == 0) {
		static char piece[1 << 17];
		uint64_t at = from->offset, left = from->size;
		close(ends[0]);
		while (left) {
			ssize_t n =
				pread(from->fd, piece, left < sizeof piece ? (size_t)left : sizeof piece, (off_t)at);
			if (n <= 0 || write(ends[1], piece, (size_t)n) != n)
				_exit(1);
			at += (uint64_t)n;
			left -= (uint64_t)n;
		}
		_exit(0);
	}
	close(ends[1]);
	if (*ret_pid < 0)
		close(ends[0]);
	return *ret_pid < 0 ? err_os(e, ERRC_INTERNAL_ERROR, errno, "start a reader") : ends[0];
}

static int unpack(struct store *s, struct work *w, const struct layer_source *from, char ret_digest[IMAGE_HEX + 1],
	uint64_t *ret_bytes, struct err *e)
{
	const char *keep = getenv("ATOLL_IMAGE_SETUID");
	const char *argv[] = {"unpack", "--layer", keep && strcmp(keep, "keep") == 0 ? "--keep-setuid" : NULL, NULL};
	auto_buf struct buf report = {.max = SERVICE_OUTPUT_MAX};
	struct mover_call m = {.argv = argv, .in = -1, .out = -1, .text = &report, .feed = from, .store = s};
	if (work_mover(w, &m, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(buf_str(&report), e);
	const char *digest = NULL;
	if (!doc || json_read_cstr(json_root(doc), "digest", &digest, e) < 0 || !digest || strlen(digest) != 71 ||
		json_read_u64(json_root(doc), "bytes", 0, INT64_MAX, ret_bytes, e) < 0)
		return err_set(e, ERRC_INTERNAL_ERROR, "the mover's report cannot be read");
	snprintf(ret_digest, IMAGE_HEX + 1, "%s", digest + 7);
	return 0;
}

/* The warden ends a box that fills the image directory: say so instead of what the end looks like here. */
static int explain(struct store *s, const struct work *w, struct err *e)
{
	struct err why;
	if (e->code != ERRC_NO_SPACE && store_ended(s, w->box, &why) < 0 && why.code == ERRC_NO_SPACE)
		*e = why;
	return -1;
}

int import_layer(
	struct store *s, struct work *w, const struct layer_source *from, struct image_config *config, struct err *e)
{
	char name[IMAGE_HEX + 1], digest[IMAGE_HEX + 1], key[BOX_IMAGE_NAME_MAX + 1];
	uint64_t bytes = 0;
	struct err none;
	if (config->layers.n >= IMAGE_LAYERS_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "an image has at most %d layers", IMAGE_LAYERS_MAX);
	if (*from->diff_id) {
		chain_name(&config->layers, from->diff_id, name);
		words_add(&config->layers, str_of(name));
		if (bare_image(s, &config->layers, key, &none))
			return 0; /* stored already */
		free(config->layers.v[--config->layers.n]);
	}
	if (!bare_image(s, &config->layers, key, e) || work_box_bare(w, s, key, 0, e) < 0)
		return -1;
	if (unpack(s, w, from, digest, &bytes, e) < 0)
		return explain(s, w, e);
	if (from->check && from->check(from->arg, e) < 0)
		return -1;
	if (*from->diff_id && strcmp(digest, from->diff_id) != 0)
		return err_set(e, ERRC_VALIDATION_FAILED,
			"a layer's content has the digest sha256:%.12s…, the image says sha256:%.12s…", digest,
			from->diff_id);
	chain_name(&config->layers, digest, name);
	if (work_take(w, s, name, e) < 0)
		return -1;
	words_add(&config->layers, str_of(name));
	return 0;
}

/* ---- blobs ---- */

struct archive_in {
	struct import *im;
	struct members m;
};

/* blobs/sha256/<hex>, checked. */
static const struct member *find_blob(struct archive_in *a, const struct json *descriptor, struct err *e)
{
	const char *digest = NULL;
	char path[IMAGE_HEX + 32], actual[IMAGE_HEX + 1];
	uint64_t size = UINT64_MAX;
	if (json_read_cstr(descriptor, "digest", &digest, e) < 0 || !digest || strncmp(digest, "sha256:", 7) != 0 ||
		!image_hex_ok(str_of(digest + 7)) || json_read_u64(descriptor, "size", 0, INT64_MAX, &size, e) < 0) {
		err_set(e, ERRC_VALIDATION_FAILED, "a descriptor of the image has no sha256 digest or no size");
		return NULL;
	}
	snprintf(path, sizeof path, "blobs/sha256/%s", digest + 7);
	const struct member *found = members_find(&a->m, path);
	if (!found) {
		err_set(e, ERRC_VALIDATION_FAILED, "the archive has no blob %.19s…", digest);
		return NULL;
	}
	if (found->size != size) {
		err_set(e, ERRC_VALIDATION_FAILED, "blob %.19s… has %llu bytes, the image says %llu", digest,
			(unsigned long long)found->size, (unsigned long long)size);
		return NULL;
	}
	if (digest_file(found->fd, found->offset, found->size, actual, e) < 0)
		return NULL;
	if (strcmp(actual, digest + 7) != 0) {
		err_set(e, ERRC_VALIDATION_FAILED, "blob %.19s… has another digest: sha256:%.12s…", digest, actual);
		return NULL;
	}
	return found;
}

static int read_member(const struct member *m, struct buf *ret, struct err *e)
{
	if (!m || m->size > SERVICE_MANIFEST_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "a description in the archive is missing or too large");
	char *room = buf_room(ret, m->size + 1);
	if (!room || pread(m->fd, room, m->size, (off_t)m->offset) != (ssize_t)m->size)
		return err_set(e, ERRC_INVALID_REQUEST, "the archive is cut off");
	buf_commit(ret, m->size);
	return 0;
}

static struct json_doc *read_json(const struct member *m, struct err *e)
{
	auto_buf struct buf text = {0};
	return read_member(m, &text, e) < 0 ? NULL : json_parse(buf_str(&text), e);
}

/* ---- the kinds ---- */

void import_say_layer(size_t n, size_t of)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "layer");
	json_member_u64(&w, "n", n);
	json_member_u64(&w, "of", of);
	json_object_end(&w);
	tell_event(&text);
}

int import_config(struct str text, struct image_config *c, struct words *diffs, struct err *e)
{
	if (config_read(c, text, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(text, e);
	json_each(it, doc ? json_get(json_get(json_root(doc), "rootfs"), "diff_ids") : NULL)
	{
		struct str hex = str_skip(it->text, 7);
		if (it->type != JSON_T_STRING || !str_starts(it->text, STR("sha256:")) || !image_hex_ok(hex))
			return err_set(e, ERRC_VALIDATION_FAILED, "the image's configuration has a malformed diff_id");
		words_add(diffs, hex);
	}
	return 0;
}

static int read_config_blob(const struct member *m, struct image_config *c, struct words *diffs, struct err *e)
{
	auto_buf struct buf text = {0};
	return read_member(m, &text, e) < 0 ? -1 : import_config(buf_str(&text), c, diffs, e);
}

static int import_layers(struct archive_in *a, const struct member *const *blobs, size_t n, const struct words *diffs,
	struct image_config *c, struct err *e)
{
	if (n != diffs->n)
		return err_set(e, ERRC_VALIDATION_FAILED, "the image has %zu layers and %zu diff_ids", n, diffs->n);
	for (size_t i = 0; i < n; i++) {
		const struct layer_source from = {blobs[i]->fd, blobs[i]->offset, blobs[i]->size, diffs->v[i]};
		import_say_layer(i + 1, n);
		if (import_layer(a->im->store, a->im->work, &from, c, e) < 0)
			return -1;
	}
	return 0;
}

static int import_manifest(struct archive_in *a, const struct json *manifest, struct image_config *c, struct err *e)
{
	const struct member *blobs[IMAGE_LAYERS_MAX];
	const struct json *layers = json_get(manifest, "layers");
	struct words diffs = {0};
	size_t n = 0;
	const struct member *config = find_blob(a, json_get(manifest, "config"), e);
	if (!config || read_config_blob(config, c, &diffs, e) < 0)
		return -1;
	json_each(it, layers)
	{
		if (n == IMAGE_LAYERS_MAX)
			return err_set(e, ERRC_LIMIT_REACHED, "an image has at most %d layers", IMAGE_LAYERS_MAX);
		if (!(blobs[n++] = find_blob(a, it, e)))
			return -1;
	}
	int r = import_layers(a, blobs, n, &diffs, c, e);
	words_free(&diffs);
	return r;
}

const struct json *manifest_choose(const struct json *manifests)
{
	json_each(it, manifests)
	{
		const struct json *p = json_get(it, "platform");
		const struct json *arch = json_get(p, "architecture"), *os = json_get(p, "os");
		if (arch && os && str_eq_c(arch->text, IMAGE_PROCESSOR) && str_eq_c(os->text, "linux"))
			return it;
	}
	return manifests && manifests->count >= 1 && json_is_null(json_get(manifests->first, "platform"))
		       ? manifests->first
		       : NULL;
}

static int import_oci(struct archive_in *a, struct image_config *c, struct err *e)
{
	struct json_doc *doc = read_json(members_find(&a->m, "index.json"), e);
	for (int depth = 0; doc && depth < 3; depth++) {
		auto_json struct json_doc *held = doc;
		const struct json *manifests = json_get(json_root(held), "manifests");
		if (json_is_null(manifests))
			return import_manifest(a, json_root(held), c, e);
		const struct json *one = manifest_choose(manifests);
		if (!one)
			return err_set(
				e, ERRC_VALIDATION_FAILED, "the image has no variant for linux/" IMAGE_PROCESSOR);
		const struct member *blob = find_blob(a, one, e);
		doc = blob ? read_json(blob, e) : NULL;
	}
	json_free(doc);
	return doc ? err_set(e, ERRC_VALIDATION_FAILED, "the image's index leads to nothing") : -1;
}

/* `docker save`: manifest.json names the files. */
static int import_docker(struct archive_in *a, struct image_config *c, struct err *e)
{
	const struct member *blobs[IMAGE_LAYERS_MAX];
	struct words diffs = {0};
	size_t n = 0;
	auto_json struct json_doc *doc = read_json(members_find(&a->m, "manifest.json"), e);
	const struct json *first = doc ? json_root(doc)->first : NULL;
	const char *config = NULL;
	if (!doc)
		return -1;
	if (json_read_cstr(first, "Config", &config, e) < 0 || !config)
		return err_set(e, ERRC_VALIDATION_FAILED, "manifest.json names no configuration");
	if (read_config_blob(members_find(&a->m, config), c, &diffs, e) < 0)
		return -1;
	json_each(it, json_get(first, "Layers"))
	{
		if (n == IMAGE_LAYERS_MAX)
			return err_set(e, ERRC_LIMIT_REACHED, "an image has at most %d layers", IMAGE_LAYERS_MAX);
		if (!(blobs[n++] = members_find(&a->m, it->text.p)))
			return err_set(e, ERRC_VALIDATION_FAILED, "the archive has no layer '%.60s'", it->text.p);
	}
	int r = import_layers(a, blobs, n, &diffs, c, e);
	words_free(&diffs);
	return r;
}

static int import_rootfs(struct import *im, struct image_config *c, struct err *e)
{
	struct stat st;
	if (fstat(im->fd, &st) < 0 || st.st_size == 0)
		return err_set(e, ERRC_VALIDATION_FAILED, "the archive is empty");
	const struct layer_source from = {im->fd, 0, (uint64_t)st.st_size, ""};
	import_say_layer(1, 1);
	return import_layer(im->store, im->work, &from, c, e);
}

int import_archive(struct import *im, char ret_key[BOX_IMAGE_NAME_MAX + 1], struct err *e)
{
	struct archive_in a = {.im = im};
	auto_config struct image_config c = {0};
	struct err none;
	int r;
	/* A compressed archive is no plain tar: then it can only be a root file system. */
	if (members_read(im->fd, &a.m, &none) == 0 && members_find(&a.m, "oci-layout"))
		r = import_oci(&a, &c, e);
	else if (members_find(&a.m, "manifest.json") && a.m.n)
		r = import_docker(&a, &c, e);
	else
		r = import_rootfs(im, &c, e);
	members_free(&a.m);
	if (r < 0 || config_save(im->store, &c, ret_key, NULL, e) < 0)
		return -1;
	packages_keep(im->store, ret_key);
	return *im->name ? store_link(im->store, false, im->name, ret_key, e) : 0;
}
