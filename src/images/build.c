/*
 * A build: the context goes into a box of its own, then each instruction in its order. RUN is a command in a box on the
 * layers so far, COPY is atoll-mover in such a box; the box's own layer becomes the next layer. A step whose inputs
 * were seen before is taken from the cache: a name in meta/cache made of all its inputs.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "images/build_impl.h"
#include "images/registry.h"

const char *build_lookup(void *arg, struct str name)
{
	struct build *b = arg;
	const char *value = b->stages_n ? env_value(&build_config(b)->env, name) : NULL;
	if (!value)
		value = env_value(b->stages_n ? &b->scope : &b->global, name);
	return value;
}

int build_words(struct build *b, const struct df_step *s, struct words *ret, struct err *e)
{
	struct err why;
	if (dockerfile_words(str_of(s->text), b->file.escape, build_lookup, b, ret, &why) < 0)
		return dockerfile_error(s, e, "%s", why.msg);
	return 0;
}

int build_flags(const struct df_step *s, const char *const *known, struct err *e)
{
	for (size_t i = 0; i < s->flags.n; i++) {
		bool ok = false;
		for (size_t k = 0; known[k]; k++) {
			size_t n = strlen(known[k]);
			const char *f = s->flags.v[i];
			ok = ok || (strncmp(f, known[k], n) == 0 && (known[k][n - 1] == '=' || !f[n] || f[n] == '='));
		}
		if (!ok)
			return dockerfile_error(
				s, e, "%s does not know the flag '%.60s'", dockerfile_name(s->kind), s->flags.v[i]);
	}
	return 0;
}

void build_say(const char *type, struct str text)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "type", type);
	json_member_str(&w, "text", text);
	json_object_end(&w);
	tell_event(&out);
}

static void say_step(struct build *b, const struct df_step *s)
{
	auto_buf struct buf out = {0}, text = {0};
	struct json_writer w = json_writer(&out);
	buf_add_c(&text, dockerfile_name(s->kind));
	for (size_t i = 0; i < s->flags.n; i++)
		buf_printf(&text, " %s", s->flags.v[i]);
	buf_printf(&text, " %s", s->text);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "step");
	json_member_u64(&w, "n", ++b->step);
	json_member_u64(&w, "of", b->steps);
	json_member_u64(&w, "line", s->line);
	json_member_str(&w, "text", buf_str(&text));
	json_object_end(&w);
	tell_event(&out);
}

/* ---- the context ---- */

static int take_context(struct build *b, struct err *e)
{
	static const char *const argv[] = {"unpack", "--dest", "/c", "--keep-setuid", NULL};
	auto_buf struct buf report = {.max = SERVICE_OUTPUT_MAX};
	auto_fd int fd = temp_file(e);
	if (fd < 0 || secrets_take(b, e) < 0 || order_body_to(b->order, fd, e) < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "read the context");
	struct mover_call m = {.argv = argv, .in = fd, .out = -1, .text = &report};
	if (work_box(&b->context, IMAGE_SCRATCH, NULL, e) < 0)
		return -1;
	return work_mover(&b->context, &m, e) < 0 ? err_wrap(e, "the context") : 0;
}

int build_context_file(struct build *b, const char *path, struct buf *ret, struct err *e)
{
	const char *argv[] = {"pack", "/c", path, NULL};
	struct members found = {0};
	auto_fd int fd = temp_file(e);
	struct mover_call m = {.argv = argv, .in = -1, .out = fd};
	if (fd < 0 || work_mover(&b->context, &m, e) < 0 || members_read(fd, &found, e) < 0)
		return -1;
	char *room = found.n == 1 && found.v[0].size <= DOCKERFILE_MAX ? buf_room(ret, found.v[0].size + 1) : NULL;
	int r = room && pread(fd, room, found.v[0].size, (off_t)found.v[0].offset) == (ssize_t)found.v[0].size ? 0 : -1;
	if (r == 0)
		buf_commit(ret, found.v[0].size);
	members_free(&found);
	return r < 0 ? err_set(e, ERRC_VALIDATION_FAILED, "'%s' is no file that can be a Dockerfile", path) : 0;
}

/* A Dockerfile that came beside the context is no part of it. */
static int drop_hidden(struct build *b, const char *path, struct err *e)
{
	auto_buf struct buf target = {0}, answer = {0};
	if (strcmp(path, IMAGE_STDIN_FILE) != 0)
		return 0;
	daemon_box_path(&target, b->context.box, "/api/delete");
	return daemon_call(
		&b->context.link, "POST", buf_cstr(&target), STR("{\"path\":\"/c/" IMAGE_STDIN_FILE "\"}"), &answer, e);
}

/* ---- bases ---- */

