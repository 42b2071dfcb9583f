/*
 * Dockerfiles: whatever the text, it is refused with a line or gives well-formed JSON.
 */
#include "base/json.h"
#include "docker/dockerfile.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const args[] = {"A=1", "B"};
	struct dockerfile d;
	struct err e = {0};
	auto_buf struct buf out = {0};
	int r = dockerfile_read(str_n((const char *)data, size), args, 2, &d, &e);
	if (r == 0) {
		dockerfile_json(&d, &out);
		struct json_doc *doc = json_parse(buf_str(&out), NULL);
		MUST(doc || !str_is_utf8(str_n((const char *)data, size)));
		json_free(doc);
	} else {
		MUST(str_starts(str_of(e.msg), STR("Dockerfile:")));
	}
	dockerfile_free(&d);
	return 0;
}
