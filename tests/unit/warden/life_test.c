/*
 * Boxes from birth to death, through a real warden.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "proto/limits.h"
#include "warden_rig.h"

TEST(a_box_answers_and_leaves_nothing)
{
	struct rig r = {0};
	rig_start(&r);
	rig_check_clean(&r);
	struct rig_traces before = rig_traces_steady(&r);
	struct box_info b = rig_create(&r, "user@example.org");
	CHECK_CSTR(rig_ask(&r, b.slot, "ping"), "pong");
	CHECK_CSTR(rig_ask(&r, b.slot, "id"), "1 0 0 user-example-org /workspace");
	/* With the files that take commands into their leaves: one on cgroup v2, two on v1. */
	CHECK_CSTR(rig_ask(&r, b.slot, "fds"), before.hierarchies > 1 ? "0 1 2 3 4 5 7 8 " : "0 1 2 3 4 5 7 ");
	CHECK_INT(b.uid_base % BOX_UID_RANGE, 0);
	rig_destroy(&r, "user@example.org", 0);
	rig_check_clean(&r);
	struct rig_traces after = rig_traces_steady(&r);
	CHECK_INT(after.fds, before.fds);
	CHECK_INT(after.mounts, before.mounts);
	rig_stop(&r);
}

TEST(a_stop_without_boxes_leaves_no_cgroup)
{
	struct rig r = {0};
	rig_start(&r);
	rig_create(&r, "a");
	rig_destroy(&r, "a", 0);
	rig_stop(&r);
	char path[128];
	snprintf(path, sizeof path, "/sys/fs/cgroup/unified/%s", r.instance);
	CHECK(access(path, F_OK) < 0);
	snprintf(path, sizeof path, "/sys/fs/cgroup/%s", r.instance);
	CHECK(access(path, F_OK) < 0);
}

TEST(files_stay_only_when_asked)
{
	struct rig r = {0};
	rig_start(&r);
	struct box_info b = rig_create(&r, "a");
	CHECK_CSTR(rig_ask(&r, b.slot, "put /tmp-file kept"), "ok");
	rig_destroy(&r, "a", WARDEN_KEEP_FILES);
	b = rig_create(&r, "a");
	CHECK_CSTR(rig_ask(&r, b.slot, "cat /tmp-file"), "kept");
	CHECK_CSTR(rig_ask(&r, b.slot, "put /other again"), "ok");
	rig_destroy(&r, "a", WARDEN_KEEP_FILES);
	b = rig_create(&r, "a");
	CHECK_CSTR(rig_ask(&r, b.slot, "cat /other"), "again");
	rig_destroy(&r, "a", 0);
	b = rig_create(&r, "a");
	CHECK_CSTR(rig_ask(&r, b.slot, "cat /tmp-file"), "! No such file or directory");
	rig_destroy(&r, "a", WARDEN_KEEP_FILES);
	rig_destroy(&r, "a", 0); /* stopped: only files are left, and they go */
	struct warden_reply again = rig_call(&r, rig_request(WARDEN_DESTROY, "a"));
	CHECK_INT(again.err.code, ERRC_SANDBOX_NOT_FOUND);
	rig_stop_clean(&r);
}

TEST(names_that_differ_only_in_case_or_signs_are_different_boxes)
{
	struct rig r = {0};
	rig_start(&r);
	static const char *const ids[] = {"a", "A", "..a", ".a", "a.b", "a%2Eb", "%"};
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		char line[64];
		struct box_info b = rig_create(&r, ids[i]);
		snprintf(line, sizeof line, "put /name %s", ids[i]);
		CHECK_CSTR(rig_ask(&r, b.slot, line), "ok");
	}
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		CHECK_CSTR(rig_ask(&r, rig_inspect(&r, ids[i]).slot, "cat /name"), ids[i]);
	struct box_info all[16];
	CHECK_INT(rig_list(&r, all, 16), ARRAY_LEN(ids));
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		rig_destroy(&r, ids[i], 0);
	rig_stop_clean(&r);
}

