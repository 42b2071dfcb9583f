#include "base/clock.h"

#include <stdio.h>
#include <time.h>

/* The first and the last moment that four digits of a year can tell. */
#define ISO_FIRST (-62167219200000ll)
#define ISO_LAST  253402300799999ll

static uint64_t read_clock(clockid_t id, uint64_t per_second)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * per_second + (uint64_t)ts.tv_nsec / (1000000000ull / per_second);
}

uint64_t clock_ms(void)
{
	return read_clock(CLOCK_MONOTONIC, 1000);
}

uint64_t clock_us(void)
{
	return read_clock(CLOCK_MONOTONIC, 1000000);
}

uint64_t clock_ns(void)
{
	return read_clock(CLOCK_MONOTONIC, 1000000000);
}

int64_t clock_wall_ms(void)
{
	return (int64_t)read_clock(CLOCK_REALTIME, 1000);
}

const char *clock_iso(int64_t wall_ms, char ret[CLOCK_ISO_LEN])
{
	if (wall_ms < ISO_FIRST)
		wall_ms = ISO_FIRST;
	if (wall_ms > ISO_LAST)
		wall_ms = ISO_LAST;
	int64_t ms = (wall_ms % 1000 + 1000) % 1000;
	time_t s = (time_t)((wall_ms - ms) / 1000);
	struct tm tm;
	gmtime_r(&s, &tm);
	/* The remainders change nothing: they tell the compiler that every field fits. */
	snprintf(ret, CLOCK_ISO_LEN, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", (unsigned)(tm.tm_year + 1900) % 10000u,
		(unsigned)(tm.tm_mon + 1) % 100u, (unsigned)tm.tm_mday % 100u, (unsigned)tm.tm_hour % 100u,
		(unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u, (unsigned)ms % 1000u);
	return ret;
}
