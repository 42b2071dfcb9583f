/*
 * The TLS hello reader: any bytes, and what it says of a prefix never contradicts what it says of the whole.
 */
#include "fuzz.h"
#include "gate/tls/hello.h"
#include "proto/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello h = {0}, part;
	enum hello_result whole = hello_read(str_n(data, size), &h);
	char name[NET_NAME_MAX + 1];
	if (whole == HELLO_DONE && *h.name)
		MUST(rule_name(str_of(h.name), name) && strcmp(name, h.name) == 0);
	for (size_t n = 0; n < size; n += 1 + size / 16) {
		enum hello_result r = hello_read(str_n(data, n), &part);
		/* A decision that was made on less must stand. */
		if (r == HELLO_NOT_TLS || r == HELLO_BAD)
			MUST(whole == r);
		if (r == HELLO_DONE)
			MUST(whole == HELLO_DONE && strcmp(part.name, h.name) == 0 && part.ech == h.ech);
	}
	return 0;
}