TEST(limits_hold_and_can_be_read_back)
{
	struct rig r = {0};
	rig_start(&r);
	struct warden_request rq = rig_request(WARDEN_CREATE, "a");
	rq.limits = (struct box_limits){.mem_bytes = 64u * MIB, .cpu_milli = 500, .pids = 16};
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_OK);
	struct box_info b = rig_inspect(&r, "a");
	CHECK_INT(b.limits.mem_bytes, 64u * MIB);
	CHECK_INT(b.limits.cpu_milli, 500);
	CHECK_INT(b.limits.pids, 16);
	CHECK_INT(b.oom_kills, 0);
	CHECK_CSTR(rig_ask(&r, b.slot, "eat 32"), "full");
	CHECK_CSTR(rig_ask(&r, b.slot, "eat 96"), "");
	b = rig_inspect(&r, "a");
	CHECK_INT(b.oom_kills, 1);
	CHECK(b.mem_peak > 32u * MIB && b.mem_peak <= (64u + 8u) * MIB); /* with what the agent has */
	/* What ended closes its end of the connection before it leaves the count of processes. */
	while (rig_inspect(&r, "a").pids_used > 1)
		poll(NULL, 0, 5);
	CHECK_INT(atoi(rig_ask(&r, b.slot, "fork 100")), 15);
	CHECK_INT(rig_inspect(&r, "a").pids_used, 16);

	rq = rig_request(WARDEN_SET_LIMITS, "a");
	rq.limits = (struct box_limits){.mem_bytes = 160u * MIB, .cpu_milli = 1000, .pids = 20};
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_OK);
	CHECK_INT(atoi(rig_ask(&r, b.slot, "fork 100")), 4);
	rig_destroy(&r, "a", 0);
	rig_stop_clean(&r);
}

/* Made by root, all boxes would share the 128 inotify instances that root may have. */
TEST(a_box_cannot_use_up_what_others_may_have)
{
	struct rig r = {0};
	rig_start(&r);
	for (int i = 0; i < 3; i++) {
		char id[16];
		snprintf(id, sizeof id, "box-%d", i);
		struct box_info b = rig_create(&r, id);
		CHECK_INT(atoi(rig_ask(&r, b.slot, "watch 1000")), BOX_INOTIFY_INSTANCES);
		CHECK_INT(atoi(rig_ask(&r, b.slot, "watch 1000")), 0);
	}
	for (int i = 0; i < 3; i++) {
		char id[16];
		snprintf(id, sizeof id, "box-%d", i);
		rig_destroy(&r, id, 0);
	}
	rig_stop(&r);
}

TEST(more_memory_can_be_given_and_taken)
{
	struct rig r = {0};
	rig_start(&r);
	struct warden_request rq = rig_request(WARDEN_CREATE, "a");
	rq.limits.mem_bytes = 32u * MIB;
	uint32_t slot = rig_call(&r, rq).info.slot;
	CHECK_CSTR(rig_ask(&r, slot, "eat 48"), "");
	rq = rig_request(WARDEN_SET_LIMITS, "a");
	rq.limits.mem_bytes = 128u * MIB;
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_OK);
	CHECK_CSTR(rig_ask(&r, slot, "eat 48"), "full");
	rq.limits.mem_bytes = 32u * MIB;
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_OK);
	CHECK_CSTR(rig_ask(&r, slot, "eat 48"), "");
	rig_destroy(&r, "a", 0);
	rig_stop(&r);
}

static enum errc try_limits(struct rig *r, uint32_t op, struct box_limits l)
{
	struct warden_request rq = rig_request(op, "a");
	rq.limits = l;
	struct warden_reply reply = rig_call(r, rq);
	if (reply.err.code)
		CHECK(strstr(reply.err.msg, "what the host has"));
	return reply.err.code;
}

TEST(limits_beyond_the_host_or_below_sense_are_refused)
{
	struct rig r = {0};
	rig_start(&r);
	struct warden_host host = rig_call(&r, (struct warden_request){.op = WARDEN_HELLO}).host;
	CHECK(host.mem_total > 0 && host.cpus_milli >= 1000 && host.pids_max >= BOX_PIDS_MIN);
	const struct box_limits bad[] = {{.mem_bytes = host.mem_total + 1}, {.mem_bytes = BOX_MEM_MIN - 1},
		{.mem_bytes = UINT64_MAX}, {.cpu_milli = host.cpus_milli + 1}, {.cpu_milli = BOX_CPU_MIN - 1},
		{.cpu_milli = UINT32_MAX}, {.pids = host.pids_max + 1}, {.pids = BOX_PIDS_MIN - 1}};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(try_limits(&r, WARDEN_CREATE, bad[i]), ERRC_INVALID_LIMITS);
	CHECK_INT(rig_list(&r, NULL, 0), 0);
	const struct box_limits most = {host.mem_total, host.cpus_milli, host.pids_max};
	const struct box_limits least = {BOX_MEM_MIN, BOX_CPU_MIN, BOX_PIDS_MIN};
	CHECK_INT(try_limits(&r, WARDEN_CREATE, most), ERRC_OK);
	CHECK_INT(try_limits(&r, WARDEN_SET_LIMITS, least), ERRC_OK);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(try_limits(&r, WARDEN_SET_LIMITS, bad[i]), ERRC_INVALID_LIMITS);
	rig_destroy(&r, "a", 0);
	CHECK_INT(try_limits(&r, WARDEN_CREATE, least), ERRC_OK);
	rig_destroy(&r, "a", 0);
	rig_stop_clean(&r);
}

