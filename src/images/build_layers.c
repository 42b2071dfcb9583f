/*
 * RUN, COPY and ADD: each makes one layer, or finds it in the cache.
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

/* Everything that a step's result depends on. */
static void step_key(struct build *b, const struct words *inputs, char ret[IMAGE_HEX + 1])
{
	auto_buf struct buf text = {0};
	const struct image_config *c = build_config(b);
	put_words(&text, "layers", &c->layers);
	put_words(&text, "inputs", inputs);
	digest_of(buf_str(&text), ret);
}

static bool from_cache(struct build *b, const char *step)
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
	build_say(b, "cached", STR(""));
	return true;
}

static int bare_box(struct build *b, struct work *w, const struct words *layers, const char *network, struct err *e)
{
	char key[BOX_IMAGE_NAME_MAX + 1] = IMAGE_SCRATCH;
	struct image_config bare = {.layers = *layers};
	if (layers->n && config_save(b->store, &bare, key, NULL, e) < 0)
		return -1;
	return work_box(w, key, network, e);
}

/* The box of the step becomes the next layer, under a name of its own: two runs of one step may differ. */
static int keep_layer(struct build *b, const char *step, struct err *e)
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

/* ---- RUN ---- */

/* The shell's words, or those of the exec form. */
static void run_command(struct build *b, const struct df_step *s, struct words *ret)
{
	const struct image_config *c = build_config(b);
	auto_buf struct buf text = {0};
	if (s->is_json) {
		for (size_t i = 0; i < s->json.n; i++)
			words_add(ret, str_of(s->json.v[i]));
		return;
	}
	struct str line = str_of(s->text), rest;
	bool alone = s->docs_n == 1 && str_starts(line, STR("<<")) && str_index(line, ' ') < 0;
	if (alone && strncmp(s->docs[0].content, "#!", 2) == 0) {
		struct str program = str_trim(str_skip(str_split(str_of(s->docs[0].content), '\n', &rest), 2));
		struct err ignored;
		dockerfile_words(program, '\\', ret, &ignored);
		words_add(ret, STR("-c"));
		words_add(ret, rest);
		return;
	}
	for (size_t i = 0; i < c->shell.n; i++)
		words_add(ret, str_of(c->shell.v[i]));
	if (!c->shell.n) {
		words_add(ret, STR("/bin/sh"));
		words_add(ret, STR("-c"));
	}
	if (!alone)
		buf_printf(&text, "%s\n", s->text);
	for (size_t i = 0; i < s->docs_n; i++)
		buf_printf(&text, alone ? "%s" : "%s%s\n", s->docs[i].content, s->docs[i].name);
	words_add(ret, buf_str(&text));
}

static int on_output(void *arg, struct str bytes, struct err *e)
{
	(void)e;
	build_say(arg, "output", bytes);
	return 0;
}

int step_run(struct build *b, const struct df_step *s, struct err *e)
{
	const struct image_config *c = build_config(b);
	struct words command = {0}, inputs = {0};
	char step[IMAGE_HEX + 1];
	words_add(&command, STR("run"));
	if (build_mounts(b, s, &command, e) < 0)
		return -1;
	words_add(&command, str_of(c->user ? c->user : ""));
	words_add(&command, str_of(c->workdir ? c->workdir : "/"));
	for (size_t i = 0; i < b->scope.n; i++)
		words_add(&command, str_of(b->scope.v[i]));
	for (size_t i = 0; i < c->env.n; i++)
		words_add(&command, str_of(c->env.v[i]));
	words_add(&command, STR("--"));
	run_command(b, s, &command);
	words_add(&inputs, STR("RUN"));
	for (size_t i = 0; i < command.n; i++)
		words_add(&inputs, str_of(command.v[i]));
	step_key(b, &inputs, step);
	words_free(&inputs);
	int r = 0;
	if (!from_cache(b, step)) {
		const char *network = dockerfile_flag(s, "network");
		struct mover_call m = {
			.argv = (const char *const *)command.v, .in = -1, .out = -1, .on_out = on_output, .arg = b};
		r = bare_box(b, &b->work, &c->layers, network && strcmp(network, "none") == 0 ? NULL : "{}", e);
		r = r < 0 ? r : work_mover(&b->work, &m, e);
		if (r == 0 && m.exit_code)
			r = dockerfile_error(s, e, "the command ended with code %d", m.exit_code);
		r = r < 0 ? r : keep_layer(b, step, e);
	}
	words_free(&command);
	return r;
}

/* ---- COPY, ADD ---- */

struct copy {
	const struct df_step *step;
	struct words words;	    /* sources, then the destination */
	struct buf dest;	    /* absolute; keeps its last slash */
	char owner[128], mode[16];  /* "" for none */
	char digest[IMAGE_HEX + 1]; /* of the files */
	int fd;			    /* their archive */
	uint64_t offset, size;	    /* of the archive in fd */
	bool one_file;
};

