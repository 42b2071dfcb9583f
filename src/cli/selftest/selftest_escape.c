/*
 * selftest_escape.c - `atoll selftest --escape`: assigns checks to boxes and judges their results.
 *
 * Most checks share one box. A check that may ruin its box gets its own; afterwards that box must still answer. While
 * such a check runs, another process keeps asking a neighbour box to use one resource of each kind.
 */
#include "cli/selftest/selftest_escape.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"

struct escape_run {
	struct cli *c;
	struct client cl;
	struct escape_host host;
	struct escape_box shared, neighbour;
	pid_t victim;
	int passed, failed, skipped;
	struct json_writer w;
};

/* ---- arguments ---- */

enum { ARGS_MAX = 10, ARG_LEN = 80 };
struct escape_args {
	char text[ARGS_MAX][ARG_LEN];
	char *list[ARGS_MAX + 1];
	int n;
};

static void add_arg(struct escape_args *a, const char *key, const char *text, long number)
{
	if (text)
		snprintf(a->text[a->n], ARG_LEN, "%s=%s", key, text);
	else
		snprintf(a->text[a->n], ARG_LEN, "%s=%ld", key, number);
	a->list[a->n] = a->text[a->n];
	a->list[++a->n] = NULL;
}

/* The daemon's TCP address, also when this program uses its unix socket. */
static long api_port(void)
{
	char path[4096];
	auto_buf struct buf text = {0};
	snprintf(path, sizeof path, "%s/listen", cli_run_dir());
	const char *colon = fd_read_file(AT_FDCWD, path, 256, &text) < 0 ? NULL : strrchr(buf_cstr(&text), ':');
	long v = colon ? strtol(colon + 1, NULL, 10) : 0;
	return v > 0 ? v : 8700;
}

static void fill_args(struct escape_run *r, const char *phase, struct escape_args *a)
{
	add_arg(a, "host_port", NULL, r->host.port);
	add_arg(a, "api_port", NULL, api_port());
	add_arg(a, "host_abstract", r->host.abstract_name, 0);
	add_arg(a, "host_pid", NULL, r->host.victim);
	add_arg(a, "canary", r->host.canary, 0);
	if (r->host.address[0])
		add_arg(a, "host_ip", r->host.address, 0);
	if (r->victim)
		add_arg(a, "neighbour_pid", NULL, r->victim);
	if (phase)
		add_arg(a, "phase", phase, 0);
}

/* ---- one check ---- */

static void set_error(struct escape_verdict *v, const char *what, const char *why)
{
	snprintf(v->result, sizeof v->result, "error");
	snprintf(v->how, sizeof v->how, "%s: %s", what, why);
}

static bool pong(struct escape_box *b, char *why, size_t n)
{
	auto_buf struct buf out = {.max = 4096};
	char *words[] = {"pong", NULL};
	struct err e;
	if (escape_box_run(b, words, &out, &e) < 0)
		snprintf(why, n, "%s", e.msg);
	else if (str_eq_c(buf_str(&out), "pong\n"))
		return true;
	else
		snprintf(why, n, "%s", buf_cstr(&out));
	cli_clean(why);
	return false;
}

/* The attack runs in its own process with its own connection, and sends the verdict through a pipe. */
_Noreturn static void attack(
	struct escape_run *r, const struct escape_box *box, const char *name, struct escape_args *a, int to)
{
	struct escape_verdict v = {0};
	struct client cl;
	struct err e;
	struct escape_box b = *box;
	b.cl = &cl;
	if (client_open(r->c, &cl, &e) < 0 || escape_box_check(&b, name, a->list, &v, &e) < 0)
		set_error(&v, "attack", e.msg);
	_exit(fd_write_full(to, &v, sizeof v) < 0);
}

static void watch_neighbour(struct escape_run *r, int until, char *why, size_t n)
{
	struct pollfd p = {.fd = until, .events = POLLIN};
	bool well = true;
	do {
		if (well)
			well = pong(&r->neighbour, why, n);
	} while (poll(&p, 1, 20) == 0);
}

