#include "agent/file/range.h"

/* "-500": the last bytes. */
static enum range_kind read_tail(struct str text, uint64_t size, struct range *ret)
{
	uint64_t n;
	if (!str_to_u64(text, UINT64_MAX, &n))
		return RANGE_WHOLE;
	if (!n || !size)
		return RANGE_NONE;
	ret->n = n < size ? n : size;
	ret->from = size - ret->n;
	return RANGE_PART;
}

enum range_kind range_read(struct str header, uint64_t size, struct range *ret)
{
	static const struct str unit = STR("bytes=");
	if (!str_starts(header, unit))
		return RANGE_WHOLE;
	struct str spec = str_trim(str_skip(header, unit.n));
	ssize_t dash = str_index(spec, '-');
	if (dash == 0)
		return read_tail(str_skip(spec, 1), size, ret);
	uint64_t from, last = UINT64_MAX;
	struct str tail = dash < 0 ? STR_NULL : str_skip(spec, (size_t)dash + 1);
	if (dash < 0 || !str_to_u64(str_n(spec.p, (size_t)dash), UINT64_MAX, &from) ||
		(tail.n && !str_to_u64(tail, UINT64_MAX, &last)) || last < from)
		return RANGE_WHOLE;
	if (from >= size)
		return RANGE_NONE;
	ret->from = from;
	ret->n = (last < size - 1 ? last : size - 1) - from + 1;
	return RANGE_PART;
}
