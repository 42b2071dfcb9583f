/*
 * A pull. A child fetches (fetch.h) while the layers before are unpacked in boxes (import_layer); a layer is unpacked
 * while its own bytes still arrive, and kept only when the child has found its size and digest right.
 *
 * Layers arrive in files of daemon/blobs, named by their digests. They go when the image is there. They stay for a day
 * when the pull fails or is killed: the next pull goes on with them. Their lock says that a pull is at work on them.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "images/fetch.h"
#include "images/registry.h"

struct pull {
	struct fetch f;
	struct store *store;
	struct image_config config;
	struct words diffs;
	struct blob blobs[IMAGE_LAYERS_MAX];
	char files[IMAGE_LAYERS_MAX][IMAGE_HEX + 16]; /* names in the directory */
	bool right[IMAGE_LAYERS_MAX];
	int dir;
	size_t at; /* the layer whose file is unpacked */
	int wrong; /* the layer with other content than it should have, or -1 */
	bool failed, found;
	struct err err;
	pid_t feeder;
	struct loop_io io;
};

/* ---- the directory ---- */

static int blobs_open(struct err *e)
{
	char path[4200];
	snprintf(path, sizeof path, "%s/blobs", the_order.state);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make %s", path);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "open %s", path) : fd;
}

/* Removes a file that no pull is at work on, and returns its size on the disk. */
static uint64_t remove_idle(int dir, const char *name, time_t before, bool dry)
{
	struct stat st;
	auto_fd int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_mtime >= before || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	if (!dry)
		unlinkat(dir, name, 0);
	return (uint64_t)st.st_blocks * 512;
}

uint64_t pull_sweep(bool all, bool dry)
{
	struct err ignored;
	uint64_t bytes = 0;
	time_t before = all ? INT32_MAX : time(NULL) - SERVICE_BLOBS_KEPT;
	int fd = blobs_open(&ignored);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; d && (entry = readdir(d));)
		if (*entry->d_name != '.')
			bytes += remove_idle(fd, entry->d_name, before, dry);
	if (d)
		closedir(d);
	return bytes;
}

/* The file of a layer, locked. When another pull is at work on it, one of our own. */
static int open_blob(struct pull *p, size_t i, struct err *e)
{
	struct blob *b = &p->blobs[i];
	for (int own = 0; own < 2; own++) {
		struct stat st;
		snprintf(p->files[i], sizeof p->files[i], own ? "%s-%d" : "%s", b->hex, (int)getpid());
		b->fd = openat(p->dir, p->files[i], O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (b->fd < 0)
			return err_os(
				e, errno == ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, errno, "keep a layer");
		/* A file that its pull has removed in between has no name any more. */
		if (flock(b->fd, LOCK_EX | LOCK_NB) == 0 && fstat(b->fd, &st) == 0 && st.st_nlink)
			return 0;
		fd_close(&b->fd);
	}
	return err_set(e, ERRC_RESOURCE_BUSY, "another pull fetches the same layer");
}

static void close_blob(struct pull *p, size_t i, bool remove)
{
	if (p->blobs[i].fd < 0)
		return;
	if (remove || strchr(p->files[i], '-'))
		unlinkat(p->dir, p->files[i], 0);
	fd_close(&p->blobs[i].fd);
}

/* ---- notes ---- */

static void tell(const struct note *n)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	json_object_begin(&w);
	json_member_cstr(&w, "type", n->kind == NOTE_SAY ? "output" : "progress");
	if (n->kind == NOTE_SAY) {
		json_member_cstr(&w, "text", n->err.msg);
	} else {
		json_member_u64(&w, "bytes", n->bytes);
		json_member_u64(&w, "of", n->of);
	}
	json_object_end(&w);
	tell_event(&text);
}

static void fail(struct pull *p, const struct err *why)
{
	p->failed = true;
	p->err = *why;
	if (p->feeder > 0)
		kill(p->feeder, SIGKILL); /* so that the unpacking ends */
	p->feeder = -1;
}

static void take_note(struct pull *p, struct note *n)
{
	err_seal(&n->err);
	bool known = n->index >= 0 && (size_t)n->index < p->f.blobs_n;
	switch (n->kind) {
	case NOTE_SAY:
		if (str_is_utf8(str_of(n->err.msg)))
			tell(n);
		break;
	case NOTE_BYTES:
		tell(n);
		break;
	case NOTE_FOUND:
		p->found = n->index >= 0 && (size_t)n->index < p->f.places.n;
		p->f.place = (size_t)n->index;
		p->f.plain = n->plain;
		break;
	case NOTE_BLOB:
		if (known)
			p->right[n->index] = true;
		break;
	default:
		p->wrong = known ? n->index : -1;
		fail(p, &n->err);
	}
}