static void check_beside_neighbour(
	struct escape_run *r, struct escape_box *box, const char *name, struct escape_args *a, struct escape_verdict *v)
{
	int pipe_fds[2];
	char why[300] = "";
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return set_error(v, "pipe", strerror(errno));
	pid_t pid = fork();
	if (pid == 0)
		attack(r, box, name, a, pipe_fds[1]);
	close(pipe_fds[1]);
	watch_neighbour(r, pipe_fds[0], why, sizeof why);
	if (fd_read_full(pipe_fds[0], v, sizeof *v) != sizeof *v)
		set_error(v, "attack", "its process died");
	close(pipe_fds[0]);
	waitpid(pid, NULL, 0);
	if (*why)
		set_error(v, "the neighbour suffered", why);
	else if (!pong(box, why, sizeof why))
		set_error(v, "the box does not answer afterwards", why);
}

/* The layer has links at the mount points of the next start: the box must start with all mounts right, or not at all.
 */
static void check_restart(struct escape_run *r, struct escape_box *box, const char *name, struct escape_verdict *v)
{
	struct escape_args prepare = {0}, verify = {0};
	struct err e;
	fill_args(r, "prepare", &prepare);
	fill_args(r, "verify", &verify);
	if (escape_box_check(box, name, prepare.list, v, &e) < 0)
		return set_error(v, "prepare", e.msg);
	if (strcmp(v->result, "refused") != 0)
		return;
	if (escape_box_stop(box, &e) < 0)
		return set_error(v, "stop", e.msg);
	if (escape_box_load(box, &e) < 0) {
		snprintf(v->result, sizeof v->result, e.code == ERRC_BOX_CREATE_FAILED ? "refused" : "error");
		snprintf(v->how, sizeof v->how, "the box does not start: %s", e.msg);
		return;
	}
	if (escape_box_check(box, name, verify.list, v, &e) < 0)
		set_error(v, "verify", e.msg);
}

static void check_in(
	struct escape_run *r, struct escape_box *box, const struct escape_check *k, struct escape_verdict *v)
{
	struct escape_args a = {0};
	struct err e;
	fill_args(r, NULL, &a);
	if (box->small_disk)
		add_arg(&a, "disk_mib", NULL, ESCAPE_DISK_MIB);
	if (k->needs & ESCAPE_RESTART)
		check_restart(r, box, k->name, v);
	else if (k->needs & ESCAPE_OWN_BOX)
		check_beside_neighbour(r, box, k->name, &a, v);
	else if (escape_box_check(box, k->name, a.list, v, &e) < 0)
		set_error(v, "attack", e.msg);
}

static int need_neighbour(struct escape_run *r, struct err *e)
{
	if (r->neighbour.id[0])
		return 0;
	if (escape_box_make(&r->neighbour, false, e) < 0)
		return -1;
	return escape_box_victim(&r->neighbour, &r->victim, e);
}

static void check(struct escape_run *r, const struct escape_check *k, struct escape_verdict *v)
{
	struct escape_box own = {.cl = &r->cl, .program = r->shared.program};
	struct err e;
	if (k->needs & (ESCAPE_NEIGHBOUR | ESCAPE_OWN_BOX) && need_neighbour(r, &e) < 0)
		return set_error(v, "the neighbour", e.msg);
	if (k->needs & ESCAPE_OWN_BOX && escape_box_make(&own, k->needs & ESCAPE_SMALL_DISK, &e) < 0)
		set_error(v, "a box of its own", e.msg);
	else
		check_in(r, own.id[0] ? &own : &r->shared, k, v);
	escape_box_drop(&own);
	const char *harm = escape_host_harm(&r->host);
	if (harm) {
		snprintf(v->result, sizeof v->result, "escaped");
		snprintf(v->how, sizeof v->how, "%s", harm);
	}
}

/* ---- report ---- */