TEST(a_frozen_box_stands_still_until_it_is_thawed)
{
	struct rig r = {0};
	rig_start(&r);
	struct box_info b = rig_create(&r, "a");
	CHECK_CSTR(rig_ask(&r, b.slot, "spin"), "ok");
	CHECK_INT(rig_call(&r, rig_request(WARDEN_FREEZE, "a")).info.state, BOX_FROZEN);
	uint64_t cpu = rig_inspect(&r, "a").cpu_usec;
	CHECK(rig_ask_ms(&r, b.slot, "ping", 100) == NULL);
	CHECK_INT(rig_inspect(&r, "a").cpu_usec, cpu);
	CHECK_INT(rig_call(&r, rig_request(WARDEN_FREEZE, "a")).info.state, BOX_FROZEN);
	CHECK_INT(rig_call(&r, rig_request(WARDEN_THAW, "a")).info.state, BOX_RUNNING);
	CHECK_CSTR(rig_ask(&r, b.slot, "ping"), "pong");
	CHECK_INT(rig_call(&r, rig_request(WARDEN_THAW, "a")).info.state, BOX_RUNNING);
	CHECK_INT(rig_call(&r, rig_request(WARDEN_FREEZE, "a")).info.state, BOX_FROZEN);
	rig_destroy(&r, "a", 0); /* frozen or not */
	rig_stop_clean(&r);
}

TEST(only_a_frozen_box_is_paged_out_and_only_where_there_is_swap)
{
	struct rig r = {0};
	struct sysinfo si = {0};
	rig_start(&r);
	rig_create(&r, "a");
	CHECK_INT(rig_call(&r, rig_request(WARDEN_PAGE_OUT, "a")).err.code, ERRC_INVALID_STATE);
	CHECK_INT(rig_call(&r, rig_request(WARDEN_PAGE_OUT, "b")).err.code, ERRC_SANDBOX_NOT_FOUND);
	CHECK_INT(rig_call(&r, rig_request(WARDEN_FREEZE, "a")).info.state, BOX_FROZEN);
	CHECK_INT(sysinfo(&si), 0);
	struct warden_reply out = rig_call(&r, rig_request(WARDEN_PAGE_OUT, "a"));
	CHECK_INT(out.err.code, si.totalswap ? ERRC_OK : ERRC_HOST_UNSUPPORTED);
	CHECK_INT(rig_inspect(&r, "a").state, BOX_FROZEN);
	CHECK_INT(rig_call(&r, rig_request(WARDEN_THAW, "a")).info.state, BOX_RUNNING);
	rig_destroy(&r, "a", 0);
	rig_stop_clean(&r);
}

TEST(a_box_that_ends_by_itself_is_reported_and_kept)
{
	struct rig r = {0};
	rig_start(&r);
	struct box_info b = rig_create(&r, "a");
	CHECK_CSTR(rig_ask(&r, b.slot, "put /file there"), "ok");
	rig_ask(&r, b.slot, "exit 3");
	struct warden_reply died = rig_event(&r);
	CHECK_CSTR(died.info.id, "a");
	CHECK_INT(died.info.state, BOX_DEAD);
	CHECK_INT(died.info.exit_known, 1);
	CHECK_INT(died.info.exit_code, 3);
	CHECK_INT(died.info.exit_signal, 0);
	CHECK_INT(rig_inspect(&r, "a").state, BOX_DEAD);
	CHECK_INT(rig_call(&r, rig_request(WARDEN_FREEZE, "a")).err.code, ERRC_INVALID_STATE);
	b = rig_create(&r, "a"); /* again, on its files */
	CHECK_CSTR(rig_ask(&r, b.slot, "cat /file"), "there");
	CHECK_INT(rig_call(&r, rig_request(WARDEN_CREATE, "a")).err.code, ERRC_INVALID_STATE);

	struct warden_request rq = rig_request(WARDEN_SIGNAL, "a");
	rq.signal = SIGKILL;
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_OK);
	died = rig_event(&r);
	CHECK_INT(died.info.exit_signal, SIGKILL);
	CHECK_INT(died.info.exit_code, -1);
	rig_destroy(&r, "a", 0);
	rig_stop_clean(&r);
}

