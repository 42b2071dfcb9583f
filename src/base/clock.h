/*
 * clock.h - time: monotonic for durations, wall for timestamps.
 */
#pragma once

#include "base/base.h"

enum { CLOCK_ISO_LEN = 25 }; /* "2026-11-15T07:57:41.404Z" and its NUL */

uint64_t clock_ms(void); /* monotonic */
uint64_t clock_us(void); /* monotonic */
uint64_t clock_ns(void); /* monotonic */
int64_t clock_wall_ms(void);

/* ISO 8601 with milliseconds and Z, as every `timestamp` in the API. Returns ret. Times outside of the years 0000 to
 * 9999 (a box may give its files any) become the first or last moment of those. */
const char *clock_iso(int64_t wall_ms, char ret[CLOCK_ISO_LEN]);