/* "a/../b" becomes "b"; ".." never leads above the root. */
static void clean_path(const char *path, struct buf *ret)
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

static int read_copy(struct build *b, struct copy *c, struct err *e)
{
	const struct df_step *s = c->step;
	auto_buf struct buf text = {0}, clean = {0};
	struct err why;
	const char *owner = dockerfile_flag(s, "chown"), *mode = dockerfile_flag(s, "chmod");
	if (s->is_json) {
		for (size_t i = 0; i < s->json.n; i++)
			words_add(&c->words, str_of(s->json.v[i]));
	} else if (build_text(b, s, &text, e) < 0) {
		return -1;
	} else if (dockerfile_words(buf_str(&text), b->file.escape, &c->words, &why) < 0) {
		return dockerfile_error(s, e, "%s", why.msg);
	}
	if (c->words.n < 2)
		return dockerfile_error(s, e, "%s needs a source and a destination", dockerfile_name(s->kind));
	const char *dest = c->words.v[c->words.n - 1];
	const char *workdir = build_config(b)->workdir ? build_config(b)->workdir : "/";
	auto_buf struct buf joined = {0};
	buf_printf(&joined, "%s/%s", *dest == '/' ? "" : workdir, dest);
	clean_path(buf_cstr(&joined), &clean);
	bool root = strcmp(buf_cstr(&clean), ".") == 0;
	bool slash = dest[strlen(dest) - 1] == '/' || strcmp(dest, ".") == 0 || c->words.n > 2;
	buf_printf(&c->dest, "/%s%s", root ? "" : buf_cstr(&clean), slash && !root ? "/" : "");
	auto_buf struct buf who = {0};
	if (owner && dockerfile_expand(str_of(owner), b->file.escape, build_lookup, b, &who, e) < 0)
		return -1;
	snprintf(c->owner, sizeof c->owner, "%s", owner ? buf_cstr(&who) : "0:0");
	snprintf(c->mode, sizeof c->mode, "%s", mode ? mode : "");
	return 0;
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
		if (strstr(c->words.v[i], "://"))
			return dockerfile_error(c->step, e, "ADD of a URL is not supported; fetch it with RUN");
		clean_path(c->words.v[i], &path);
		words_add(&clean, buf_str(&path));
		argv[n++] = clean.v[clean.n - 1];
	}
	struct mover_call m = {.argv = argv, .in = -1, .out = c->fd};
	int r = work_mover(w, &m, e);
	words_free(&clean);
	(void)b;
	return r < 0 && e->code == ERRC_VALIDATION_FAILED ? dockerfile_error(c->step, e, "%s", xstrdup(e->msg)) : r;
}

static bool is_archive(const char *name)
{
	static const char *const ends[] = {
		".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".tar.zst"};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (str_ends(str_of(name), str_of(ends[i])))
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
	c->size = (uint64_t)end;
	INVARIANT(c->words.v);
	const char *source = c->words.v[0], *slash = strrchr(source, '/');
	bool single = c->words.n == 2 && m.n == 1 && strcmp(m.v[0].name, slash ? slash + 1 : source) == 0;
	if (single && c->step->kind == DF_ADD && is_archive(m.v[0].name)) {
		c->offset = m.v[0].offset;
		c->size = m.v[0].size;
	} else if (single || c->one_file) {
		c->one_file = true;
	}
	members_free(&m);
	return digest_file(c->fd, c->offset, c->size, c->digest, e);
}

static int gather(struct build *b, struct copy *c, struct err *e)
{
	const char *from = dockerfile_flag(c->step, "from");
	auto_config struct image_config base = {0};
	if (c->step->docs_n)
		return put_heredocs(b, c, e);
	if (!from)
		return pack_from(b, &b->context, c, "/c", e);
	if (build_base(b, from, &base, e) < 0 || bare_box(b, &b->work, &base.layers, NULL, e) < 0)
		return -1;
	return pack_from(b, &b->work, c, "/", e);
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
	if (in < 0 || bare_box(b, &b->work, &build_config(b)->layers, NULL, e) < 0)
		return -1;
	return work_mover(&b->work, &m, e);
}

int step_copy(struct build *b, const struct df_step *s, struct err *e)
{
	struct copy c = {.step = s};
	struct words inputs = {0};
	char step[IMAGE_HEX + 1];
	for (size_t i = 0; i < s->flags.n; i++) {
		static const char *const known[] = {"--from=", "--chown=", "--chmod=", "--link"};
		bool ok = false;
		for (size_t k = 0; k < ARRAY_LEN(known); k++)
			ok = ok || strncmp(s->flags.v[i], known[k], strlen(known[k])) == 0;
		if (!ok)
			return dockerfile_error(
				s, e, "%s does not know the flag '%.60s'", dockerfile_name(s->kind), s->flags.v[i]);
	}
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
			r = put_files(b, &c, e) < 0 ? -1 : keep_layer(b, step, e);
		words_free(&inputs);
	}
	words_free(&c.words);
	buf_free(&c.dest);
	return r;
}
