/*
 * selftest.c - `atoll selftest`: tests this installation from end to end.
 */
#include "cli/selftest/selftest.h"

#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/selftest/selftest_escape.h"
#include "cli/stream/stream.h"
#include "cli/verb/box.h"
#include "cli/verbs.h"

int selftest_open(struct selftest_run *run, struct selftest *t, struct err *e)
{
	static const struct box_options limits = {
		.memory = SELFTEST_MEMORY, .cpu_milli = SELFTEST_CPU_MILLI, .pids = SELFTEST_PIDS};
	auto_buf struct buf body = {0};
	*t = (struct selftest){.run = run};
	snprintf(t->box, sizeof t->box, "selftest-%d-%u", getpid(), run->boxes++);
	return box_put(&run->cl, t->box, &limits, &body, e) < 0 ? -1 : 0;
}

void selftest_close(struct selftest *t)
{
	struct err e;
	if (box_delete(&t->run->cl, t->box, &e) < 0 && e.code != ERRC_SANDBOX_NOT_FOUND)
		fprintf(stderr, "atoll selftest: box '%s' was not removed: %s\n", t->box, e.msg);
	t->run->cl.cli->hint[0] = 0;
}

bool selftest_exec(struct selftest *t, char **argv, int in, struct stream_result *r, struct buf *out, struct buf *err)
{
	struct stream_request rq = {.id = t->box, .argv = argv, .timeout_ms = SELFTEST_TIMEOUT_MS};
	struct stream_io io = {.in = in, .out = out, .err = err};
	struct err e;
	if (stream_run(&t->run->cl, &rq, &io, r, &e) == 0)
		return true;
	snprintf(t->why, sizeof t->why, "%s", e.msg);
	return false;
}

void selftest_report(struct selftest_run *run, const char *name, enum selftest_verdict v, const char *why)
{
	static const char *const words[] = {"ok", "FAIL", "skip"};
	static const enum cli_style styles[] = {STYLE_GREEN, STYLE_RED, STYLE_YELLOW};
	run->count[v]++;
	if (!run->cl.cli->json) {
		printf("%s%-4s%s %s%s%s\n", cli_style(1, styles[v]), words[v], cli_style(1, STYLE_PLAIN), name,
			v == SELFTEST_PASS ? "" : ": ", v == SELFTEST_PASS ? "" : why);
		fflush(stdout);
		return;
	}
	json_object_begin(&run->w);
	json_member_cstr(&run->w, "name", name);
	json_member_cstr(&run->w, "result", words[v]);
	if (v != SELFTEST_PASS)
		json_member_cstr(&run->w, "reason", why);
	json_object_end(&run->w);
}

static int run_suite(struct selftest_run *run, struct err *e)
{
	json_object_begin(&run->w);
	json_key(&run->w, "checks");
	json_array_begin(&run->w);
	if (selftest_basics(run, e) < 0)
		return -1;
	if (run->cl.interrupted)
		return err_set(e, ERRC_UNKNOWN_ERROR, "interrupted; removing the boxes");
	json_array_end(&run->w);
	json_member_i64(&run->w, "passed", run->count[SELFTEST_PASS]);
	json_member_i64(&run->w, "failed", run->count[SELFTEST_FAIL]);
	json_member_i64(&run->w, "skipped", run->count[SELFTEST_SKIP]);
	json_object_end(&run->w);
	return 0;
}

int verb_selftest(struct cli *c, int argc, char **argv)
{
	bool escape = false;
	const struct arg table[] = {
		{"escape", NULL, "try to break out of a box instead", ARG_FLAG, &escape},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code))
		return code;
	if (escape)
		return selftest_escape_run(c, a.words);
	if (a.n)
		return cli_usage(c, "'%s' is one word too many: only --escape takes names of checks", a.words[0]);
	auto_buf struct buf out = {0};
	struct selftest_run run = {.w = json_writer(&out)};
	struct err e;
	if (client_open(c, &run.cl, &e) < 0 || client_catch_signals(&run.cl, &e) < 0 || run_suite(&run, &e) < 0)
		return cli_fail(c, &e);
	if (c->json)
		cli_print(&out);
	else
		printf("%d passed, %d failed, %d skipped\n", run.count[0], run.count[1], run.count[2]);
	client_close(&run.cl);
	return run.count[SELFTEST_FAIL] ? c->verb->exit_failed : 0;
}
