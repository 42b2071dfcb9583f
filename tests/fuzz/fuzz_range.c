/* The header Range of a download: a part that it gives lies in the file. Input: the header, '|', the size. */
#include "agent/file/range.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest, header = str_split(str_n((const char *)data, size), '|', &rest);
	struct range part = {0};
	uint64_t file = 0;
	str_to_u64(rest, UINT64_MAX, &file);
	if (range_read(header, file, &part) == RANGE_PART)
		MUST(part.n > 0 && part.from < file && part.n <= file - part.from);
	return 0;
}
