#include "base/clock.h"

#include <stdio.h>
#include <time.h>

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

int64_t clock_wall_ms(void)
{
	return (int64_t)read_clock(CLOCK_REALTIME, 1000);
}

const char *clock_iso(int64_t wall_ms, char ret[CLOCK_ISO_LEN])
{
	time_t s = (time_t)(wall_ms / 1000);
	struct tm tm;
	gmtime_r(&s, &tm);
	size_t n = strftime(ret, CLOCK_ISO_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret + n, CLOCK_ISO_LEN - n, ".%03uZ", (unsigned)(wall_ms % 1000) % 1000u);
	return ret;
}
