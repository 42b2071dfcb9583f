#include "base/clock.h"
#include "test.h"

static void check_iso(int64_t ms, const char *want)
{
	char text[CLOCK_ISO_LEN];
	CHECK(clock_iso(ms, text) == text);
	CHECK_CSTR(text, want);
}

TEST(clock_iso_of_known_moments)
{
	check_iso(0, "1970-01-01T00:00:00.000Z");
	check_iso(1, "1970-01-01T00:00:00.001Z");
	check_iso(951782400000, "2000-02-29T00:00:00.000Z");
	check_iso(1794729461404, "2026-11-15T07:57:41.404Z");
}

TEST(clock_iso_before_1970)
{
	check_iso(-1, "1969-12-31T23:59:59.999Z");
	check_iso(-1000, "1969-12-31T23:59:59.000Z");
	check_iso(-1001, "1969-12-31T23:59:58.999Z");
	check_iso(-59011459200000, "0100-01-01T00:00:00.000Z");
}

TEST(clock_iso_stays_within_four_digits_of_year)
{
	check_iso(253402300799999, "9999-12-31T23:59:59.999Z");
	check_iso(253402300800000, "9999-12-31T23:59:59.999Z");
	check_iso(INT64_MAX, "9999-12-31T23:59:59.999Z");
	check_iso(-62167219200000, "0000-01-01T00:00:00.000Z");
	check_iso(-62167219200001, "0000-01-01T00:00:00.000Z");
	check_iso(INT64_MIN, "0000-01-01T00:00:00.000Z");
}

TEST(clock_monotonic_does_not_go_back)
{
	uint64_t ms = clock_ms(), us = clock_us();
	CHECK(us / 1000 >= ms);
	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_us();
		CHECK(now >= us);
		us = now;
	}
	CHECK(clock_wall_ms() > 1700000000000);
}

TEST_MAIN()
