#include "cage/pool/note.h"

#include <errno.h>

#include "test.h"

enum { MINE = 100, OTHER = 200, THIRD = 300 };

static struct note_ranges ranges(uint64_t low, uint64_t high)
{
	struct note_ranges r = {0};
	note_ranges_add(&r, low, high);
	return r;
}

TEST(ranges_are_open_below_and_closed_above)
{
	struct note_ranges r = ranges(10, 20);
	CHECK(!note_ranges_have(&r, 10));
	CHECK(note_ranges_have(&r, 11));
	CHECK(note_ranges_have(&r, 20));
	CHECK(!note_ranges_have(&r, 21));
	note_ranges_add(&r, 30, 30); /* empty */
	CHECK_INT(r.n, 1);
}

TEST(ranges_that_touch_become_one)
{
	struct note_ranges r = ranges(10, 20);
	note_ranges_add(&r, 20, 30);
	note_ranges_add(&r, 25, 28);
	CHECK_INT(r.n, 1);
	CHECK_INT(r.v[0].high, 30);
}

TEST(the_most_ranges_fit_and_one_more_closes_the_smallest_gap)
{
	struct note_ranges r = {0};
	uint64_t at = 0;
	for (unsigned i = 0; i < NOTE_RANGES_MAX; i++) {
		at += i == 4 ? 3 : 100; /* the smallest gap is before the fifth */
		note_ranges_add(&r, at, at + 10);
		at += 10;
	}
	CHECK_INT(r.n, NOTE_RANGES_MAX);
	uint64_t low = r.v[3].low, high = r.v[4].high;
	note_ranges_add(&r, at + 100, at + 110);
	CHECK_INT(r.n, NOTE_RANGES_MAX);
	CHECK_INT(r.v[3].low, low);
	CHECK_INT(r.v[3].high, high);
	CHECK_INT(r.v[NOTE_RANGES_MAX - 1].high, at + 110);
}

TEST(everything_in_a_fork_is_foreign_to_it)
{
	struct layer_note from = {.group = MINE, .foreign = ranges(3, 5)};
	struct layer_note n = note_inherit(&from, NULL, OTHER, 50);
	CHECK_INT(n.group, OTHER);
	CHECK(note_ranges_have(&n.foreign, 1) && note_ranges_have(&n.foreign, 50) && !note_ranges_have(&n.foreign, 51));
	CHECK_INT(n.parent, MINE);
	CHECK_INT(n.forked, 50);
	CHECK(note_ranges_equal(&n.parent_foreign, &from.foreign));
}

TEST(a_box_that_takes_its_fork_back_owes_what_the_fork_wrote)
{
	struct layer_note box = {.group = MINE, .foreign = ranges(3, 5), .parent = THIRD, .forked = 5};
	struct layer_note fork = note_inherit(&box, NULL, OTHER, 50);
	struct layer_note n = note_inherit(&fork, &box, MINE, 80);
	CHECK_INT(n.group, MINE);
	CHECK_INT(n.foreign.n, 2);
	CHECK(note_ranges_have(&n.foreign, 4) && !note_ranges_have(&n.foreign, 50) &&
		note_ranges_have(&n.foreign, 51) && note_ranges_have(&n.foreign, 80));
	CHECK_INT(n.parent, THIRD); /* it can still be taken back itself */
	CHECK_INT(n.forked, 5);
	/* Its files were others' meanwhile: nobody knows any more what came from the third. */
	struct layer_note changed = {.group = MINE, .foreign = ranges(0, 60), .parent = THIRD, .forked = 60};
	n = note_inherit(&fork, &changed, MINE, 80);
	CHECK_INT(n.parent, 0);
	CHECK_INT(n.foreign.n, 2);
}

TEST(a_snapshot_of_the_box_itself_brings_its_note)
{
	struct layer_note from = {.group = MINE, .limit = 7, .foreign = ranges(3, 5), .parent = OTHER, .forked = 5};
	struct layer_note old = {.group = MINE, .foreign = ranges(0, 90)};
	struct layer_note n = note_inherit(&from, &old, MINE, 80);
	CHECK_MEM((const char *)&n, sizeof n, (const char *)&from, sizeof from);
}

TEST(a_note_reads_as_it_was_written)
{
	struct layer_note n = {.group = MINE, .limit = 1 << 30, .foreign = ranges(0, 9), .parent = OTHER}, back = {0};
	char bytes[NOTE_BYTES_MAX];
	size_t size = note_encode(&n, bytes);
	CHECK_INT(note_decode(bytes, size, &back), 0);
	CHECK_MEM((const char *)&back, sizeof back, (const char *)&n, sizeof n);
}

TEST(a_note_of_the_first_version_is_read)
{
	struct {
		uint32_t magic, size;
		uint64_t group, parent, low, high, debt, limit;
	} old = {0x31594c41, sizeof old, MINE, OTHER, 3, 9, 1000, 77};
	struct layer_note n = {0};
	CHECK_INT(note_decode((const char *)&old, sizeof old, &n), 0);
	CHECK_INT(n.group, MINE);
	CHECK_INT(n.limit, 77);
	CHECK(n.foreign.n == 1 && note_ranges_have(&n.foreign, 9) && !note_ranges_have(&n.foreign, 3));
	CHECK_INT(n.parent, 0);
	CHECK_INT(note_decode((const char *)&old, sizeof old - 1, &n), -EBADMSG);
}

TEST(damaged_notes_are_refused_and_change_nothing)
{
	struct layer_note n = {.group = MINE, .foreign = ranges(5, 9)}, back = {.group = THIRD};
	char bytes[NOTE_BYTES_MAX];
	size_t size = note_encode(&n, bytes);
	CHECK_INT(note_decode(bytes, 0, &back), -EBADMSG);
	CHECK_INT(note_decode(bytes, size - 1, &back), -EBADMSG);
	n.foreign.n = NOTE_RANGES_MAX + 1;
	CHECK_INT(note_decode(bytes, note_encode(&n, bytes), &back), -EBADMSG);
	n.foreign = (struct note_ranges){.n = 2, .v = {{5, 9}, {8, 10}}};
	CHECK_INT(note_decode(bytes, note_encode(&n, bytes), &back), -EBADMSG);
	n.foreign = (struct note_ranges){.n = 1, .v = {{9, 9}}};
	CHECK_INT(note_decode(bytes, note_encode(&n, bytes), &back), -EBADMSG);
	bytes[0] ^= 1;
	CHECK_INT(note_decode(bytes, size, &back), -EBADMSG);
	CHECK_INT(back.group, THIRD);
}

TEST_MAIN()