static ssize_t find_stage(const struct build *b, size_t before, const char *name);

static int load_own(struct build *b, struct image_config *ret, struct err *e)
{
	const char *key = b->store->own;
	return *key ? config_load(b->store, key, ret, e)
		    : err_set(e, ERRC_IMAGE_NOT_FOUND, "there is no default image; 'make image' builds it");
}

int build_base(struct build *b, const char *ref, struct image_config *ret, struct err *e)
{
	struct image_ref parsed;
	char key[BOX_IMAGE_NAME_MAX + 1];
	ssize_t stage = find_stage(b, b->at, ref);
	if (stage >= 0) {
		config_copy(ret, &b->stages[stage].config);
		return 0;
	}
	if (strcmp(ref, "scratch") == 0)
		return 0;
	if (image_ref_parse(str_of(ref), &parsed, e) < 0)
		return -1;
	int r = image_lookup(b->store->meta, &parsed, key, e);
	if (r == 0)
		return config_load(b->store, key, ret, e);
	if (r > 0 && (image_is_sandbox(parsed.name) || strcmp(parsed.name, "default:latest") == 0))
		return load_own(b, ret, e);
	const char *pull = getenv("ATOLL_PULL");
	if (r > 0 && pull && strcmp(pull, "missing") == 0) {
		if (registry_pull(b->store, ref, NULL, e) < 0 || find_image(b->store, str_of(ref), &parsed, key, e) < 0)
			return -1;
		return config_load(b->store, key, ret, e);
	}
	return r < 0 ? -1 : find_image(b->store, str_of(ref), &parsed, key, e);
}

/* ---- stages ---- */

#define PLATFORM "linux/" IMAGE_PROCESSOR

static int check_platform(struct build *b, const struct df_step *s, struct err *e)
{
	static const char *const known[] = {"--platform=", NULL};
	const char *flag = dockerfile_flag(s, "platform");
	auto_buf struct buf platform = {0};
	struct err why;
	if (build_flags(s, known, e) < 0)
		return -1;
	if (flag && dockerfile_word(str_of(flag), b->file.escape, build_lookup, b, &platform, &why) < 0)
		return dockerfile_error(s, e, "%s", why.msg);
	if (flag && buf_size(&platform) && strcmp(buf_cstr(&platform), PLATFORM) != 0)
		return dockerfile_error(
			s, e, "the platform '%.60s' cannot be built here, only " PLATFORM, buf_cstr(&platform));
	return 0;
}