TEST(signals_reach_the_init)
{
	struct rig r = {0};
	rig_start(&r);
	struct box_info b = rig_create(&r, "a");
	/* The kernel drops a signal for which the init has no handler yet. */
	CHECK_CSTR(rig_ask(&r, b.slot, "ping"), "pong");
	struct warden_request rq = rig_request(WARDEN_SIGNAL, "a");
	static const int bad[] = {0, -1, 65, INT32_MAX};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		rq.signal = bad[i];
		CHECK_INT(rig_call(&r, rq).err.code, ERRC_INVALID_REQUEST);
	}
	rq.signal = SIGTERM; /* mini-agent exits with 0 */
	CHECK_INT(rig_call(&r, rq).err.code, ERRC_OK);
	CHECK_INT(rig_event(&r).info.exit_code, 0);
	rig_destroy(&r, "a", 0);
	rig_stop(&r);
}

TEST(many_creates_at_once_more_than_the_pool_has)
{
	enum { MANY = 60 };
	struct rig r = {0};
	uint64_t seq[MANY];
	char id[16];
	rig_start(&r);
	for (int i = 0; i < MANY; i++) {
		snprintf(id, sizeof id, "box-%d", i);
		seq[i] = rig_send(&r, rig_request(WARDEN_CREATE, id));
	}
	struct warden_reply reply[MANY];
	for (int i = 0; i < MANY; i++) {
		reply[i] = rig_wait(&r, seq[i]);
		CHECK_INT(reply[i].err.code, ERRC_OK);
		for (int k = 0; k < i; k++)
			CHECK(reply[k].info.uid_base != reply[i].info.uid_base);
	}
	for (int i = 0; i < MANY; i++)
		CHECK_CSTR(rig_ask(&r, reply[i].info.slot, "ping"), "pong");
	for (int i = 0; i < MANY; i++) {
		snprintf(id, sizeof id, "box-%d", i);
		seq[i] = rig_send(&r, rig_request(WARDEN_DESTROY, id));
	}
	for (int i = 0; i < MANY; i++)
		CHECK_INT(rig_wait(&r, seq[i]).err.code, ERRC_OK);
	rig_stop_clean(&r);
}

TEST(a_destroy_overtakes_a_create)
{
	struct rig r = {0};
	rig_start(&r);
	for (int i = 0; i < 30; i++) {
		uint64_t create = rig_send(&r, rig_request(WARDEN_CREATE, "a"));
		uint64_t twice = rig_send(&r, rig_request(WARDEN_CREATE, "a"));
		uint64_t destroy = rig_send(&r, rig_request(WARDEN_DESTROY, "a"));
		struct warden_reply made = rig_wait(&r, create);
		CHECK(made.err.code == ERRC_OK || made.err.code == ERRC_INVALID_STATE);
		CHECK_INT(rig_wait(&r, twice).err.code, ERRC_INVALID_STATE);
		CHECK_INT(rig_wait(&r, destroy).err.code, ERRC_OK);
	}
	CHECK_INT(rig_list(&r, NULL, 0), 0);
	rig_stop_clean(&r);
}

TEST(a_new_connection_takes_over_and_finds_the_boxes)
{
	struct rig r = {0};
	rig_start(&r);
	struct box_info b = rig_create(&r, "a");
	int old = r.sock;
	rig_connect(&r);
	struct box_info found;
	CHECK_INT(rig_list(&r, &found, 1), 1);
	CHECK_INT(found.pid, b.pid);
	char byte;
	CHECK_INT(read(old, &byte, 1), 0);
	close(old);
	rig_destroy(&r, "a", 0);
	rig_stop(&r);
}

TEST_MAIN()
