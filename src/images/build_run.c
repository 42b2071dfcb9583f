/*
 * RUN: a command in a box on the layers so far; what it changes is the next layer, but for its mounts (build_mounts.h).
 *
 * A box has its volumes from its start. So the places of mounts are looked for in a box without them, which also says
 * which directories have to be made; then comes the box of the command. Behind the command the box loses its volumes
 * and the directories that were made for them, and becomes the layer.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "images/build_mounts.h"

/* ---- the command ---- */

/* The option with which an interpreter takes a script as its next word. */
static const char *script_option(const char *program)
{
	static const char *const names[][2] = {
		{"node", "-e"}, {"perl", "-e"}, {"ruby", "-e"}, {"bun", "-e"}, {"php", "-r"}};
	const char *slash = strrchr(program, '/');
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(slash ? slash + 1 : program, names[i][0]) == 0)
			return names[i][1];
	return "-c";
}

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
		dockerfile_words(program, '\\', NULL, NULL, ret, &ignored);
		words_add(ret, str_of(script_option(ret->n ? ret->v[ret->n - 1] : "")));
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

/* Proxies that the request names are known without an ARG, and do not count for the cache: as in Docker. */
static void add_proxies(const struct build *b, struct words *to)
{
	static const char *const names[] = {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "FTP_PROXY",
		"ftp_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = env_value(&b->given, str_of(names[i]));
		if (value && !env_value(&b->scope, str_of(names[i])))
			env_set(to, str_of(names[i]), str_of(value));
	}
}

static int on_output(void *arg, struct str bytes, struct err *e)
{
	(void)arg;
	(void)e;
	build_say("output", bytes);
	return 0;
}

/* The user, the directory, the variables and the command; `all`: with what does not count for the cache. */
static void mover_words(struct build *b, const struct df_step *s, bool all, struct words *ret)
{
	const struct image_config *c = build_config(b);
	struct words proxies = {0};
	words_add(ret, str_of(c->user ? c->user : ""));
	words_add(ret, str_of(c->workdir ? c->workdir : "/"));
	if (all)
		add_proxies(b, &proxies);
	const struct words *const lists[] = {&proxies, &b->scope, &c->env};
	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			words_add(ret, str_of(lists[k]->v[i]));
	words_free(&proxies);
	words_add(ret, STR("--"));
	run_command(b, s, ret);
}

/* ---- mounts ---- */

/* What the command sees, before it is known whether it has to run. */
static int gather_mounts(
	struct build *b, const struct df_step *s, struct mounts *all, struct words *inputs, struct err *e)
{
	for (size_t i = 0; i < s->flags.n; i++)
		words_add(inputs, str_of(s->flags.v[i]));
	for (size_t i = 0; i < all->n; i++) {
		struct mount *m = &all->v[i];
		if (m->type == MOUNT_BIND) {
			if (build_gather(b, s, m->from, m->source, &m->files, e) < 0)
				return -1;
			words_add(inputs, str_of(m->files.file ? "file" : "directory"));
			words_add(inputs, str_of(m->files.digest));
		}
		if (m->type == MOUNT_SECRET) {
			m->secret = secret_find(b, m->id);
			if (!m->secret.p && m->required)
				return dockerfile_error(s, e,
					"the secret '%.60s' is required; give it with --secret id=%.60s,src=FILE",
					m->id, m->id);
		}
	}
	return 0;
}

static bool is_file(const struct mount *m)
{
	return m->type == MOUNT_SECRET || (m->type == MOUNT_BIND && m->files.file);
}

/* Where the host has no volumes, a cache or tmpfs is a directory whose content goes behind the command. */
static int without_pool(const struct df_step *s, struct mount *m, struct err *e)
{
	*m->volume = 0;
	if (m->type == MOUNT_BIND)
		return dockerfile_error(s, e, "RUN --mount=type=bind of a directory needs a pool; use COPY");
	if (m->type == MOUNT_CACHE)
		build_say("output", STR("this daemon has no pool: caches are not kept\n"));
	return 0;
}

/* In the order of their ids: two builds that want the same caches do not wait for each other. */
static struct mount *next_cache(struct mounts *all)
{
	struct mount *first = NULL;
	for (size_t i = 0; i < all->n; i++) {
		struct mount *m = &all->v[i];
		if (m->type == MOUNT_CACHE && m->lock < 0 && (!first || strcmp(m->id, first->id) < 0))
			first = m;
	}
	return first;
}