static int check_stage_name(const struct df_step *s, const char *name, struct err *e)
{
	if (isalpha((unsigned char)name[0]) &&
		!name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")])
		return 0;
	return dockerfile_error(s, e,
		"'%.60s' cannot name a stage: a name begins with a letter and has letters, digits, '-', '_' and '.'",
		name);
}

/* Variables that Docker gives to every build; a stage sees them after an ARG with their name. */
static void set_platform(struct build *b)
{
	static const char *const all[] = {"TARGETPLATFORM=" PLATFORM, "TARGETOS=linux", "TARGETARCH=" IMAGE_PROCESSOR,
		"TARGETVARIANT=", "BUILDPLATFORM=" PLATFORM, "BUILDOS=linux", "BUILDARCH=" IMAGE_PROCESSOR,
		"BUILDVARIANT="};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		words_add(&b->global, str_of(all[i]));
}

/* The last stage before `before` with this name or number; -1: none. */
static ssize_t find_stage(const struct build *b, size_t before, const char *name)
{
	for (size_t i = before; i-- > 0;) {
		char number[24];
		snprintf(number, sizeof number, "%zu", i);
		if ((b->stages[i].name && strcasecmp(b->stages[i].name, name) == 0) || strcmp(number, name) == 0)
			return (ssize_t)i;
	}
	return -1;
}

static int from_words(struct build *b, const struct df_step *s, struct words *ret, struct err *e)
{
	/* Only ARG before the first FROM counts here. */
	size_t n = b->stages_n;
	b->stages_n = 0;
	int r = build_words(b, s, ret, e) < 0 ? -1 : check_platform(b, s, e);
	b->stages_n = n;
	if (r < 0)
		return -1;
	bool named = ret->n == 3 && strcasecmp(ret->v[1], "AS") == 0;
	if (ret->n != 1 && !named)
		return dockerfile_error(s, e, "FROM needs an image, and may name the stage: FROM image AS name");
	return named ? check_stage_name(s, ret->v[2], e) : 0;
}

static void mark(struct build *b, size_t at);

static void mark_named(struct build *b, size_t before, const char *name)
{
	ssize_t stage = find_stage(b, before, name);
	if (stage >= 0)
		mark(b, (size_t)stage);
}

/* The stage of RUN --mount=…,from=STAGE. */
static void mark_mounted(struct build *b, size_t before, const char *flag)
{
	struct str rest = str_of(flag);
	if (!str_starts(rest, STR("--mount=")))
		return;
	rest = str_skip(rest, 8);
	while (rest.n) {
		struct str value, key = str_split(str_split(rest, ',', &rest), '=', &value);
		auto_free char *name = str_dup(value);
		if (str_eq_nocase(key, STR("from")))
			mark_named(b, before, name);
	}
}

/* The stage and those that it is made from. */
static void mark(struct build *b, size_t at)
{
	ssize_t stage = -1;
	if (b->stages[at].needed)
		return;
	b->stages[at].needed = true;
	for (size_t i = 0; i < b->file.n; i++) {
		const struct df_step *s = &b->file.v[i];
		stage += s->kind == DF_FROM;
		if (stage != (ssize_t)at)
			continue;
		struct words w = {0};
		struct err ignored;
		if (s->kind == DF_FROM && from_words(b, s, &w, &ignored) == 0 && w.v)
			mark_named(b, at, w.v[0]);
		words_free(&w);
		const char *from = s->kind == DF_COPY ? dockerfile_flag(s, "from") : NULL;
		if (from)
			mark_named(b, at, from);
		for (size_t k = 0; s->kind == DF_RUN && k < s->flags.n; k++)
			mark_mounted(b, at, s->flags.v[k]);
		b->steps++;
	}
}

static int name_stages(struct build *b, struct err *e)
{
	for (size_t i = 0; i < b->file.n; i++) {
		const struct df_step *s = &b->file.v[i];
		struct words w = {0};
		if (s->kind == DF_ARG && !b->stages_n && step_config(b, s, e) < 0)
			return -1;
		if (s->kind != DF_FROM)
			continue;
		if (from_words(b, s, &w, e) < 0)
			return -1;
		b->stages = xrealloc(b->stages, (b->stages_n + 1) * sizeof *b->stages);
		b->stages[b->stages_n++] = (struct stage){.name = w.n == 3 ? xstrdup(w.v[2]) : NULL};
		words_free(&w);
	}
	return 0;
}

static int find_target(struct build *b, size_t *ret, struct err *e)
{
	const char *wanted = buf_cstr(&b->target);
	*ret = b->stages_n - 1;
	if (!*wanted)
		return 0;
	ssize_t stage = find_stage(b, b->stages_n, wanted);
	if (stage >= 0) {
		*ret = (size_t)stage;
		return 0;
	}
	return err_field(e, "target", "the Dockerfile has no stage '%s'", wanted);
}

static int run_step(struct build *b, const struct df_step *s, struct err *e);

/* ONBUILD of the base, once: they do not go on to this image. */
static int run_triggers(struct build *b, const struct df_step *from, struct err *e)
{
	struct words triggers = build_config(b)->onbuild;
	build_config(b)->onbuild = (struct words){0};
	b->steps += (unsigned)triggers.n;
	for (size_t i = 0; i < triggers.n; i++) {
		struct dockerfile one;
		if (dockerfile_onbuild(triggers.v[i], &one, e) < 0)
			return err_wrap(e, "the base image");
		struct df_step *s = &one.v[1];
		s->line = from->line;
		s->column = from->column;
		say_step(b, s);
		if (run_step(b, s, e) < 0)
			return err_wrap(e, "ONBUILD of the base image");
		dockerfile_free(&one);
	}
	words_free(&triggers);
	return 0;
}

static int run_step(struct build *b, const struct df_step *s, struct err *e)
{
	struct words w = {0};
	if (s->kind == DF_RUN)
		return step_run(b, s, e);
	if (s->kind == DF_ADD || s->kind == DF_COPY)
		return step_copy(b, s, e);
	if (s->kind != DF_FROM)
		return step_config(b, s, e);
	words_free(&b->scope);
	if (from_words(b, s, &w, e) < 0)
		return -1;
	INVARIANT(w.v); /* from_words has found the base */
	/* A stage on another one knows its ARG. */
	ssize_t base = find_stage(b, b->at, w.v[0]);
	for (size_t i = 0; base >= 0 && i < b->stages[base].scope.n; i++)
		words_add(&b->scope, str_of(b->stages[base].scope.v[i]));
	int r = build_base(b, w.v[0], build_config(b), e);
	words_free(&w);
	return r < 0 ? -1 : run_triggers(b, s, e);
}

/* Every error of a step says where the step is. */
static int name_place(const struct df_step *s, struct err *e)
{
	return str_starts(str_of(e->msg), STR("Dockerfile:")) ? -1
							      : err_wrap(e, "Dockerfile:%u:%u", s->line, s->column);
}

static int run_stages(struct build *b, size_t target, struct err *e)
{
	ssize_t stage = -1;
	mark(b, target);
	for (size_t i = 0; i < b->file.n; i++) {
		const struct df_step *s = &b->file.v[i];
		stage += s->kind == DF_FROM;
		if (stage < 0 || !b->stages[stage].needed)
			continue;
		b->at = (size_t)stage;
		say_step(b, s);
		if (run_step(b, s, e) < 0)
			return name_place(s, e);
		if (i + 1 == b->file.n || b->file.v[i + 1].kind == DF_FROM) {
			b->stages[stage].scope = b->scope;
			b->scope = (struct words){0};
		}
	}
	b->at = target;
	return 0;
}

/* ---- the request ---- */

static int read_arguments(struct build *b, struct err *e)
{
	auto_buf struct buf text = {0};
	if (order_param(b->order, "buildargs", &text, e) < 0)
		return -1;
	if (!buf_size(&text))
		return 0;
	auto_json struct json_doc *doc = json_parse(buf_str(&text), e);
	if (!doc || json_root(doc)->type != JSON_T_OBJECT)
		return err_field(e, "buildargs", "parameter 'buildargs' must be a JSON object of texts");
	json_each(it, json_root(doc))
	{
		if (it->type != JSON_T_STRING || memchr(it->text.p, 0, it->text.n) || memchr(it->key.p, '=', it->key.n))
			return err_field(e, "buildargs", "parameter 'buildargs' must be a JSON object of texts");
		env_set(&b->given, it->key, it->text);
	}
	return 0;
}

static int finish(struct build *b, struct str tags, uint64_t began, struct err *e)
{
	char key[BOX_IMAGE_NAME_MAX + 1];
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!build_config(b)->layers.n)
		words_add(&build_config(b)->layers, STR(IMAGE_EMPTY_LAYER));
	if (config_save(b->store, build_config(b), key, NULL, e) < 0)
		return -1;
	work_drop(&b->work);
	packages_keep(b->store, key);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "done");
	json_member_cstr(&w, "id", key);
	json_key(&w, "names");
	json_array_begin(&w);
	while (tags.n) {
		struct image_ref ref;
		struct str one = str_trim(str_split(tags, ',', &tags));
		if (image_ref_parse(one, &ref, e) < 0 || store_link(b->store, false, ref.name, key, e) < 0)
			return -1;
		json_cstr(&w, ref.name);
	}
	json_array_end(&w);
	json_member_u64(&w, "milliseconds", clock_ms() - began);
	json_object_end(&w);
	/* Who hears that the build is done finds nothing of it. */
	work_drop(&b->work);
	work_drop(&b->context);
	tell_event(&out);
	return 0;
}

