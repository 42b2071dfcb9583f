/* The note of a layer: one that is read has ranges in order, stays the same when it is written, and can be inherited.
 */
#include "cage/pool/note.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct layer_note n, back, next;
	char bytes[NOTE_BYTES_MAX];
	if (note_decode((const char *)data, size, &n) < 0)
		return 0;
	MUST(note_decode(bytes, note_encode(&n, bytes), &back) == 0);
	MUST(memcmp(&n, &back, sizeof n) == 0);
	uint64_t last = 0;
	for (size_t i = 0; i < n.foreign.n; i++) {
		MUST(n.foreign.v[i].low < n.foreign.v[i].high && (!i || n.foreign.v[i].low > last));
		last = n.foreign.v[i].high;
	}
	next = note_inherit(&n, &back, n.parent, n.forked > last ? n.forked : last);
	MUST(note_decode(bytes, note_encode(&next, bytes), &back) == 0);
	return 0;
}
