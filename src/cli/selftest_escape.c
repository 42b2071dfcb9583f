/*
 * selftest_escape.c - attacks from inside a box, as root there.
 *
 * The attacks are a program (src/escape) that is carried into the box through its stdin. It lists what it knows, tries
 * one at a time and prints one line of JSON; only "refused" for the right reason passes. What needs more than one box
 * or a hand on the host is skipped here and done by tests/security.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/selftest.h"
#include "cli/stream.h"

#define PROGRAM "/root/.atoll-escape"
enum { OUTPUT_MAX = 1024 * 1024 };

static bool carry_in(struct selftest *t, struct err *e)
{
	char path[PATH_MAX + 32];
	auto_buf struct buf out = {.max = OUTPUT_MAX}, err = {.max = OUTPUT_MAX};
	char *argv[] = {"/bin/sh", "-c", "cat >" PROGRAM " && chmod 700 " PROGRAM, NULL};
	struct stream_result r;
	snprintf(path, sizeof path, "%s/atoll-escape", cli_bin_dir());
	auto_fd int in = open(path, O_RDONLY | O_CLOEXEC);
	if (in < 0) {
		err_os(e, ERRC_NOT_FOUND, errno, "%s", path);
		return false;
	}
	if (!selftest_exec(t, argv, in, &r, &out, &err))
		err_set(e, ERRC_UNKNOWN_ERROR, "%.200s", t->why);
	else if (r.exit_code)
		err_set(e, ERRC_UNKNOWN_ERROR, "carrying atoll-escape into a box: %.150s", buf_cstr(&err));
	else
		return true;
	return false;
}

static bool needs(const struct json *check, const char *what)
{
	json_each(it, json_get(check, "needs")) if (str_eq_c(it->text, what)) return true;
	return false;
}

/* The last line of what it printed is the verdict. */
static enum selftest_verdict read_verdict(
	struct selftest *t, const struct stream_result *r, struct buf *out, struct buf *err)
{
	auto_json struct json_doc *d = json_parse(str_trim(buf_str(out)), NULL);
	const struct json *j = d ? json_root(d) : NULL;
	struct str verdict = STR_NULL, how = STR_NULL, expected = STR_NULL;
	json_read_str(j, "result", &verdict, NULL);
	json_read_str(j, "how", &how, NULL);
	json_read_str(j, "expected", &expected, NULL);
	if (str_eq_c(verdict, "refused"))
		return SELFTEST_PASS;
	snprintf(t->why, sizeof t->why, "%.*s: %.*s; expected %.*s", STR_ARG(verdict), STR_ARG(how), STR_ARG(expected));
	if (str_eq_c(verdict, "skipped"))
		return SELFTEST_SKIP;
	if (!verdict.n)
		snprintf(t->why, sizeof t->why, "no verdict: %s with code %d, %.200s", r->outcome, r->exit_code,
			buf_cstr(err));
	return SELFTEST_FAIL;
}

static void attack(struct selftest *t, const char *name)
{
	auto_buf struct buf out = {.max = OUTPUT_MAX}, err = {.max = OUTPUT_MAX};
	char *argv[] = {PROGRAM, "run", (char *)name, NULL};
	struct stream_result r;
	enum selftest_verdict v = SELFTEST_FAIL;
	t->why[0] = 0;
	if (selftest_exec(t, argv, -1, &r, &out, &err))
		v = read_verdict(t, &r, &out, &err);
	selftest_report(t->run, name, v, t->why);
}

static void attack_in_own_box(struct selftest_run *run, const char *name)
{
	struct selftest t;
	struct err e;
	if (selftest_open(run, &t, &e) < 0) {
		selftest_report(run, name, SELFTEST_FAIL, e.msg);
		return;
	}
	if (carry_in(&t, &e))
		attack(&t, name);
	else
		selftest_report(run, name, SELFTEST_FAIL, e.msg);
	selftest_close(&t);
}

static void attack_listed(struct selftest *t, const struct json *check)
{
	const char *name = NULL;
	if (json_read_cstr(check, "name", &name, NULL) < 0 || !name)
		return;
	if (needs(check, "host") || needs(check, "neighbour") || needs(check, "restart"))
		selftest_report(
			t->run, name, SELFTEST_SKIP, "needs more than one box or the host: 'make security' does it");
	else if (needs(check, "own-box"))
		attack_in_own_box(t->run, name);
	else
		attack(t, name);
}

static int attack_all(struct selftest *t, struct err *e)
{
	auto_buf struct buf out = {.max = OUTPUT_MAX}, err = {.max = OUTPUT_MAX};
	char *argv[] = {PROGRAM, "list", "--json", NULL};
	struct stream_result r;
	if (!carry_in(t, e))
		return -1;
	if (!selftest_exec(t, argv, -1, &r, &out, &err) || r.exit_code)
		return err_set(e, ERRC_UNKNOWN_ERROR, "listing the attacks: %.100s%.100s", t->why, buf_cstr(&err));
	struct str rest = buf_str(&out);
	while (rest.n && !t->run->cl.interrupted) {
		struct str line = str_split(rest, '\n', &rest);
		auto_json struct json_doc *d = line.n ? json_parse(line, e) : NULL;
		if (line.n && !d)
			return err_wrap(e, "list of attacks");
		if (d)
			attack_listed(t, json_root(d));
	}
	return 0;
}

int selftest_escape(struct selftest_run *run, struct err *e)
{
	struct selftest t;
	if (selftest_open(run, &t, e) < 0)
		return -1;
	int r = attack_all(&t, e);
	selftest_close(&t);
	return r;
}
