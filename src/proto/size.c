#include "proto/size.h"

#include <string.h>

bool size_parse(struct str text, uint64_t *ret)
{
	static const char units[] = "kmgt";
	uint64_t n, factor = 1;
	if (text.n && (text.p[text.n - 1] < '0' || text.p[text.n - 1] > '9')) {
		const char *unit = memchr(units, text.p[text.n - 1] | 0x20, sizeof units - 1);
		if (!unit)
			return false;
		factor = 1ull << (10 * (unit - units + 1));
		text.n--;
	}
	if (!text.n || !str_to_u64(text, INT64_MAX / factor, &n))
		return false;
	*ret = n * factor;
	return true;
}
