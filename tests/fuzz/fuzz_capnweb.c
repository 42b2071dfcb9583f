/* A capnweb session with a hostile peer: the input is frames, one a line. */
#include "fuzz_capnweb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct app a = {0};
	struct str rest = str_n(data, size);
	a.s = capnweb_new(&ops, &a);
	for (size_t i = 1; rest.n && !a.over; i++)
		frame_in(&a, str_split(rest, '\n', &rest), i);
	capnweb_free(a.s);
	return 0;
}
