/*
 * range.h - the header Range of a download (RFC 9110, 14.2): one range of bytes. Pure.
 */
#pragma once

#include "base/str.h"

enum range_kind {
	RANGE_WHOLE, /* no range, several, another unit, or malformed: the whole file is the answer */
	RANGE_PART,
	RANGE_NONE, /* it begins behind the end: 416 */
};

struct range {
	uint64_t from, n; /* of RANGE_PART: from + n <= size, n > 0 */
};

enum range_kind range_read(struct str header, uint64_t size, struct range *ret);
