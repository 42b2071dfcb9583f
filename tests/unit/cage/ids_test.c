#include "cage/ids.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/limits.h"
#include "test.h"

static char top[64];

static void clean(void)
{
	char path[96];
	for (int b = 0; b < IDS_BLOCKS; b++) {
		snprintf(path, sizeof path, "%s/%d", top, b);
		unlink(path);
	}
	rmdir(top);
}

static void make_dir(void)
{
	snprintf(top, sizeof top, "/tmp/atoll-test-XXXXXX");
	CHECK(mkdtemp(top));
	atexit(clean);
}

static int open_top(void)
{
	return open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool lives(void *arg, const char *owner)
{
	return strcmp(arg, owner) == 0;
}

TEST(ranges_do_not_meet_each_other_or_foreign_ids)
{
	CHECK_INT(ids_base(0), 0x70000000);
	for (uint32_t slot = 0; slot < IDS_BLOCKS * IDS_BLOCK; slot++) {
		if (slot / IDS_BLOCK == IDS_FOREIGN)
			continue;
		uint32_t first = ids_base(slot), last = first + BOX_UID_RANGE - 1;
		CHECK(first < last && last < UINT32_MAX - BOX_UID_RANGE);
		CHECK(last < 0x7ffe0000u || first > 0x7ffeffffu);
	}
}

TEST(a_block_has_one_owner_while_that_lives)
{
	make_dir();
	struct ids a;
	uint32_t block;
	ids_init(&a, open_top(), "atoll-a", lives, "");
	CHECK(ids_claim(&a, &block, NULL) == 0);
	CHECK_INT(block, 0);
	CHECK(ids_owns(&a, 0) && ids_owns(&a, IDS_BLOCK - 1) && !ids_owns(&a, IDS_BLOCK));
	pid_t pid = fork(); /* another warden while the first runs: its lock counts */
	if (pid == 0) {
		struct ids b;
		ids_init(&b, open_top(), "atoll-b", lives, "");
		CHECK(ids_claim(&b, &block, NULL) == 0);
		CHECK_INT(block, 1);
		CHECK(!ids_take(&b, 0));
		_exit(0); /* killed: its file stays */
	}
	int status;
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	/* Its boxes still live: not free. */
	a.arg = "atoll-b";
	CHECK(ids_claim(&a, &block, NULL) == 0);
	CHECK_INT(block, 2);
	/* They are gone: free. */
	a.arg = "";
	CHECK(ids_claim(&a, &block, NULL) == 0);
	CHECK_INT(block, 1);
	ids_close(&a);
}

TEST(a_warden_that_comes_back_has_its_blocks_again)
{
	make_dir();
	pid_t pid = fork();
	uint32_t block;
	if (pid == 0) {
		struct ids a;
		ids_init(&a, open_top(), "atoll-a", lives, "");
		CHECK(ids_claim(&a, &block, NULL) == 0 && ids_claim(&a, &block, NULL) == 0);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	struct ids a;
	ids_init(&a, open_top(), "atoll-a", lives, "");
	CHECK_INT(ids_reclaim(&a), 2);
	CHECK(ids_owns(&a, 0) && ids_owns(&a, IDS_BLOCK));
	ids_release(&a);
	CHECK(!ids_owns(&a, 0));
	ids_close(&a);
	struct ids b;
	ids_init(&b, open_top(), "atoll-b", lives, "atoll-a");
	CHECK_INT(ids_reclaim(&b), 0);
	CHECK(ids_claim(&b, &block, NULL) == 0);
	CHECK_INT(block, 0);
	ids_close(&b);
}

TEST(all_blocks_taken_is_an_error)
{
	make_dir();
	struct ids a;
	struct err e;
	uint32_t block;
	ids_init(&a, open_top(), "atoll-a", lives, "");
	for (int i = 0; i < IDS_BLOCKS - 1; i++)
		CHECK(ids_claim(&a, &block, &e) == 0);
	CHECK(ids_claim(&a, &block, &e) < 0);
	CHECK_INT(e.code, ERRC_LIMIT_REACHED);
	CHECK(!ids_owns(&a, IDS_FOREIGN * IDS_BLOCK));
	ids_close(&a);
}

TEST_MAIN()
