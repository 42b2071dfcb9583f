/*
 * selftest_escape_box.c - copies the escape suite's program into boxes, runs it and reads its answers.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cli/selftest/selftest_escape.h"
#include "cli/stream/stream.h"
#include "cli/verb/box.h"

/* On the box's own layer: the file must be executable and stay after a restart, which empties /tmp. */
#define PROGRAM "/var/tmp/atoll-escape"
enum { RUN_TIMEOUT_MS = 600000, OUTPUT_MAX = 256 * 1024, WORDS_MAX = 24 };

static int exec_in(struct escape_box *b, char **argv, int in, struct buf *out, struct stream_result *r, struct err *e)
{
	auto_buf struct buf err = {.max = OUTPUT_MAX};
	struct stream_request rq = {.id = b->id, .argv = argv, .timeout_ms = RUN_TIMEOUT_MS};
	struct stream_io io = {.in = in, .out = out, .err = &err};
	if (stream_run(b->cl, &rq, &io, r, e) < 0)
		return -1;
	if (strcmp(r->outcome, "exited") != 0)
		return err_set(
			e, ERRC_UNKNOWN_ERROR, "'%s' did not end by itself: %s %s", argv[0], r->outcome, r->signal);
	return 0;
}

int escape_box_load(struct escape_box *b, struct err *e)
{
	auto_buf struct buf out = {.max = OUTPUT_MAX};
	struct stream_result r;
	char *argv[] = {"/bin/sh", "-c", "cat >" PROGRAM " && chmod 755 " PROGRAM, NULL};
	if (lseek(b->program, 0, SEEK_SET) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "read atoll-escape again");
	if (exec_in(b, argv, b->program, &out, &r, e) < 0)
		return -1;
	return r.exit_code ? err_set(e, ERRC_UNKNOWN_ERROR, "atoll-escape could not be copied into the box") : 0;
}

/* Whether the answer to a PUT shows a limit that is enforced: without a pool a sandbox has no `disk`. */
static bool has_disk_limit(struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	return doc && json_get(json_root(doc), "disk");
}

int escape_box_make(struct escape_box *b, bool small_disk, struct err *e)
{
	static unsigned made;
	struct box_options wish = {.disk = small_disk ? (uint64_t)ESCAPE_DISK_MIB << 20 : 0};
	auto_buf struct buf body = {0};
	snprintf(b->id, sizeof b->id, "escape-%d-%u", getpid(), made++);
	if (box_put(b->cl, b->id, &wish, &body, e) < 0) {
		b->id[0] = 0;
		return -1;
	}
	b->small_disk = small_disk && has_disk_limit(buf_str(&body));
	return escape_box_load(b, e);
}

void escape_box_drop(struct escape_box *b)
{
	struct err e;
	if (b->id[0] && box_delete(b->cl, b->id, &e) < 0 && e.code != ERRC_SANDBOX_NOT_FOUND)
		fprintf(stderr, "atoll selftest: box '%s' was not removed: %s\n", b->id, e.msg);
	b->id[0] = 0;
}

int escape_box_run(struct escape_box *b, char **words, struct buf *ret_out, struct err *e)
{
	char *argv[WORDS_MAX + 2] = {PROGRAM};
	struct stream_result r;
	for (int i = 0; words[i] && i < WORDS_MAX; i++)
		argv[i + 1] = words[i];
	return exec_in(b, argv, -1, ret_out, &r, e);
}

static void copy_member(const struct json *j, const char *key, char *to, size_t n)
{
	struct str s = STR("");
	json_read_str(j, key, &s, NULL);
	snprintf(to, n, "%.*s", STR_ARG(s));
	cli_clean(to);
}