static int check_caches(const struct df_step *s, const struct mounts *all, struct err *e)
{
	size_t volumes = 0;
	for (size_t i = 0; i < all->n; i++) {
		volumes += !is_file(&all->v[i]);
		for (size_t k = 0; k < i; k++)
			if (all->v[i].type == MOUNT_CACHE && all->v[k].type == MOUNT_CACHE &&
				strcmp(all->v[i].id, all->v[k].id) == 0)
				return dockerfile_error(
					s, e, "RUN --mount: two caches have the id '%.60s'", all->v[i].id);
	}
	return volumes > BOX_VOLUMES_MAX
		       ? dockerfile_error(s, e, "RUN has more than %d mounts of directories", BOX_VOLUMES_MAX)
		       : 0;
}

static int take_volumes(struct build *b, const struct df_step *s, struct mounts *all, struct err *e)
{
	if (check_caches(s, all, e) < 0)
		return -1;
	for (struct mount *m; (m = next_cache(all));) {
		int r = cache_take(b, m, e);
		if (r < 0 || (r > 0 && without_pool(s, m, e) < 0))
			return -1;
	}
	for (size_t i = 0; i < all->n; i++) {
		struct mount *m = &all->v[i];
		if (m->type == MOUNT_CACHE || is_file(m))
			continue;
		int r = scratch_take(b, m, i, e);
		if (r < 0 || (r > 0 && without_pool(s, m, e) < 0))
			return -1;
	}
	return 0;
}

/* The answer of `places`: a line for each volume, its place and the topmost directory that has to be made. */
static int read_places(const struct df_step *s, struct mounts *all, struct str text, struct err *e)
{
	for (size_t i = 0; i < all->n; i++) {
		struct mount *m = &all->v[i];
		if (is_file(m))
			continue;
		struct str top, place = str_split(str_split(text, '\n', &text), '\t', &top);
		if (!volume_path_ok(place) || top.n > VOLUME_PATH_MAX)
			return dockerfile_error(s, e,
				"RUN --mount: the target '%.60s' leads to '%.*s', which cannot be a target", m->target,
				(int)(place.n < 60 ? place.n : 60), place.p);
		snprintf(m->place, sizeof m->place, "%.*s", STR_ARG(place));
		snprintf(m->top, sizeof m->top, "%.*s", STR_ARG(top));
	}
	return 0;
}

static int find_places(struct build *b, const struct df_step *s, struct mounts *all, struct err *e)
{
	const char *argv[SERVICE_MOUNTS_MAX + 2] = {"places"};
	auto_buf struct buf text = {.max = SERVICE_OUTPUT_MAX};
	size_t n = 1;
	for (size_t i = 0; i < all->n; i++)
		if (!is_file(&all->v[i]))
			argv[n++] = all->v[i].target;
	struct mover_call m = {.argv = argv, .in = -1, .out = -1, .text = &text};
	if (n == 1)
		return 0;
	if (build_box(b, &build_config(b)->layers, NULL, NULL, e) < 0 || work_mover(&b->work, &m, e) < 0)
		return -1;
	return read_places(s, all, buf_str(&text), e);
}

/* Files of a bind mount, or those that a new cache begins with. */
static int fill(struct build *b, const struct df_step *s, struct mount *m, struct err *e)
{
	static const char *const argv[] = {"unpack", "--keep-setuid", "--dest", "/v/", NULL};
	auto_buf struct buf report = {.max = SERVICE_OUTPUT_MAX}, volumes = {0};
	pid_t pid;
	if (m->type == MOUNT_CACHE && build_gather(b, s, m->from, m->source, &m->files, e) < 0)
		return -1;
	const struct layer_source range = {m->files.fd, 0, m->files.size, ""};
	auto_fd int in = range_fd(&range, &pid, e);
	struct mover_call call = {.argv = argv, .in = in, .out = -1, .text = &report};
	buf_printf(&volumes, "[{\"name\":\"%s\",\"path\":\"/v\"}]", m->volume);
	if (in < 0 || work_box_with(&b->work, IMAGE_SCRATCH, NULL, buf_cstr(&volumes), e) < 0)
		return -1;
	return work_mover(&b->work, &call, e);
}

