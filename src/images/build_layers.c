/*
 * COPY, ADD and WORKDIR: each makes one layer, or finds it in the cache.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "images/build_impl.h"

/* ---- the cache ---- */

static void put_words(struct buf *to, const char *name, const struct words *w)
{
	buf_printf(to, "%s %zu\n", name, w->n);
	for (size_t i = 0; i < w->n; i++)
		buf_printf(to, "%zu %s\n", strlen(w->v[i]), w->v[i]);
}

void step_key(struct build *b, const struct words *inputs, char ret[IMAGE_HEX + 1])
{
	auto_buf struct buf text = {0};
	const struct image_config *c = build_config(b);
	/* What one owner has built is no cached step of another. */
	if (*b->order->owner)
		buf_printf(&text, "owner %s\n", b->order->owner);
	put_words(&text, "layers", &c->layers);
	put_words(&text, "inputs", inputs);
	digest_of(buf_str(&text), ret);
}

bool from_cache(struct build *b, const char *step)
{
	char path[IMAGE_HEX + 16], key[BOX_IMAGE_NAME_MAX + 1];
	auto_config struct image_config found = {0};
	struct err e;
	snprintf(path, sizeof path, "cache/%s", step);
	ssize_t n = b->no_cache ? -1 : readlinkat(b->store->meta, path, key, sizeof key - 1);
	if (n <= 0)
		return false;
	key[n] = 0;
	if (config_load(b->store, key, &found, &e) < 0)
		return false;
	struct image_config *c = build_config(b);
	struct words layers = found.layers;
	found.layers = c->layers;
	c->layers = layers;
	build_say("cached", STR(""));
	return true;
}

int build_box(struct build *b, const struct words *layers, const char *network, const char *volumes, struct err *e)
{
	char key[BOX_IMAGE_NAME_MAX + 1] = IMAGE_SCRATCH;
	struct image_config bare = {.layers = *layers};
	if (layers->n && config_save(b->store, &bare, key, NULL, e) < 0)
		return -1;
	return work_box_with(&b->work, key, network, volumes, e);
}

int keep_layer(struct build *b, const char *step, struct err *e)
{
	auto_buf struct buf text = {0};
	char layer[IMAGE_HEX + 1], key[BOX_IMAGE_NAME_MAX + 1];
	struct image_config *c = build_config(b);
	struct timespec now = {0};
	clock_gettime(CLOCK_REALTIME, &now);
	buf_printf(&text, "%s %lld.%09ld %d", step, (long long)now.tv_sec, now.tv_nsec, (int)getpid());
	digest_of(buf_str(&text), layer);
	if (c->layers.n >= IMAGE_LAYERS_MAX) {
		work_drop(&b->work);
		return err_set(e, ERRC_LIMIT_REACHED, "the image would have more than %d layers", IMAGE_LAYERS_MAX);
	}
	if (work_take(&b->work, b->store, layer, e) < 0)
		return -1;
	words_add(&c->layers, str_of(layer));
	struct image_config bare = {.layers = c->layers};
	return config_save(b->store, &bare, key, NULL, e) < 0 ? -1 : store_link(b->store, true, step, key, e);
}

/* ---- COPY, ADD ---- */

struct copy {
	const struct df_step *step;
	struct words words;	    /* sources, then the destination */
	struct buf dest;	    /* absolute; keeps its last slash */
	char owner[128], mode[16];  /* "" for none */
	char digest[IMAGE_HEX + 1]; /* of the files */
	int fd;			    /* their archive */
	uint64_t offset, size, all; /* of the archive in fd; of all in fd */
	bool one_file;
	bool packed; /* ADD: the archive is a file of the context, if it turns out to be one */
};

void build_clean_path(const char *path, struct buf *ret)
{
	struct str rest = str_of(path);
	struct words parts = {0};
	while (rest.n) {
		struct str part = str_split(rest, '/', &rest);
		if (str_eq_c(part, "..") && parts.n)
			free(parts.v[--parts.n]);
		else if (part.n && !str_eq_c(part, ".") && !str_eq_c(part, ".."))
			words_add(&parts, part);
	}
	for (size_t i = 0; i < parts.n; i++)
		buf_printf(ret, "%s%s", i ? "/" : "", parts.v[i]);
	if (!parts.n)
		buf_add_c(ret, ".");
	words_free(&parts);
}

