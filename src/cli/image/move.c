/*
 * move.c - import, export, pull, push.
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

enum { CONFIG_MAX = 1024 * 1024, BAR = 24 /* columns */ };

/* One line that moves, on a terminal only: what has arrived, and how fast. */
static void show_progress(const struct json *event)
{
	static uint64_t begun;
	uint64_t bytes = 0, of = 0, now = clock_ms();
	if (!isatty(2) || json_read_u64(event, "bytes", 0, INT64_MAX, &bytes, NULL) < 0 ||
		json_read_u64(event, "of", 0, INT64_MAX, &of, NULL) < 0)
		return;
	begun = begun ? begun : now;
	double seconds = (double)(now - begun) / 1000;
	fprintf(stderr, "\r\033[K[%-*.*s] %.1f of %.1f MB", BAR, of ? (int)(bytes * BAR / of) : 0,
		"========================", (double)bytes / 1e6, (double)of / 1e6);
	if (seconds > 1)
		fprintf(stderr, ", %.1f MB/s", (double)bytes / 1e6 / seconds);
}

static void end_progress(void)
{
	if (isatty(2))
		fprintf(stderr, "\r\033[K");
}

static int on_event(void *arg, const struct json *event, struct err *e)
{
	struct cli *c = arg;
	struct str type = api_text(event, "type"), text = api_text(event, "text");
	uint64_t n = 0, of = 0;
	if (!c->json && str_eq_c(type, "progress")) {
		show_progress(event);
		return 0;
	}
	if (!c->json)
		end_progress();
	if (c->json) {
		auto_buf struct buf line = {0};
		json_put_tree(&line, event);
		cli_print(&line);
	} else if (str_eq_c(type, "layer")) {
		if (json_read_u64(event, "n", 0, UINT32_MAX, &n, e) < 0 ||
			json_read_u64(event, "of", 0, UINT32_MAX, &of, e) < 0)
			return -1;
		fprintf(stderr, "layer %u of %u\n", (unsigned)n, (unsigned)of);
	} else if (str_eq_c(type, "output")) {
		fprintf(stderr, "%.*s\n", STR_ARG(text));
	} else if (str_eq_c(type, "done")) {
		struct str name = api_text(event, "name");
		printf("%.*s\n", STR_ARG(name));
	}
	return 0;
}

/* The exit code after a failure: that of the signal, if one has cancelled it. */
static int fail(struct cli *c, const struct client *cl, const struct err *e)
{
	int code = cli_fail(c, e);
	return cl->interrupted ? 128 + cl->interrupted : code;
}

/* A directory goes as a tar: an OCI layout, or a root file system. */
static int open_source(const char *path, pid_t *ret_pid, struct err *e)
{
	struct stat st;
	if (strcmp(path, "-") == 0)
		return dup(0);
	if (stat(path, &st) < 0)
		return err_os(e, errc_from_file_errno(errno), errno, "'%s'", path);
	if (S_ISDIR(st.st_mode))
		return image_pack_dir(path, NULL, STR_NULL, ret_pid, e);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_os(e, errc_from_file_errno(errno), errno, "'%s'", path) : fd;
}

int verb_import(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 2)
		return cli_usage(c, "write an archive or a directory, and the image's name");
	auto_client struct client cl = {0};
	auto_buf struct buf target = {0};
	struct err e;
	pid_t pid = -1;
	buf_add_c(&target, "/v1/images/import");
	image_query(&target, "name", a.words[1]);
	auto_fd int fd = open_source(a.words[0], &pid, &e);
	if (fd < 0 || client_open(c, &cl, &e) < 0)
		return cli_fail(c, &e);
	const struct image_transfer t = {.target = buf_cstr(&target), .fd = fd, .on_event = on_event, .arg = c};
	int r = image_transfer(&cl, &t, &e);
	fd_close(&fd);
	struct err ignored;
	if (pid > 0 && image_pack_end(pid, r < 0 ? &ignored : &e) < 0)
		r = -1;
	return r < 0 ? fail(c, &cl, &e) : 0;
}

int verb_export(struct cli *c, int argc, char **argv)
{
	bool oci = false;
	const char *out = NULL;
	const struct arg table[] = {{"oci", NULL, "as an OCI layout instead of the plain files", ARG_FLAG, &oci},
		{"output", "FILE", "file to write, default stdout", ARG_TEXT, &out, 'o'}, ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (a.n != 1)
		return cli_usage(c, "which image? Write its name");
	if (!out && isatty(1))
		return cli_usage(c, "an archive is not for a terminal: use -o FILE or a pipe");
	auto_client struct client cl = {0};
	auto_buf struct buf target = {0};
	struct err e;
	image_path(&target, a.words[0]);
	image_query(&target, "export", oci ? "oci" : "rootfs");
	auto_fd int fd = out ? open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : dup(1);
	if (fd < 0) {
		err_os(&e, errc_from_file_errno(errno), errno, "'%s'", out);
		return cli_fail(c, &e);
	}
	if (client_open(c, &cl, &e) == 0 && image_fetch(&cl, buf_cstr(&target), fd, &e) == 0)
		return 0;
	if (out)
		unlink(out);
	return fail(c, &cl, &e);
}

/* The entry of docker's config.json for the registry of this reference. */
static void put_auth(struct json_writer *w, const char *ref)
{
	auto_buf struct buf path = {0}, text = {0}, entry = {0};
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	struct str rest, host = str_split(str_of(ref), '/', &rest);
	bool named = rest.n && (str_index(host, '.') >= 0 || str_index(host, ':') >= 0 || str_eq_c(host, "localhost"));
	auto_free char *key = named ? str_dup(host) : xstrdup("https://index.docker.io/v1/");
	buf_printf(&path, dir ? "%s/config.json" : "%s/.docker/config.json", dir ? dir : home ? home : "");
	if (fd_read_file(AT_FDCWD, buf_cstr(&path), CONFIG_MAX, &text) < 0)
		return;
	auto_json struct json_doc *doc = json_parse(buf_str(&text), NULL);
	const struct json *found = doc ? json_get(json_get(json_root(doc), "auths"), key) : NULL;
	if (!found)
		return;
	json_put_tree(&entry, found);
	json_key(w, "auth");
	json_object_begin(w);
	json_key(w, "auths");
	json_object_begin(w);
	json_key(w, key);
	json_raw(w, buf_str(&entry));
	json_object_end(w);
	json_object_end(w);
}

static int registry(struct cli *c, const char *target, const char *name, const char *ref)
{
	auto_client struct client cl = {0};
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	struct err e;
	json_object_begin(&w);
	json_member_cstr(&w, "reference", ref);
	if (name)
		json_member_cstr(&w, "name", name);
	put_auth(&w, ref);
	json_object_end(&w);
	const struct image_transfer t = {
		.target = target, .fd = -1, .json = buf_str(&body), .on_event = on_event, .arg = c};
	return client_open(c, &cl, &e) < 0 || image_transfer(&cl, &t, &e) < 0 ? fail(c, &cl, &e) : 0;
}

int verb_pull(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	return a.n != 1 ? cli_usage(c, "which image? Write registry/name:tag")
			: registry(c, "/v1/images/pull", NULL, a.words[0]);
}

int verb_push(struct cli *c, int argc, char **argv)
{
	const struct arg table[] = {ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	return a.n != 2 ? cli_usage(c, "write the image's name here, and registry/name:tag")
			: registry(c, "/v1/images/push", a.words[0], a.words[1]);
}