static int fill_volumes(struct build *b, const struct df_step *s, struct mounts *all, struct err *e)
{
	for (size_t i = 0; i < all->n; i++) {
		struct mount *m = &all->v[i];
		bool needs = *m->volume && (m->type == MOUNT_BIND || (m->type == MOUNT_CACHE && m->is_new && m->from));
		if (needs && fill(b, s, m, e) < 0)
			return -1;
	}
	return 0;
}

static void put_volumes(const struct mounts *all, struct buf *ret)
{
	struct json_writer w = json_writer(ret);
	json_array_begin(&w);
	for (size_t i = 0; i < all->n; i++) {
		const struct mount *m = &all->v[i];
		if (!*m->volume)
			continue;
		json_object_begin(&w);
		json_member_cstr(&w, "name", m->volume);
		json_member_cstr(&w, "path", m->place);
		json_member_bool(&w, "readOnly", m->type == MOUNT_BIND ? !m->writable : m->read_only);
		json_object_end(&w);
	}
	json_array_end(&w);
}

/* The member's mode: its header is right before its bytes. */
static unsigned member_mode(int fd, uint64_t offset)
{
	char mode[9] = {0};
	return pread(fd, mode, 8, (off_t)offset - 512 + 100) == 8 ? (unsigned)strtoul(mode, NULL, 8) & 07777 : 0644;
}

/* A directory of the box: a cache gets its owner, and what has no volume is emptied behind the command. */
static void directory_words(const struct mount *m, struct words *ret)
{
	auto_buf struct buf word = {0};
	bool owned = m->type == MOUNT_CACHE && !m->read_only;
	if (*m->volume && !owned)
		return;
	buf_printf(&word, "%llu:%llu:%llo:%s", (unsigned long long)m->uid, (unsigned long long)m->gid,
		(unsigned long long)m->mode, *m->volume ? m->place : m->target);
	words_add(ret, *m->volume ? STR("--own") : STR("--volatile"));
	words_add(ret, buf_str(&word));
}

static int bind_words(const struct mount *m, struct words *ret, struct err *e)
{
	auto_buf struct buf word = {0};
	struct members found = {0};
	if (members_read(m->files.fd, &found, e) < 0 || found.n != 1)
		return err_set(e, ERRC_INTERNAL_ERROR, "the file to mount cannot be read");
	buf_printf(&word, "f:0:0:%o:%llu:%s", member_mode(m->files.fd, found.v[0].offset),
		(unsigned long long)found.v[0].size, m->target);
	members_free(&found);
	words_add(ret, STR("--file"));
	words_add(ret, buf_str(&word));
	return 0;
}

static void secret_words(const struct mount *m, struct words *ret)
{
	const char *const places[] = {m->target, m->env};
	for (size_t i = 0; i < ARRAY_LEN(places) && m->secret.p; i++) {
		auto_buf struct buf word = {0};
		if (!places[i])
			continue;
		buf_printf(&word, "%c:%llu:%llu:%llo:%zu:%s", i ? 'e' : 's', (unsigned long long)m->uid,
			(unsigned long long)m->gid, (unsigned long long)m->mode, m->secret.n, places[i]);
		words_add(ret, STR("--file"));
		words_add(ret, buf_str(&word));
	}
}

/* The options of the mover for these mounts. */
static int mount_words(const struct mounts *all, struct words *ret, struct err *e)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct mount *m = &all->v[i];
		if (m->type == MOUNT_SECRET)
			secret_words(m, ret);
		else if (!is_file(m))
			directory_words(m, ret);
		else if (bind_words(m, ret, e) < 0)
			return -1;
	}
	return 0;
}

/* Writes the bytes of the files and secrets in the order of mount_words. */
static void send_bytes(const struct mounts *all, int out)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct mount *m = &all->v[i];
		struct members found = {0};
		struct err e;
		if (m->type == MOUNT_SECRET && m->secret.p) {
			if (m->target)
				fd_write_full(out, m->secret.p, m->secret.n);
			if (m->env)
				fd_write_full(out, m->secret.p, m->secret.n);
		} else if (is_file(m) && m->type == MOUNT_BIND && members_read(m->files.fd, &found, &e) == 0) {
			off_t at = (off_t)found.v[0].offset;
			for (uint64_t left = found.v[0].size; left;) {
				char piece[65536];
				ssize_t n = pread(m->files.fd, piece, left < sizeof piece ? left : sizeof piece, at);
				if (n <= 0 || fd_write_full(out, piece, (size_t)n) < 0)
					return;
				at += n;
				left -= (uint64_t)n;
			}
		}
	}
}