/* The sources and the destination; variables count in both forms. */
static int read_names(struct build *b, struct copy *c, struct err *e)
{
	const struct df_step *s = c->step;
	struct err why;
	if (!s->is_json)
		return build_words(b, s, &c->words, e);
	for (size_t i = 0; i < s->json.n; i++) {
		auto_buf struct buf one = {0};
		if (dockerfile_word(str_of(s->json.v[i]), b->file.escape, build_lookup, b, &one, &why) < 0)
			return dockerfile_error(s, e, "%s", why.msg);
		words_add(&c->words, buf_str(&one));
	}
	return 0;
}

/* The value of a flag with its variables replaced. */
static int flag_text(struct build *b, const struct df_step *s, const char *name, const char *missing, char *ret,
	size_t size, struct err *e)
{
	const char *given = dockerfile_flag(s, name);
	auto_buf struct buf text = {0};
	struct err why;
	if (given && dockerfile_word(str_of(given), b->file.escape, build_lookup, b, &text, &why) < 0)
		return dockerfile_error(s, e, "%s", why.msg);
	if (buf_size(&text) >= size)
		return dockerfile_error(s, e, "the value of --%s is too long", name);
	snprintf(ret, size, "%s", given ? buf_cstr(&text) : missing);
	return 0;
}

static int read_mode(struct build *b, struct copy *c, struct err *e)
{
	if (flag_text(b, c->step, "chmod", "", c->mode, sizeof c->mode, e) < 0)
		return -1;
	size_t n = strspn(c->mode, "01234567");
	if ((!n && dockerfile_flag(c->step, "chmod")) || n > 4 || c->mode[n])
		return dockerfile_error(c->step, e, "--chmod needs an octal number such as 644, not '%s'", c->mode);
	return 0;
}

static int read_copy(struct build *b, struct copy *c, struct err *e)
{
	const struct df_step *s = c->step;
	auto_buf struct buf clean = {0};
	if (read_names(b, c, e) < 0)
		return -1;
	if (c->words.n < 2)
		return dockerfile_error(s, e, "%s needs a source and a destination", dockerfile_name(s->kind));
	const char *dest = c->words.v[c->words.n - 1];
	const char *workdir = build_config(b)->workdir ? build_config(b)->workdir : "/";
	auto_buf struct buf joined = {0};
	buf_printf(&joined, "%s/%s", *dest == '/' ? "" : workdir, dest);
	build_clean_path(buf_cstr(&joined), &clean);
	bool root = strcmp(buf_cstr(&clean), ".") == 0;
	bool slash = dest[strlen(dest) - 1] == '/' || strcmp(dest, ".") == 0 || c->words.n > 2;
	buf_printf(&c->dest, "/%s%s", root ? "" : buf_cstr(&clean), slash && !root ? "/" : "");
	return flag_text(b, s, "chown", "0:0", c->owner, sizeof c->owner, e) < 0 ? -1 : read_mode(b, c, e);
}

/* A file that the Dockerfile itself holds. */
static int put_heredoc(struct build *b, struct copy *c, const struct heredoc *d, struct err *e)
{
	auto_buf struct buf text = {0};
	if (d->expand && dockerfile_expand(str_of(d->content), b->file.escape, build_lookup, b, &text, e) < 0)
		return -1;
	if (!d->expand)
		buf_add_c(&text, d->content);
	return tar_put_text(c->fd, d->name, buf_str(&text), e);
}

static int put_heredocs(struct build *b, struct copy *c, struct err *e)
{
	size_t n = c->step->docs_n;
	if (c->words.n != n + 1)
		return dockerfile_error(c->step, e, "COPY takes here-documents or files, not both");
	for (size_t i = 0; i < n; i++)
		if (put_heredoc(b, c, &c->step->docs[i], e) < 0)
			return -1;
	c->one_file = n == 1;
	return 0;
}