int escape_box_check(struct escape_box *b, const char *name, char **args, struct escape_verdict *ret, struct err *e)
{
	auto_buf struct buf out = {.max = OUTPUT_MAX};
	char *words[WORDS_MAX] = {"run", (char *)name};
	for (int i = 0; args[i] && i < WORDS_MAX - 3; i++)
		words[i + 2] = args[i];
	if (escape_box_run(b, words, &out, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(buf_str(&out), e);
	if (!doc)
		return err_wrap(e, "the answer of atoll-escape");
	copy_member(json_root(doc), "result", ret->result, sizeof ret->result);
	copy_member(json_root(doc), "how", ret->how, sizeof ret->how);
	copy_member(json_root(doc), "expected", ret->expected, sizeof ret->expected);
	return 0;
}

static unsigned needs_of(const struct json *j)
{
	static const struct {
		const char *name;
		unsigned flag;
	} known[] = {{"neighbour", ESCAPE_NEIGHBOUR}, {"own-box", ESCAPE_OWN_BOX}, {"restart", ESCAPE_RESTART},
		{"small-disk", ESCAPE_SMALL_DISK}};
	unsigned needs = 0;
	json_each(it, json_get(j, "needs")) for (size_t i = 0; i < ARRAY_LEN(known);
						 i++) if (str_eq_c(it->text, known[i].name)) needs |= known[i].flag;
	return needs;
}

int escape_box_list(struct escape_box *b, struct escape_check *ret, struct err *e)
{
	auto_buf struct buf out = {.max = OUTPUT_MAX};
	char *words[] = {"list", "--json", NULL};
	if (escape_box_run(b, words, &out, e) < 0)
		return -1;
	int n = 0;
	for (struct str rest = buf_str(&out), line; rest.n && n < ESCAPE_CHECKS_MAX; n++) {
		line = str_split(rest, '\n', &rest);
		auto_json struct json_doc *doc = json_parse(line, e);
		if (!doc)
			return err_wrap(e, "the list of checks");
		copy_member(json_root(doc), "name", ret[n].name, sizeof ret[n].name);
		ret[n].needs = needs_of(json_root(doc));
	}
	return n;
}

static bool is_running(struct escape_box *b)
{
	auto_buf struct buf path = {0}, body = {0};
	struct err e;
	struct str state = STR("");
	client_box_path(&path, b->id, "");
	if (client_call(b->cl, "GET", buf_cstr(&path), STR(""), &body, &e) < 0)
		return false;
	auto_json struct json_doc *doc = json_parse(buf_str(&body), NULL);
	json_read_str(doc ? json_root(doc) : NULL, "state", &state, NULL);
	return str_eq_c(state, "running");
}

/* By the route that also ends a box which hears nothing any more: a check may have left it without memory. */
int escape_box_stop(struct escape_box *b, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0};
	client_box_path(&path, b->id, "/stop");
	if (client_call(b->cl, "POST", buf_cstr(&path), STR(""), &body, e) == 0 || !is_running(b))
		return 0;
	return err_wrap(e, "stop the box");
}

/* Finds the process by its command line: the box's own process ids mean nothing outside. */
static pid_t find_victim(void)
{
	static const char want[] = PROGRAM "\0neighbour";
	char path[300], text[64];
	pid_t found = 0;
	DIR *d = opendir("/proc");
	for (struct dirent *it; d && (it = readdir(d));) {
		snprintf(path, sizeof path, "/proc/%s/cmdline", it->d_name);
		auto_fd int fd = it->d_name[0] >= '1' && it->d_name[0] <= '9' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd >= 0 && fd_read_full(fd, text, sizeof text) == sizeof want &&
			memcmp(text, want, sizeof want) == 0)
			found = (pid_t)strtol(it->d_name, NULL, 10);
	}
	if (d)
		closedir(d);
	return found;
}

int escape_box_victim(struct escape_box *b, pid_t *ret_pid, struct err *e)
{
	auto_buf struct buf out = {.max = OUTPUT_MAX};
	struct stream_result r;
	/* The victim keeps running: it has its own session and none of the command's pipes. */
	char *argv[] = {"/bin/sh", "-c",
		"cd /var/tmp && mkfifo ready && { setsid " PROGRAM
		" neighbour >ready 2>&1 </dev/null & } && read line <ready && "
		"rm ready && echo \"$line\"",
		NULL};
	if (exec_in(b, argv, -1, &out, &r, e) < 0)
		return -1;
	if (!str_starts(buf_str(&out), STR("ready")))
		return err_set(e, ERRC_UNKNOWN_ERROR, "the neighbour did not start: '%.60s'", buf_cstr(&out));
	*ret_pid = find_victim();
	return 0;
}