static int check_tags(struct str tags, struct err *e)
{
	struct image_ref ref;
	while (tags.n)
		if (image_ref_parse(str_trim(str_split(tags, ',', &tags)), &ref, e) < 0 || !*ref.name || *ref.key)
			return err_field(e, "tag", "parameter 'tag' must be names of images, divided by commas");
	return 0;
}

int do_build(struct order *o, struct store *s, struct err *e)
{
	struct build b = {.order = o, .store = s};
	auto_buf struct buf tags = {0}, path = {0}, no_cache = {0}, text = {0};
	uint64_t began = clock_ms();
	size_t target;
	if (order_param(o, "tag", &tags, e) < 0 || order_param(o, "dockerfile", &path, e) < 0 ||
		order_param(o, "target", &b.target, e) < 0 || order_param(o, "nocache", &no_cache, e) < 0 ||
		check_tags(buf_str(&tags), e) < 0 || read_arguments(&b, e) < 0)
		return -1;
	b.no_cache = str_eq_c(buf_str(&no_cache), "1") || str_eq_c(buf_str(&no_cache), "true");
	if (!buf_size(&path))
		buf_add_c(&path, "Dockerfile");
	if (work_open(&b.work, e) < 0 || work_open(&b.context, e) < 0)
		return -1;
	work_name(getpid(), o->digits, "-context", b.context.box);
	b.context.keeps_mover = true;
	set_platform(&b);
	int r = take_context(&b, e) < 0 || build_context_file(&b, buf_cstr(&path), &text, e) < 0 ||
				drop_hidden(&b, buf_cstr(&path), e) < 0 ||
				dockerfile_parse(buf_str(&text), &b.file, e) < 0 || name_stages(&b, e) < 0 ||
				find_target(&b, &target, e) < 0 || run_stages(&b, target, e) < 0
			? -1
			: finish(&b, buf_str(&tags), began, e);
	work_close(&b.work);
	work_close(&b.context);
	return r;
}