static int pack_from(struct build *b, struct work *w, struct copy *c, const char *root, struct err *e)
{
	const char *argv[SERVICE_COPY_MAX + 4] = {"pack", root};
	struct words clean = {0};
	size_t n = 2;
	if (c->words.n - 1 > SERVICE_COPY_MAX)
		return dockerfile_error(c->step, e, "more than %d sources", SERVICE_COPY_MAX);
	for (size_t i = 0; i + 1 < c->words.n; i++) {
		auto_buf struct buf path = {0};
		if (c->step->kind == DF_ADD && (strstr(c->words.v[i], "://") || strncmp(c->words.v[i], "git@", 4) == 0))
			return dockerfile_error(c->step, e, "ADD of a URL is not supported; fetch it with RUN");
		build_clean_path(c->words.v[i], &path);
		words_add(&clean, buf_str(&path));
		argv[n++] = clean.v[clean.n - 1];
	}
	struct mover_call m = {.argv = argv, .in = -1, .out = c->fd};
	int r = work_mover(w, &m, e);
	words_free(&clean);
	(void)b;
	return r < 0 && e->code == ERRC_VALIDATION_FAILED ? dockerfile_error(c->step, e, "%s", xstrdup(e->msg)) : r;
}

/* Whether the bytes may be a tar, plain or compressed: as in Docker, the content says so and not the name. */
static bool looks_packed(int fd, uint64_t offset)
{
	static const struct {
		size_t at, n;
		const char *bytes;
	} marks[] = {{0, 2, "\x1f\x8b"}, {0, 3, "BZh"},
		{0, 6,
			"\xfd"
			"7zXZ\0"},
		{0, 4, "\x28\xb5\x2f\xfd"}, {257, 5, "ustar"}};
	char head[262] = {0};
	if (pread(fd, head, sizeof head, (off_t)offset) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(marks); i++)
		if (memcmp(head + marks[i].at, marks[i].bytes, marks[i].n) == 0)
			return true;
	return false;
}

/* What the archive is: one file for a name, an archive that ADD unpacks, or a tree. */
static int look_at(struct copy *c, struct err *e)
{
	struct members m = {0};
	off_t end = lseek(c->fd, 0, SEEK_END);
	if (end < 0 || members_read(c->fd, &m, e) < 0)
		return err_set(e, ERRC_INTERNAL_ERROR, "the files to copy cannot be read");
	c->size = c->all = (uint64_t)end;
	INVARIANT(c->words.v);
	const char *source = c->words.v[0], *slash = strrchr(source, '/');
	bool single = c->words.n == 2 && m.n == 1 && strcmp(m.v[0].name, slash ? slash + 1 : source) == 0;
	bool add = c->step->kind == DF_ADD && !c->step->docs_n;
	int r = 0;
	if (single && add && looks_packed(c->fd, m.v[0].offset)) {
		c->offset = m.v[0].offset;
		c->size = m.v[0].size;
		c->packed = true;
	} else if (single || c->one_file) {
		c->one_file = true;
	}
	for (size_t i = 0; r == 0 && add && !single && i < m.n; i++)
		if (!strchr(m.v[i].name, '/') && looks_packed(c->fd, m.v[i].offset) && c->words.n > 2)
			r = dockerfile_error(c->step, e,
				"ADD of several files, of which '%.60s' is an archive, is not supported; use an ADD "
				"for each",
				m.v[i].name);
	members_free(&m);
	if (r < 0)
		return r;
	return c->packed ? digest_file(c->fd, c->offset, c->size, c->digest, e) : members_digest(c->fd, c->digest, e);
}

static int gather(struct build *b, struct copy *c, struct err *e)
{
	const char *from = dockerfile_flag(c->step, "from");
	auto_config struct image_config base = {0};
	if (c->step->docs_n)
		return put_heredocs(b, c, e);
	if (!from)
		return pack_from(b, &b->context, c, "/c", e);
	if (build_base(b, from, &base, e) < 0 || build_box(b, &base.layers, NULL, NULL, e) < 0)
		return -1;
	return pack_from(b, &b->work, c, "/", e);
}

int build_gather(struct build *b, const struct df_step *s, const char *from, const char *source,
	struct build_files *ret, struct err *e)
{
	struct copy c = {.step = s, .fd = temp_file(e)};
	auto_config struct image_config base = {0};
	if (c.fd < 0)
		return -1;
	words_add(&c.words, str_of(source ? source : "."));
	words_add(&c.words, STR("."));
	int r = !from ? pack_from(b, &b->context, &c, "/c", e)
		: build_base(b, from, &base, e) < 0 || build_box(b, &base.layers, NULL, NULL, e) < 0
			? -1
			: pack_from(b, &b->work, &c, "/", e);
	r = r < 0 ? r : look_at(&c, e);
	words_free(&c.words);
	if (r < 0) {
		close(c.fd);
		return -1;
	}
	*ret = (struct build_files){.fd = c.fd, .size = c.size, .file = c.one_file};
	memcpy(ret->digest, c.digest, sizeof ret->digest);
	return 0;
}