static void report(struct escape_run *r, const struct escape_check *k, const struct escape_verdict *v)
{
	bool ok = strcmp(v->result, "refused") == 0, skip = strcmp(v->result, "skipped") == 0;
	*(ok ? &r->passed : skip ? &r->skipped : &r->failed) += 1;
	if (r->c->json) {
		json_object_begin(&r->w);
		json_member_cstr(&r->w, "name", k->name);
		json_member_cstr(&r->w, "result", ok ? "ok" : skip ? "skip" : "FAIL");
		json_member_cstr(&r->w, "verdict", v->result);
		json_member_cstr(&r->w, "how", v->how);
		json_member_cstr(&r->w, "expected", v->expected);
		json_object_end(&r->w);
		return;
	}
	printf("%s%-4s%s %-24s ",
		cli_style(1, ok	    ? STYLE_GREEN
			     : skip ? STYLE_YELLOW
				    : STYLE_RED),
		ok     ? "ok"
		: skip ? "skip"
		       : "FAIL",
		cli_style(1, STYLE_PLAIN), k->name);
	printf(ok || skip ? "%.100s%s\n" : "%s%s\n", v->how, (ok || skip) && strlen(v->how) > 100 ? " …" : "");
	if (!ok && !skip)
		printf("     %-24s %s; expected: %s\n", "", v->result, v->expected);
	fflush(stdout);
}

static bool is_wanted(const char *name, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

static const char *unknown_name(char **names, const struct escape_check *all, int n)
{
	for (; *names; names++) {
		int i = 0;
		while (i < n && strcmp(all[i].name, *names) != 0)
			i++;
		if (i == n)
			return *names;
	}
	return NULL;
}

static int run_all(struct escape_run *r, char **names, struct err *e)
{
	static struct escape_check all[ESCAPE_CHECKS_MAX];
	if (escape_host_open(&r->host, e) < 0 || escape_box_make(&r->shared, false, e) < 0)
		return -1;
	int n = escape_box_list(&r->shared, all, e);
	const char *unknown = n < 0 ? NULL : unknown_name(names, all, n);
	if (unknown)
		return err_set(e, ERRC_VALIDATION_FAILED, "there is no check '%s'", unknown);
	for (int i = 0; i < n && !r->cl.interrupted; i++) {
		struct escape_verdict v = {0};
		if (!is_wanted(all[i].name, names))
			continue;
		check(r, &all[i], &v);
		report(r, &all[i], &v);
	}
	return n < 0 ? -1 : r->cl.interrupted ? err_set(e, ERRC_UNKNOWN_ERROR, "interrupted") : 0;
}

static int open_program(struct err *e)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/atoll-escape", cli_bin_dir());
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_os(e, ERRC_NOT_FOUND, errno, "open %s", path) : fd;
}

static void summary(struct escape_run *r, struct buf *out)
{
	json_array_end(&r->w);
	json_member_i64(&r->w, "passed", r->passed);
	json_member_i64(&r->w, "failed", r->failed);
	json_member_i64(&r->w, "skipped", r->skipped);
	json_object_end(&r->w);
	if (r->c->json)
		cli_print(out);
	else
		printf("%d passed, %d failed, %d skipped\n", r->passed, r->failed, r->skipped);
}

int selftest_escape_run(struct cli *c, char **names)
{
	auto_buf struct buf out = {0};
	struct escape_run r = {.c = c, .w = json_writer(&out), .host = {.tcp = -1, .abstract = -1}};
	struct err e;
	auto_fd int program = open_program(&e);
	if (program < 0 || client_open(c, &r.cl, &e) < 0 || client_catch_signals(&r.cl, &e) < 0)
		return cli_fail(c, &e);
	r.shared = r.neighbour = (struct escape_box){.cl = &r.cl, .program = program};
	json_object_begin(&r.w);
	json_key(&r.w, "checks");
	json_array_begin(&r.w);
	int rc = run_all(&r, names, &e);
	escape_box_drop(&r.shared);
	escape_box_drop(&r.neighbour);
	escape_host_close(&r.host);
	if (rc == 0)
		summary(&r, &out);
	client_close(&r.cl);
	c->hint[0] = 0;
	return rc < 0 ? cli_fail(c, &e) : r.failed ? c->verb->exit_failed : 0;
}
