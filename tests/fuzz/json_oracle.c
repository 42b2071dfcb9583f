#include "json_oracle.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>

static struct {
	__typeof__(json_loadb) *loadb;
	__typeof__(json_delete) *discard;
	__typeof__(json_object_iter) *object_iter;
	__typeof__(json_object_iter_next) *object_iter_next;
	__typeof__(json_object_iter_key) *object_iter_key;
	__typeof__(json_object_iter_key_len) *object_iter_key_len;
	__typeof__(json_object_iter_value) *object_iter_value;
	__typeof__(json_object_size) *object_size;
	__typeof__(json_array_size) *array_size;
	__typeof__(json_array_get) *array_get;
	__typeof__(json_string_value) *string_value;
	__typeof__(json_string_length) *string_length;
	__typeof__(json_integer_value) *integer_value;
	__typeof__(json_real_value) *real_value;
} jansson;

static void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);
	if (p)
		return p;
	fprintf(stderr, "jansson has no %s\n", name);
	abort();
}

static void load(void)
{
	void *lib = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "the oracle is missing (package libjansson4): %s\n", dlerror());
		abort();
	}
	jansson.loadb = symbol(lib, "json_loadb");
	jansson.discard = symbol(lib, "json_delete");
	jansson.object_iter = symbol(lib, "json_object_iter");
	jansson.object_iter_next = symbol(lib, "json_object_iter_next");
	jansson.object_iter_key = symbol(lib, "json_object_iter_key");
	jansson.object_iter_key_len = symbol(lib, "json_object_iter_key_len");
	jansson.object_iter_value = symbol(lib, "json_object_iter_value");
	jansson.object_size = symbol(lib, "json_object_size");
	jansson.array_size = symbol(lib, "json_array_size");
	jansson.array_get = symbol(lib, "json_array_get");
	jansson.string_value = symbol(lib, "json_string_value");
	jansson.string_length = symbol(lib, "json_string_length");
	jansson.integer_value = symbol(lib, "json_integer_value");
	jansson.real_value = symbol(lib, "json_real_value");
}

static void dump(struct buf *out, json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		buf_printf(out, "object %zu\n", jansson.object_size(j));
		for (void *it = jansson.object_iter(j); it; it = jansson.object_iter_next(j, it)) {
			buf_printf(out, "key %zu ", jansson.object_iter_key_len(it));
			buf_add(out, jansson.object_iter_key(it), jansson.object_iter_key_len(it));
			buf_add_c(out, "\n");
			dump(out, jansson.object_iter_value(it));
		}
		break;
	case JSON_ARRAY:
		buf_printf(out, "array %zu\n", jansson.array_size(j));
		for (size_t i = 0; i < jansson.array_size(j); i++)
			dump(out, jansson.array_get(j, i));
		break;
	case JSON_STRING:
		buf_printf(out, "string %zu ", jansson.string_length(j));
		buf_add(out, jansson.string_value(j), jansson.string_length(j));
		buf_add_c(out, "\n");
		break;
	case JSON_INTEGER:
		buf_printf(out, "integer %lld\n", (long long)jansson.integer_value(j));
		break;
	case JSON_REAL:
		buf_printf(out, "real %a\n", jansson.real_value(j));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
	case JSON_NULL:
		buf_add_c(out, json_is_null(j) ? "null\n" : json_is_true(j) ? "true\n" : "false\n");
		break;
	}
}

enum oracle_verdict json_oracle(struct str text, struct buf *ret)
{
	if (!jansson.loadb)
		load();
	json_error_t error;
	json_t *j = jansson.loadb(
		text.n ? text.p : "", text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
	if (!j) {
		enum json_error_code code = json_error_code(&error);
		bool range = code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
		return range ? ORACLE_REFUSES_RANGE : ORACLE_REFUSES;
	}
	dump(ret, j);
	jansson.discard(j);
	return ORACLE_ACCEPTS;
}