static int put_files(struct build *b, struct copy *c, struct err *e)
{
	const char *argv[12] = {"unpack", "--keep-setuid", "--dest", buf_cstr(&c->dest), "--owner", c->owner};
	auto_buf struct buf report = {.max = SERVICE_OUTPUT_MAX};
	size_t n = 6;
	if (*c->mode) {
		argv[n++] = "--mode";
		argv[n++] = c->mode;
	}
	if (c->one_file)
		argv[n++] = "--one-file";
	pid_t pid;
	const struct layer_source range = {c->fd, c->offset, c->size, ""};
	auto_fd int in = range_fd(&range, &pid, e);
	struct mover_call m = {.argv = argv, .in = in, .out = -1, .text = &report};
	if (in < 0 || build_box(b, &build_config(b)->layers, NULL, NULL, e) < 0)
		return -1;
	return work_mover(&b->work, &m, e);
}

/* A file that only looks like an archive, such as a text that was compressed, is copied as it is. */
static int put_packed(struct build *b, struct copy *c, struct err *e)
{
	int r = put_files(b, c, e);
	if (r == 0 || !c->packed || (!strstr(e->msg, "no tar archive") && !strstr(e->msg, "cannot be read")))
		return r;
	c->offset = 0;
	c->size = c->all;
	c->one_file = true;
	return put_files(b, c, e);
}

int step_copy(struct build *b, const struct df_step *s, struct err *e)
{
	struct copy c = {.step = s};
	struct words inputs = {0};
	char step[IMAGE_HEX + 1];
	const char *const known[] = {"--chown=", "--chmod=", "--link", s->kind == DF_COPY ? "--from=" : NULL, NULL};
	const char *from = dockerfile_flag(s, "from");
	if (build_flags(s, known, e) < 0)
		return -1;
	if (from && strchr(from, '$'))
		return dockerfile_error(s, e,
			"--from takes no variables; name a stage of that image: FROM ${VARIABLE} AS name, then "
			"--from=name");
	auto_fd int fd = temp_file(e);
	c.fd = fd;
	int r = fd < 0 || read_copy(b, &c, e) < 0 || gather(b, &c, e) < 0 || look_at(&c, e) < 0 ? -1 : 0;
	if (r == 0) {
		const char *all[] = {
			"COPY", buf_cstr(&c.dest), c.owner, c.mode, c.one_file ? "file" : "tree", c.digest};
		for (size_t i = 0; i < ARRAY_LEN(all); i++)
			words_add(&inputs, str_of(all[i]));
		step_key(b, &inputs, step);
		if (!from_cache(b, step))
			r = put_packed(b, &c, e) < 0 ? -1 : keep_layer(b, step, e);
		words_free(&inputs);
	}
	words_free(&c.words);
	buf_free(&c.dest);
	return r;
}

/* ---- WORKDIR ---- */

int step_make_workdir(struct build *b, const struct df_step *s, struct err *e)
{
	const struct image_config *c = build_config(b);
	const char *argv[] = {"mkdir", c->workdir, c->user ? c->user : "", NULL};
	auto_buf struct buf report = {.max = SERVICE_OUTPUT_MAX};
	struct mover_call m = {.argv = argv, .in = -1, .out = -1, .text = &report};
	struct words inputs = {0};
	char step[IMAGE_HEX + 1];
	for (size_t i = 0; argv[i]; i++)
		words_add(&inputs, str_of(argv[i]));
	step_key(b, &inputs, step);
	words_free(&inputs);
	if (from_cache(b, step))
		return 0;
	if (build_box(b, &c->layers, NULL, NULL, e) < 0)
		return -1;
	return work_mover(&b->work, &m, e) < 0 ? dockerfile_error(s, e, "%s", xstrdup(e->msg)) : keep_layer(b, step, e);
}