/* A pipe with these bytes, which a child writes: secrets are in no file. -1 without an error: there are none. */
static int bytes_fd(const struct mounts *all, struct err *e)
{
	int ends[2];
	bool any = false;
	for (size_t i = 0; i < all->n; i++)
		any = any || (is_file(&all->v[i]) && (all->v[i].type == MOUNT_BIND || all->v[i].secret.p));
	*e = (struct err){0};
	if (!any)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a pipe");
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[0]);
		send_bytes(all, ends[1]);
		_exit(0);
	}
	close(ends[1]);
	if (pid > 0)
		return ends[0];
	close(ends[0]);
	return err_os(e, ERRC_INTERNAL_ERROR, errno, "start a process");
}

/* Takes the volumes from the box, and the directories that were made for them. */
static int remove_places(struct build *b, const struct mounts *all, struct err *e)
{
	const char *argv[2 * SERVICE_MOUNTS_MAX + 2] = {"unplace"};
	auto_buf struct buf text = {.max = SERVICE_OUTPUT_MAX};
	size_t n = 1;
	for (size_t i = 0; i < all->n; i++)
		if (*all->v[i].volume && *all->v[i].top) {
			argv[n++] = all->v[i].place;
			argv[n++] = all->v[i].top;
		}
	struct mover_call m = {.argv = argv, .in = -1, .out = -1, .text = &text};
	return n == 1 ? 0 : work_detach(&b->work, e) < 0 ? -1 : work_mover(&b->work, &m, e);
}

/* ---- the step ---- */

static int run_in_box(struct build *b, const struct df_step *s, struct mounts *all, struct err *e)
{
	const char *network = dockerfile_flag(s, "network");
	struct words command = {0};
	auto_buf struct buf volumes = {0};
	words_add(&command, STR("run"));
	if (find_places(b, s, all, e) < 0 || take_volumes(b, s, all, e) < 0 || fill_volumes(b, s, all, e) < 0 ||
		mount_words(all, &command, e) < 0)
		return -1;
	mover_words(b, s, true, &command);
	put_volumes(all, &volumes);
	auto_fd int in = bytes_fd(all, e);
	if (in < 0 && e->code != ERRC_OK)
		return -1;
	struct mover_call m = {
		.argv = (const char *const *)command.v, .in = in, .out = -1, .on_out = on_output, .arg = b};
	bool off = network && strcmp(network, "none") == 0;
	int r = build_box(b, &build_config(b)->layers, off ? NULL : "{}", buf_cstr(&volumes), e);
	r = r < 0 ? r : work_mover(&b->work, &m, e);
	if (r == 0 && m.exit_code)
		r = dockerfile_error(s, e, "the command ended with code %d", m.exit_code);
	words_free(&command);
	return r < 0 ? r : remove_places(b, all, e);
}

static int check_run_flags(const struct df_step *s, struct err *e)
{
	static const char *const known[] = {"--mount=", "--network=", "--security=", NULL};
	const char *network = dockerfile_flag(s, "network"), *security = dockerfile_flag(s, "security");
	if (build_flags(s, known, e) < 0)
		return -1;
	if (network && strcmp(network, "none") != 0 && strcmp(network, "default") != 0)
		return dockerfile_error(s, e,
			"--network=%.40s is not supported: default has the daemon's policy, none has no network",
			network);
	if (security && strcmp(security, "sandbox") != 0)
		return dockerfile_error(s, e, "--security=%.40s is not supported: commands run in boxes", security);
	return 0;
}

int step_run(struct build *b, const struct df_step *s, struct err *e)
{
	auto_mounts struct mounts all = {0};
	struct words inputs = {0};
	char step[IMAGE_HEX + 1];
	words_add(&inputs, STR("RUN"));
	if (check_run_flags(s, e) < 0 || mounts_read(b, s, &all, e) < 0 || gather_mounts(b, s, &all, &inputs, e) < 0)
		return -1;
	mover_words(b, s, false, &inputs);
	step_key(b, &inputs, step);
	words_free(&inputs);
	if (from_cache(b, step))
		return 0;
	int r = run_in_box(b, s, &all, e) < 0 ? -1 : keep_layer(b, step, e);
	/* A volume that a box names cannot be deleted. */
	work_drop(&b->work);
	mounts_release(b, &all);
	return r;
}
