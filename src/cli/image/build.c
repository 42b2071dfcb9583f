/*
 * build.c - `atoll build`: sends a directory and shows the steps.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/api.h"
#include "cli/args.h"
#include "cli/image/image.h"
#include "cli/verbs.h"

enum { FILE_MAX = 1024 * 1024 };

struct view {
	struct cli *c;
	bool quiet;
	uint64_t began, step_began;
	char step[32];	       /* "3/7", of the step that runs; "" when its time was told */
	char last[32];	       /* of the last step that has begun */
	struct str dockerfile; /* from stdin, beside the directory; else empty */
	struct str secrets;    /* as JSON; else empty */
};

static void end_step(struct view *v)
{
	if (*v->step && !v->quiet)
		printf("   %.1f s\n", (double)(clock_ms() - v->step_began) / 1000);
	*v->step = 0;
}

static int on_event(void *arg, const struct json *event, struct err *e)
{
	struct view *v = arg;
	struct str type = api_text(event, "type"), text = api_text(event, "text");
	uint64_t n = 0, of = 0;
	if (v->c->json) {
		auto_buf struct buf line = {0};
		json_put_tree(&line, event);
		cli_print(&line);
		return 0;
	}
	if (str_eq_c(type, "step")) {
		end_step(v);
		if (json_read_u64(event, "n", 0, UINT32_MAX, &n, e) < 0 ||
			json_read_u64(event, "of", 0, UINT32_MAX, &of, e) < 0)
			return -1;
		v->step_began = clock_ms();
		snprintf(v->step, sizeof v->step, "%u/%u", (unsigned)n, (unsigned)of);
		memcpy(v->last, v->step, sizeof v->last);
		if (!v->quiet)
			printf("%s[%s]%s %.*s\n", cli_style(1, STYLE_BOLD), v->step, cli_style(1, STYLE_PLAIN),
				STR_ARG(text));
	} else if (str_eq_c(type, "cached") && !v->quiet) {
		printf("   cached\n");
		*v->step = 0;
	} else if (str_eq_c(type, "output")) {
		if (!v->quiet && cli_write(1, text, e) < 0)
			return -1;
	} else if (str_eq_c(type, "done")) {
		end_step(v);
		struct str id = api_text(event, "id");
		if (v->quiet)
			printf("%.*s\n", STR_ARG(id));
		else
			printf("built %.*s in %.1f s\n", STR_ARG(id), (double)(clock_ms() - v->began) / 1000);
	}
	fflush(stdout);
	return 0;
}

static int write_arguments(struct buf *target, const struct arg_list *args, struct err *e)
{
	auto_buf struct buf json = {0};
	struct json_writer w = json_writer(&json);
	json_object_begin(&w);
	for (size_t i = 0; i < args->n; i++) {
		struct str value, name = str_split(str_of(args->items[i]), '=', &value);
		auto_free char *text = str_dup(name);
		const char *own = strchr(args->items[i], '=') ? NULL : getenv(text);
		if (!name.n)
			return err_set(e, ERRC_INVALID_REQUEST, "'%s' is not NAME=value", args->items[i]);
		if (own || strchr(args->items[i], '='))
			json_member_str(&w, text, own ? str_of(own) : value);
	}
	json_object_end(&w);
	if (args->n)
		image_query(target, "buildargs", buf_cstr(&json));
	return 0;
}

static int write_secrets(
	struct buf *target, const struct arg_list *secrets, struct buf *hidden, struct view *v, struct err *e)
{
	char size[24];
	if (!secrets->n)
		return 0;
	if (image_secrets(secrets, hidden, e) < 0)
		return -1;
	snprintf(size, sizeof size, "%zu", buf_size(hidden));
	image_query(target, "secrets", size);
	v->secrets = buf_str(hidden);
	return 0;
}

/* A directory of its own for a Dockerfile from stdin or from elsewhere, without a context. */
static int make_context(struct str text, char dir[64], struct err *e)
{
	char path[96];
	snprintf(dir, 64, "/tmp/atoll-build-XXXXXX");
	if (!mkdtemp(dir))
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make a directory in /tmp");
	snprintf(path, sizeof path, "%s/Dockerfile", dir);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : fd_write_full(fd, text.p, text.n);
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "write %s", path) : 0;
}

