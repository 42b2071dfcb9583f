/*
 * The warden killed with -9, at rest and in the middle of things.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/limits.h"
#include "warden_rig.h"

TEST(boxes_live_on_without_a_warden_and_are_found_again)
{
	enum { N = 5 };
	struct rig r = {0};
	struct box_info made[N], found[N + 1];
	char id[16];
	rig_start(&r);
	for (int i = 0; i < N; i++) {
		snprintf(id, sizeof id, "box-%d", i);
		made[i] = rig_create(&r, id);
		rig_ask(&r, made[i].slot, "put /memory remembered");
	}
	CHECK_INT(rig_call(&r, rig_request(WARDEN_FREEZE, "box-4")).err.code, ERRC_OK);
	rig_kill(&r);
	for (int i = 0; i < N - 1; i++)
		CHECK_CSTR(rig_ask(&r, made[i].slot, "ping"), "pong");
	rig_boot(&r);
	CHECK_INT(rig_list(&r, found, N + 1), N);
	for (int i = 0; i < N; i++) {
		struct box_info b = rig_inspect(&r, made[i].id);
		CHECK_INT(b.pid, made[i].pid);
		CHECK_INT(b.slot, made[i].slot);
		CHECK_INT(b.uid_base, made[i].uid_base);
		CHECK_INT(b.created_ms, made[i].created_ms);
		CHECK_INT(b.limits.mem_bytes, made[i].limits.mem_bytes);
		CHECK_INT(b.state, i == N - 1 ? BOX_FROZEN : BOX_RUNNING);
	}
	CHECK_INT(rig_call(&r, rig_request(WARDEN_THAW, "box-4")).err.code, ERRC_OK);
	for (int i = 0; i < N; i++) {
		CHECK_CSTR(rig_ask(&r, made[i].slot, "cat /memory"), "remembered");
		rig_destroy(&r, made[i].id, 0);
	}
	rig_stop_clean(&r);
}

TEST(a_box_that_died_meanwhile_is_reported_dead)
{
	struct rig r = {0};
	rig_start(&r);
	struct box_info b = rig_create(&r, "a");
	rig_ask(&r, b.slot, "put /file there");
	rig_kill(&r);
	rig_ask(&r, b.slot, "exit 1");
	while (kill(b.pid, 0) == 0)
		poll(NULL, 0, 5);
	rig_boot(&r);
	struct box_info found = rig_inspect(&r, "a");
	CHECK_INT(found.state, BOX_DEAD);
	CHECK_INT(found.exit_known, 0);
	CHECK_INT(found.pid, 0);
	rig_kill(&r);
	rig_boot(&r);
	CHECK_INT(rig_inspect(&r, "a").state, BOX_DEAD);
	rig_destroy(&r, "a", WARDEN_KEEP_FILES);
	b = rig_create(&r, "a");
	CHECK_CSTR(rig_ask(&r, b.slot, "cat /file"), "there");
	rig_destroy(&r, "a", 0);
	rig_stop_clean(&r);
}

TEST(an_adopted_box_that_ends_is_reported)
{
	struct rig r = {0};
	rig_start(&r);
	struct box_info b = rig_create(&r, "a");
	rig_kill(&r);
	rig_boot(&r);
	rig_ask(&r, b.slot, "exit 1");
	struct warden_reply died = rig_event(&r);
	CHECK_CSTR(died.info.id, "a");
	CHECK_INT(died.info.exit_known, 0);
	rig_destroy(&r, "a", 0);
	rig_stop_clean(&r);
}

/* Creates and destroys go on while the warden is killed at a random moment. Whatever it names afterwards must live and
 * answer; whatever it does not name must be gone. */
TEST(killed_under_load_it_cleans_up_what_was_half_done)
{
	struct rig r = {0};
	char id[16];
	struct box_info found[64];
	srand(test_seed());
	rig_make_dirs(&r);
	for (int round = 0; round < 15; round++) {
		rig_boot(&r);
		for (int i = 0; i < 12; i++) {
			snprintf(id, sizeof id, "box-%d", rand() % 8);
			rig_send(&r, rig_request(rand() % 3 ? WARDEN_CREATE : WARDEN_DESTROY, id));
		}
		struct timespec t = {0, (rand() % 8000) * 1000L};
		nanosleep(&t, NULL);
		rig_kill(&r);
	}
	rig_boot(&r);
	size_t n = rig_list(&r, found, ARRAY_LEN(found));
	CHECK(n <= 8);
	for (size_t i = 0; i < n; i++) {
		CHECK_INT(found[i].state, BOX_RUNNING);
		CHECK_CSTR(rig_ask(&r, found[i].slot, "ping"), "pong");
		rig_destroy(&r, found[i].id, 0);
	}
	/* No layer is left of those that were undone. */
	rig_stop_clean(&r);
}

/* Nobody was told of them, so nobody would ever have them deleted. */
TEST(files_of_a_create_that_was_cut_off_go)
{
	struct rig r = {0};
	char id[16];
	struct box_info found[8];
	srand(test_seed());
	rig_make_dirs(&r);
	for (int round = 0; round < 12; round++) {
		rig_boot(&r);
		for (int i = 0; i < 8; i++) {
			snprintf(id, sizeof id, "box-%d", i);
			rig_send(&r, rig_request(WARDEN_CREATE, id));
		}
		struct timespec t = {0, (3000 + rand() % 12000) * 1000L};
		nanosleep(&t, NULL);
		rig_kill(&r);
		rig_boot(&r);
		size_t n = rig_list(&r, found, ARRAY_LEN(found));
		for (size_t i = 0; i < n; i++)
			rig_destroy(&r, found[i].id, 0);
		rig_check_clean(&r);
		rig_stop(&r);
	}
}

TEST(wardens_side_by_side_never_share_user_ids)
{
	struct rig a = {0}, b = {0};
	rig_make_dirs(&a);
	rig_boot(&a);
	struct box_info in_a = rig_create(&a, "same");
	/* The second in a process of its own, since a rig cleans up after one only. */
	int p[2];
	CHECK(pipe(p) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		rig_start(&b);
		uint32_t base = rig_create(&b, "same").uid_base;
		CHECK(write(p[1], &base, sizeof base) == sizeof base);
		rig_destroy(&b, "same", 0);
		rig_stop(&b);
		exit(0);
	}
	uint32_t base_b;
	CHECK(read(p[0], &base_b, sizeof base_b) == sizeof base_b);
	int status;
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	CHECK(base_b / BOX_UID_RANGE / 256 != in_a.uid_base / BOX_UID_RANGE / 256);
	/* Killed, it keeps its ids as long as a box lives. */
	rig_kill(&a);
	pid = fork();
	if (pid == 0) {
		struct rig c = {0};
		rig_start(&c);
		CHECK(rig_create(&c, "same").uid_base / BOX_UID_RANGE / 256 != in_a.uid_base / BOX_UID_RANGE / 256);
		rig_destroy(&c, "same", 0);
		rig_stop(&c);
		exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	rig_boot(&a);
	CHECK_INT(rig_inspect(&a, "same").uid_base, in_a.uid_base);
	rig_destroy(&a, "same", 0);
	rig_stop(&a);
}

TEST(a_second_warden_in_the_same_place_is_refused)
{
	struct rig r = {0};
	rig_start(&r);
	struct rig second = r;
	const char *why = rig_refused(&second);
	CHECK(strstr(why, "another warden runs already"));
	CHECK_INT(rig_list(&r, NULL, 0), 0);
	rig_stop(&r);
}

TEST_MAIN()
