/* The log of a background process: complete up to its cap, and every byte that is gone is counted. */
#include <signal.h>
#include <sys/resource.h>

#include "agent/limits.h"
#include "agent/proc/output.h"
#include "agent/process/proclog.h"
#include "test.h"

static void add(struct proclog *l, const char *text)
{
	proclog_add(l, CMD_STDOUT, str_of(text));
}

static void add_many(struct proclog *l, size_t n, size_t piece)
{
	char bytes[PROCLOG_PIECE];
	memset(bytes, 'x', sizeof bytes);
	for (; n; n -= piece)
		proclog_add(l, CMD_STDOUT, str_n(bytes, piece = piece < n ? piece : n));
}

struct totals {
	uint64_t got, skipped, markers, records;
};

static struct totals read_all(const struct proclog *l, struct proclog_at *at)
{
	struct totals t = {0};
	struct proclog_record rec;
	while (proclog_read(l, at, &rec)) {
		t.got += rec.n;
		t.skipped += rec.skipped;
		t.markers += rec.skipped != 0;
		t.records++;
	}
	return t;
}

/* From now on no file can grow: as on a full disk, but without a signal. */
static void full_disk(bool full)
{
	signal(SIGXFSZ, SIG_IGN);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){full ? 0 : RLIM_INFINITY, RLIM_INFINITY}), 0);
}

TEST(a_log_is_complete_up_to_its_cap_however_small_the_pieces_are)
{
	for (size_t piece = 90; piece <= PROCLOG_PIECE; piece *= 90) {
		struct proclog l;
		proclog_init(&l);
		add_many(&l, PROCESS_LOG_MAX, piece);
		struct totals t = read_all(&l, &(struct proclog_at){0});
		CHECK_INT(t.got, PROCESS_LOG_MAX);
		CHECK_INT(t.skipped, 0);
		add_many(&l, PROCLOG_PIECE, 1000);
		t = read_all(&l, &(struct proclog_at){0});
		CHECK_INT(t.got + t.skipped, PROCESS_LOG_MAX + PROCLOG_PIECE);
		CHECK_INT(t.markers, 1);
		CHECK(t.got >= PROCESS_LOG_MAX / 2);
		proclog_free(&l);
	}
}

TEST(a_reader_that_is_overtaken_is_told_what_it_missed_and_no_more)
{
	struct proclog l;
	struct proclog_at at = {0};
	proclog_init(&l);
	add_many(&l, 100000, 1000);
	CHECK_INT(read_all(&l, &at).got, 100000);
	add_many(&l, PROCESS_LOG_MAX + PROCLOG_PIECE, 1000);
	struct totals t = read_all(&l, &at);
	CHECK(t.skipped > 0);
	CHECK_INT(t.markers, 1);
	CHECK_INT(t.got + t.skipped, PROCESS_LOG_MAX + PROCLOG_PIECE);
	proclog_free(&l);
}

TEST(resuming_knows_every_id_also_those_that_are_gone)
{
	struct proclog l;
	proclog_init(&l);
	add(&l, "abc");
	add(&l, "defgh");
	struct proclog_at at = proclog_resume(&l, 3);
	CHECK_INT(read_all(&l, &at).got, 5);
	at = proclog_resume(&l, 8);
	CHECK_INT(read_all(&l, &at).records, 0);
	/* Neither was ever an id: from the beginning. */
	at = proclog_resume(&l, 4);
	CHECK_INT(read_all(&l, &at).got, 8);
	at = proclog_resume(&l, UINT64_MAX);
	CHECK_INT(read_all(&l, &at).got, 8);
	add_many(&l, PROCESS_LOG_MAX + PROCLOG_PIECE, 1000);
	at = proclog_resume(&l, 3);
	struct totals t = read_all(&l, &at);
	CHECK_INT(t.got + t.skipped, 5 + PROCESS_LOG_MAX + PROCLOG_PIECE);
	proclog_free(&l);
}

TEST(what_finds_no_room_on_the_disk_is_told_where_it_is_missing)
{
	struct proclog l;
	struct proclog_at at = {0};
	struct proclog_record rec;
	proclog_init(&l);
	add_many(&l, PROCLOG_MEM, 512); /* in a file from here on */
	CHECK_INT(read_all(&l, &at).got, PROCLOG_MEM);
	full_disk(true);
	add(&l, "lost");
	CHECK(proclog_read(&l, &at, &rec));
	CHECK_INT(rec.n, 0);
	CHECK_INT(rec.skipped, 4);
	CHECK(!proclog_read(&l, &at, &rec));
	struct proclog_at resumed = proclog_resume(&l, at.bytes);
	add(&l, "gone");
	full_disk(false);
	add(&l, "back");
	CHECK(proclog_read(&l, &at, &rec));
	CHECK_INT(rec.skipped, 4);
	CHECK_MEM(rec.bytes, rec.n, "back", 4);
	CHECK(!proclog_read(&l, &at, &rec));
	CHECK_INT(read_all(&l, &resumed).skipped, 4);
	resumed = proclog_resume(&l, PROCLOG_MEM + 4); /* in the middle of the gap: what the first one was told */
	struct totals t = read_all(&l, &resumed);
	CHECK_INT(t.skipped, 4);
	CHECK_INT(t.got, 4);
	t = read_all(&l, &(struct proclog_at){0});
	CHECK_INT(t.skipped, 8);
	CHECK_INT(t.got, PROCLOG_MEM + 4);
	proclog_free(&l);
}

TEST_MAIN()