static void drop_context(const char *dir)
{
	char path[96];
	snprintf(path, sizeof path, "%s/Dockerfile", dir);
	unlink(path);
	rmdir(dir);
}

static int read_stdin(struct buf *ret, struct err *e)
{
	char piece[65536];
	for (ssize_t n; (n = read(0, piece, sizeof piece)) != 0;) {
		if (n < 0)
			return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "reading the Dockerfile from stdin");
		if (buf_size(ret) + (size_t)n > FILE_MAX)
			return err_set(e, ERRC_PAYLOAD_TOO_LARGE, "the Dockerfile is larger than %d bytes", FILE_MAX);
		buf_add(ret, piece, (size_t)n);
	}
	return 0;
}

/* The Dockerfile's name inside of the context; -f may also name a file by its path from here. */
static int name_file(const char *dir, const char *given, struct buf *ret, struct err *e)
{
	struct stat st;
	auto_buf struct buf inside = {0};
	auto_free char *real_dir = realpath(dir, NULL), *real = given ? realpath(given, NULL) : NULL;
	if (!real_dir || stat(real_dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERRC_NOT_DIRECTORY, "'%s' is no directory", dir);
	if (!given) {
		buf_add_c(ret, "Dockerfile");
		return 0;
	}
	size_t n = strlen(real_dir);
	buf_printf(&inside, "%s/%s", real_dir, given);
	if (real && strncmp(real, real_dir, n) == 0 && real[n] == '/')
		buf_add_c(ret, real + n + 1);
	else if (stat(buf_cstr(&inside), &st) == 0)
		buf_add_c(ret, given);
	else
		return err_set(e, ERRC_FILE_NOT_FOUND, "there is no file '%s' in '%s'", given, dir);
	return 0;
}

/* Whether a line may copy from the directory. A project's can be large: it is not sent for nothing. */
static bool needs_context(struct str text)
{
	while (text.n) {
		struct str line = str_trim(str_split(text, '\n', &text)), rest, word = str_split(line, ' ', &rest);
		bool copies = str_eq_nocase(word, STR("COPY")) || str_eq_nocase(word, STR("ADD")) ||
			      memmem(line.p, line.n, "--mount=", 8);
		if (copies && !str_starts(str_trim(rest), STR("--from=")))
			return true;
	}
	return false;
}

/* wrangler sends a Dockerfile through stdin that is in the directory too: it needs no second name there. */
static void name_piped(const char *dir, struct view *v, struct buf *ret)
{
	auto_buf struct buf path = {0}, own = {0};
	buf_printf(&path, "%s/Dockerfile", dir);
	bool same =
		fd_read_file(AT_FDCWD, buf_cstr(&path), FILE_MAX, &own) == 0 && str_eq(buf_str(&own), v->dockerfile);
	if (same)
		v->dockerfile = STR_NULL;
	buf_add_c(ret, same ? "Dockerfile" : IMAGE_STDIN_FILE);
}

static int send_context(
	struct client *cl, const char *dir, const char *file, struct buf *target, struct view *v, struct err *e)
{
	struct ignore ignore = {0};
	auto_buf struct buf text = {0}, path = {0};
	pid_t pid = -1;
	/* A file of the Dockerfile's own comes first, as with docker. */
	buf_printf(&path, "%s/%s.dockerignore", dir, file);
	if (fd_read_file(AT_FDCWD, buf_cstr(&path), FILE_MAX, &text) < 0) {
		buf_clear(&path);
		buf_printf(&path, "%s/.dockerignore", dir);
		fd_read_file(AT_FDCWD, buf_cstr(&path), FILE_MAX, &text);
	}
	ignore_parse(buf_str(&text), &ignore);
	/* A Dockerfile that is ignored goes along beside the context: no COPY finds it. */
	auto_buf struct buf own = {0};
	if (!v->dockerfile.n && ignore_has(&ignore, file)) {
		buf_clear(&path);
		buf_printf(&path, "%s/%s", dir, file);
		int r = fd_read_file(AT_FDCWD, buf_cstr(&path), FILE_MAX, &own);
		if (r < 0)
			return err_os(e, ERRC_FILESYSTEM_ERROR, -r, "read '%s'", buf_cstr(&path));
		v->dockerfile = buf_str(&own);
		file = IMAGE_STDIN_FILE;
	}
	image_query(target, "dockerfile", file);
	auto_fd int fd = image_pack_dir(dir, &ignore, v->dockerfile, &pid, e);
	if (fd < 0)
		return -1;
	const struct image_transfer t = {
		.target = buf_cstr(target), .fd = fd, .before = v->secrets, .on_event = on_event, .arg = v};
	int r = image_transfer(cl, &t, e);
	fd_close(&fd);
	struct err ignored;
	int packed = image_pack_end(pid, r < 0 ? &ignored : e);
	ignore_free(&ignore);
	return r < 0 ? r : packed;
}

static int say_cancelled(const struct view *v, int signo)
{
	fflush(stdout);
	fprintf(stderr, "atoll: cancelled%s%s; nothing was kept but the layer cache\n", *v->last ? " at step " : "",
		v->last);
	return 128 + signo;
}

int verb_build(struct cli *c, int argc, char **argv)
{
	struct arg_list tags = {0}, arguments = {0}, secrets = {0};
	const char *file = NULL, *stage = NULL;
	struct view v = {.c = c, .began = clock_ms()};
	bool no_cache = false;
	const struct arg table[] = {
		{"tag", "NAME", "name of the image, with a tag after ':'; may be repeated", ARG_LIST, &tags, 't'},
		{"file", "FILE", "the Dockerfile, default Dockerfile in the directory; - reads it from stdin", ARG_TEXT,
			&file, 'f'},
		{"build-arg", "NAME=VALUE", "value of an ARG; NAME alone takes it from the environment", ARG_LIST,
			&arguments},
		{"secret", "id=NAME,src=FILE", "a secret for RUN --mount=type=secret; env=VARIABLE instead of src",
			ARG_LIST, &secrets},
		{"target", "STAGE", "build this stage", ARG_TEXT, &stage},
		{"no-cache", NULL, "run every step again", ARG_FLAG, &no_cache},
		{"quiet", NULL, "print the image's id alone", ARG_FLAG, &v.quiet, 'q'}, ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 1)
		return cli_usage(c, "which directory? Write it, or - for a Dockerfile on stdin");
	auto_client struct client cl = {0};
	auto_buf struct buf target = {0}, names = {0}, text = {0}, name = {0}, hidden = {0};
	char own[64] = "";
	const char *dir = a.words[0];
	struct err e;
	buf_add_c(&target, "/v1/images/build");
	for (size_t i = 0; i < tags.n; i++)
		buf_printf(&names, "%s%s", i ? "," : "", tags.items[i]);
	if (tags.n)
		image_query(&target, "tag", buf_cstr(&names));
	bool from_stdin = strcmp(dir, "-") == 0, piped = !from_stdin && file && strcmp(file, "-") == 0;
	int r = from_stdin || piped ? read_stdin(&text, &e) : 0;
	from_stdin |= piped && !needs_context(buf_str(&text));
	piped &= !from_stdin;
	if (r == 0 && from_stdin) {
		r = make_context(buf_str(&text), own, &e);
		dir = own;
	}
	v.dockerfile = piped ? buf_str(&text) : STR_NULL;
	if (piped)
		name_piped(dir, &v, &name);
	else
		r = r < 0 ? r : name_file(dir, from_stdin ? NULL : file, &name, &e);
	r = r < 0 ? r : write_arguments(&target, &arguments, &e);
	r = r < 0 ? r : write_secrets(&target, &secrets, &hidden, &v, &e);
	if (r == 0) {
		if (stage)
			image_query(&target, "target", stage);
		if (no_cache)
			image_query(&target, "nocache", "1");
		r = client_open(c, &cl, &e) < 0 ? -1 : send_context(&cl, dir, buf_cstr(&name), &target, &v, &e);
	}
	if (*own)
		drop_context(own);
	if (r < 0)
		return cl.interrupted ? say_cancelled(&v, cl.interrupted) : cli_fail(c, &e);
	return 0;
}