/* One note; false when the child has ended. */
static bool next_note(struct pull *p, bool wait)
{
	struct note n;
	ssize_t got = recv(p->f.sock, &n, sizeof n, wait ? 0 : MSG_DONTWAIT);
	if (got < 0 && errno == EAGAIN)
		return true;
	if (got != (ssize_t)sizeof n)
		return false;
	take_note(p, &n);
	return true;
}

static void lost(struct pull *p)
{
	struct err e;
	err_set(&e, ERRC_INTERNAL_ERROR, "%s: the process that fetches the image was ended", p->f.ref);
	fail(p, &e);
}

static bool all_right(const struct pull *p)
{
	for (size_t i = 0; i < p->f.blobs_n; i++)
		if (p->blobs[i].fd >= 0 && !p->right[i])
			return false;
	return true;
}

/* The layer that is unpacked must not wait for bytes that nobody fetches any more. */
static void on_note(struct loop_io *io, uint32_t events)
{
	struct pull *p = container_of(io, struct pull, io);
	(void)events;
	if (next_note(p, false))
		return;
	loop_del(io);
	if (!p->failed && !all_right(p))
		lost(p);
}

/* Called when a layer was unpacked: is it what the manifest says? */
static int layer_right(void *arg, struct err *e)
{
	struct pull *p = arg;
	while (!p->right[p->at] && !p->failed)
		if (!next_note(p, true) && !p->right[p->at] && !p->failed)
			lost(p);
	if (p->failed)
		*e = p->err;
	return p->failed ? -1 : 0;
}

/* ---- the image ---- */

static int read_layers(struct pull *p, const struct json *manifest, struct err *e)
{
	size_t n = 0;
	json_each(it, json_get(manifest, "layers"))
	{
		const char *digest = NULL;
		struct blob *b = &p->blobs[n];
		if (n == IMAGE_LAYERS_MAX)
			return err_set(e, ERRC_LIMIT_REACHED, "an image has at most %d layers", IMAGE_LAYERS_MAX);
		b->size = UINT64_MAX;
		if (json_read_cstr(it, "digest", &digest, e) < 0 || !digest || strncmp(digest, "sha256:", 7) != 0 ||
			!image_hex_ok(str_of(digest + 7)) ||
			json_read_u64(it, "size", 0, SERVICE_UPLOAD_MAX, &b->size, e) < 0 || b->size == UINT64_MAX)
			return err_set(
				e, ERRC_VALIDATION_FAILED, "a layer of the image has no sha256 digest or no size");
		snprintf(b->hex, sizeof b->hex, "%s", digest + 7);
		b->fd = -1;
		n++;
	}
	if (n != p->diffs.n)
		return err_set(e, ERRC_VALIDATION_FAILED, "the image has %zu layers and %zu diff_ids", n, p->diffs.n);
	p->f.blobs = p->blobs;
	p->f.blobs_n = n;
	return 0;
}

static int file_text(int fd, struct buf *ret, struct err *e)
{
	struct stat st;
	char *room = fstat(fd, &st) == 0 && st.st_size <= SERVICE_MANIFEST_MAX ? buf_room(ret, (size_t)st.st_size + 1)
									       : NULL;
	if (!room || pread(fd, room, (size_t)st.st_size, 0) != st.st_size)
		return err_set(e, ERRC_INTERNAL_ERROR, "the image's manifest cannot be read");
	buf_commit(ret, (size_t)st.st_size);
	return 0;
}

