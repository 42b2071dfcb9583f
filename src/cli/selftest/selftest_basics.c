/*
 * selftest_basics.c - tests that a box works and that its walls hold.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "cli/selftest/selftest.h"
#include "cli/stream/stream.h"
#include "cli/verb/box.h"

enum { OUTPUT_MAX = 65536 };

/* ---- checks that a script cannot make ---- */

static enum selftest_verdict limits_read_back(struct selftest *t)
{
	auto_buf struct buf path = {0}, body = {0};
	struct err e;
	uint64_t memory = 0, pids = 0;
	double cpu = 0;
	client_box_path(&path, t->box, "");
	if (client_call(&t->run->cl, "GET", buf_cstr(&path), STR(""), &body, &e) < 0) {
		snprintf(t->why, sizeof t->why, "%s", e.msg);
		return SELFTEST_FAIL;
	}
	auto_json struct json_doc *d = json_parse(buf_str(&body), NULL);
	const struct json *limits = d ? json_get(json_root(d), "limits") : NULL;
	json_read_u64(limits, "memory", 0, UINT64_MAX, &memory, NULL);
	json_read_u64(limits, "pids", 0, UINT64_MAX, &pids, NULL);
	json_read_double(limits, "cpu", &cpu, NULL);
	snprintf(t->why, sizeof t->why, "memory %llu, cpu %g, pids %llu", (unsigned long long)memory, cpu,
		(unsigned long long)pids);
	bool right = memory == SELFTEST_MEMORY && pids == SELFTEST_PIDS && cpu == SELFTEST_CPU_MILLI / 1000.0;
	return right ? SELFTEST_PASS : SELFTEST_FAIL;
}

static enum selftest_verdict destroy_is_complete(struct selftest *t)
{
	auto_buf struct buf path = {0}, body = {0};
	struct err e;
	client_box_path(&path, t->box, "");
	if (box_delete(&t->run->cl, t->box, &e) < 0) {
		snprintf(t->why, sizeof t->why, "%s", e.msg);
		return SELFTEST_FAIL;
	}
	int status = client_ask(&t->run->cl, "GET", buf_cstr(&path), STR(""), &body, &e);
	snprintf(t->why, sizeof t->why, "after DELETE, GET of the box answers %d", status);
	return status == 404 ? SELFTEST_PASS : SELFTEST_FAIL;
}

/* ---- the table ---- */

static const struct selftest_check checks[] = {
	{"a command runs and its output comes back", .script = "echo hi", .want = "hi"},
	{"the exit code is passed on", .script = "exit 7", .want_code = 7},
	{"a signal is reported as a signal", .script = "kill -9 $$", .want_code = 137, .want_outcome = "killed"},
	{"stdin reaches the command to its end", .script = "tr a-z A-Z; echo .", .input = "line\nend",
		.want = "LINE\nEND."},
	{"stdout and stderr stay apart", .script = "echo out; echo err >&2", .want = "out"},
	{"a file is written", .script = "echo kept >/workspace/f && cat /workspace/f", .want = "kept"},
	{"the next command reads that file", .script = "cat /workspace/f", .want = "kept"},
	{"the box has the requested limits", .check = limits_read_back},
	{"a command that uses too much memory is killed", .script = "exec tail /dev/zero", .want_code = 137,
		.want_outcome = "oom"},
	{"too many processes are refused",
		.script = "exec 2>/dev/null; i=0; while [ $i -lt 100 ]; do sleep 600 & i=$((i+1)); done; echo all",
		.fresh = true, .want = "", .want_code = 2},
	{"root inside is not root outside",
		.script = "read in out n </proc/self/uid_map; [ $out -ge 65536 ] && echo mapped", .want = "mapped"},
	{"a box sees its own processes only", .script = "set -- /proc/[0-9]*; [ $# -lt 8 ] && echo few", .want = "few"},
	{"no new privileges, and a seccomp filter",
		.script = "while read k v; do case $k in NoNewPrivs:|Seccomp:) echo $k $v;; esac; done "
			  "</proc/self/status",
		.want = "NoNewPrivs: 1\nSeccomp: 2"},
	{"the network has only loopback",
		.script = "while read name rest; do case $name in *:) echo $name;; esac; done </proc/net/dev",
		.want = "lo:"},
	{"a box reaches a server that its policy names", .check = selftest_network, .fresh = true},
	{"a disk limit holds after a snapshot", .check = selftest_disk_limit, .fresh = true},
	{"a box starts on an image with layers", .check = selftest_layers, .fresh = true},
	{"destroying the box leaves nothing", .check = destroy_is_complete},
};

static int input_fd(const char *text)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	if (fd >= 0 && (fd_write_full(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0))
		fd_close(&fd);
	return fd;
}

static enum selftest_verdict run_script(struct selftest *t, const struct selftest_check *k)
{
	auto_buf struct buf out = {.max = OUTPUT_MAX}, err = {.max = OUTPUT_MAX};
	auto_fd int in = k->input ? input_fd(k->input) : -1;
	char *argv[] = {"/bin/sh", "-c", (char *)k->script, NULL};
	struct stream_result r;
	if (!selftest_exec(t, argv, in, &r, &out, &err))
		return SELFTEST_FAIL;
	struct str text = buf_str(&out);
	if (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	if (r.exit_code == k->want_code && strcmp(r.outcome, k->want_outcome ? k->want_outcome : "exited") == 0 &&
		(!k->want || str_eq_c(text, k->want)))
		return SELFTEST_PASS;
	snprintf(t->why, sizeof t->why, "%s with code %d, stdout '%.120s', stderr '%.120s'", r.outcome, r.exit_code,
		buf_cstr(&out), buf_cstr(&err));
	return SELFTEST_FAIL;
}

static enum selftest_verdict run_one(struct selftest *t, const struct selftest_check *k)
{
	t->why[0] = 0;
	return k->check ? k->check(t) : run_script(t, k);
}

static void run_fresh(struct selftest_run *run, const struct selftest_check *k)
{
	struct selftest t;
	struct err e;
	if (selftest_open(run, &t, &e) < 0) {
		selftest_report(run, k->name, SELFTEST_FAIL, e.msg);
		return;
	}
	enum selftest_verdict v = run_one(&t, k);
	selftest_report(run, k->name, v, t.why);
	selftest_close(&t);
}

int selftest_basics(struct selftest_run *run, struct err *e)
{
	struct selftest t;
	if (selftest_open(run, &t, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(checks) && !run->cl.interrupted; i++) {
		const struct selftest_check *k = &checks[i];
		if (k->fresh) {
			run_fresh(run, k);
			continue;
		}
		enum selftest_verdict v = run_one(&t, k);
		selftest_report(run, k->name, v, t.why);
	}
	selftest_close(&t);
	return 0;
}
