/*
 * Dockerfiles: whatever is accepted has a place for each step and terminated texts; variables and words of every step
 * end.
 */
#include "fuzz.h"
#include "images/dockerfile.h"

static const char *lookup(void *arg, struct str name)
{
	(void)arg;
	return name.n % 2 ? "value" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dockerfile d;
	struct err e;
	if (dockerfile_parse(str_n(data, size), &d, &e) < 0)
		return 0;
	MUST(d.n > 0 && d.n <= DOCKERFILE_STEPS_MAX);
	for (size_t i = 0; i < d.n; i++) {
		auto_buf struct buf out = {0};
		struct words w = {0};
		MUST(d.v[i].line >= 1 && d.v[i].column >= 1 && d.v[i].text);
		for (size_t k = 0; k < d.v[i].docs_n; k++)
			MUST(d.v[i].docs[k].content);
		dockerfile_expand(str_of(d.v[i].text), d.escape, lookup, NULL, &out, &e);
		dockerfile_words(str_of(d.v[i].text), d.escape, lookup, NULL, &w, &e);
		words_free(&w);
	}
	dockerfile_free(&d);
	return 0;
}