/* The child may have been taken over by what it has read: check everything again. */
static int read_image(struct pull *p, struct err *e)
{
	auto_buf struct buf manifest = {0}, config = {0};
	char hex[IMAGE_HEX + 1];
	const char *digest = NULL;
	if (file_text(p->f.manifest, &manifest, e) < 0 || file_text(p->f.config, &config, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(buf_str(&manifest), e);
	if (!doc)
		return -1;
	digest_of(buf_str(&config), hex);
	if (json_read_cstr(json_get(json_root(doc), "config"), "digest", &digest, e) < 0 || !digest ||
		strncmp(digest, "sha256:", 7) != 0 || strcmp(digest + 7, hex) != 0)
		return err_set(e, ERRC_VALIDATION_FAILED, "the image's configuration has another digest");
	return import_config(buf_str(&config), &p->config, &p->diffs, e) < 0 ? -1 : read_layers(p, json_root(doc), e);
}

static int find(struct pull *p, struct err *e)
{
	if (fetch_start(&p->f, e) < 0)
		return -1;
	while (!p->failed && !p->found)
		if (!next_note(p, true) && !p->failed && !p->found)
			lost(p);
	fetch_end(&p->f);
	if (p->failed)
		*e = p->err;
	return p->failed ? -1 : read_image(p, e);
}

static bool is_same(const struct pull *p, size_t a, size_t b)
{
	return strcmp(p->blobs[a].hex, p->blobs[b].hex) == 0;
}

/* An image may have a layer several times. It is fetched once: the one that has the file, or i. */
static size_t source_of(const struct pull *p, size_t i)
{
	for (size_t k = 0; k < p->f.blobs_n; k++)
		if (p->blobs[k].fd >= 0 && is_same(p, k, i))
			return k;
	return i;
}

static bool comes_again(const struct pull *p, size_t i)
{
	for (size_t k = i + 1; k < p->f.blobs_n; k++)
		if (is_same(p, k, i))
			return true;
	return false;
}

static int open_missing(struct pull *p, struct err *e)
{
	bool stored[IMAGE_LAYERS_MAX] = {0};
	import_stored(p->store, &p->diffs, stored);
	for (size_t i = 0; i < p->f.blobs_n; i++)
		if (!stored[i] && p->blobs[source_of(p, i)].fd < 0 && open_blob(p, i, e) < 0)
			return -1;
	return 0;
}

/* Bytes that cannot be unpacked may be wrong ones. When all are here, the child is about to say so; else the next pull
 * must not go on with them. */
static void doubt_layer(struct pull *p)
{
	const struct blob *b = &p->blobs[p->at];
	struct stat st;
	struct err ignored;
	if (p->failed || p->right[p->at] || b->fd < 0 || fstat(b->fd, &st) < 0)
		return;
	if ((uint64_t)st.st_size == b->size)
		layer_right(p, &ignored);
	else
		p->wrong = (int)p->at;
}

static int take_layers(struct pull *p, struct work *w, struct err *e)
{
	for (size_t i = 0; i < p->f.blobs_n; i++) {
		p->at = source_of(p, i);
		const struct layer_source from = {.fd = p->blobs[p->at].fd,
			.size = p->blobs[p->at].size,
			.diff_id = p->diffs.v[i],
			.growing = true,
			.check = layer_right,
			.arg = p,
			.feeder = &p->feeder};
		import_say_layer(i + 1, p->f.blobs_n);
		int r = p->failed ? -1 : import_layer(p->store, w, &from, &p->config, e);
		if (r < 0)
			doubt_layer(p);
		if (p->failed)
			*e = p->err;
		if (r < 0 || p->failed)
			return -1;
		if (!comes_again(p, i))
			close_blob(p, p->at, true); /* before the disk has it */
	}
	return 0;
}

static int fetch_and_unpack(struct pull *p, struct err *e)
{
	auto_work struct work w = {0};
	if (work_open(&w, e) < 0 || fetch_start(&p->f, e) < 0)
		return -1;
	int r = loop_add(w.link.loop, &p->io, p->f.sock, EPOLLIN, on_note);
	r = r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the fetching") : take_layers(p, &w, e);
	loop_del(&p->io);
	fetch_end(&p->f);
	return r;
}

/* The daemon's own credentials, when the request has none. */
static void own_credentials(struct buf *ret)
{
	const char *path = getenv("ATOLL_REGISTRY_AUTH");
	if (path && *path)
		fd_read_file(AT_FDCWD, path, SERVICE_JSON_MAX, ret);
}

static int pull(struct pull *p, const char *name, struct err *e)
{
	char key[BOX_IMAGE_NAME_MAX + 1];
	auto_fd int dir = blobs_open(e);
	auto_fd int manifest = dir < 0 ? -1 : temp_file(e);
	auto_fd int config = manifest < 0 ? -1 : temp_file(e);
	if (config < 0)
		return -1;
	p->dir = dir;
	p->f.manifest = manifest;
	p->f.config = config;
	int r = find(p, e) < 0 || open_missing(p, e) < 0 ? -1 : 0;
	if (r == 0 && p->f.blobs_n)
		r = fetch_and_unpack(p, e);
	if (r == 0)
		r = config_save(p->store, &p->config, key, NULL, e);
	if (r == 0) {
		packages_keep(p->store, key);
		r = store_link(p->store, false, name, key, e);
	}
	bool full = r < 0 && e->code == ERRC_NO_SPACE;
	for (size_t i = 0; i < p->f.blobs_n; i++)
		close_blob(p, i, r == 0 || full || (int)i == p->wrong);
	return r;
}

int registry_pull(struct store *s, const char *ref, const char *credentials, struct err *e)
{
	static struct pull p;
	auto_buf struct buf own = {0}, conf = {0};
	struct image_ref parsed;
	p = (struct pull){.store = s, .f = {.ref = ref}, .wrong = -1};
	if (image_ref_parse(str_of(ref), &parsed, e) < 0)
		return -1;
	if (!*parsed.name)
		return err_field(e, "reference", "field 'reference' must name a registry's image");
	places_conf(&conf);
	if (places_find(str_of(ref), buf_str(&conf), &p.f.places, e) < 0)
		return -1;
	if (!credentials)
		own_credentials(&own);
	p.f.credentials = credentials ? credentials : buf_size(&own) ? buf_cstr(&own) : NULL;
	pull_sweep(false, false);
	int r = pull(&p, parsed.name, e);
	config_free(&p.config);
	words_free(&p.diffs);
	return r;
}
