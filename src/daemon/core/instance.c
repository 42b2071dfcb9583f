#include "daemon/core/instance.h"

#define GB 1000000000ull

/* https://developers.cloudflare.com/containers/platform-details/limits/ */
static const struct instance table[] = {
	{"lite", {.mem_bytes = 256 * MIB, .cpu_milli = 63}, 2 * GB},
	{"basic", {.mem_bytes = 1024 * MIB, .cpu_milli = 250}, 4 * GB},
	{"standard-1", {.mem_bytes = 4096ull * MIB, .cpu_milli = 500}, 8 * GB},
	{"standard-2", {.mem_bytes = 6144ull * MIB, .cpu_milli = 1000}, 12 * GB},
	{"standard-3", {.mem_bytes = 8192ull * MIB, .cpu_milli = 2000}, 16 * GB},
	{"standard-4", {.mem_bytes = 12288ull * MIB, .cpu_milli = 4000}, 20 * GB},
};

const struct instance *instance_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (str_eq_c(name, table[i].name))
			return &table[i];
	return NULL;
}

int instance_check(const struct json *value, struct err *e)
{
	if (value->type == JSON_T_STRING && instance_find(value->text))
		return 0;
	return err_field(e, "instance",
		"field 'instance' must be lite, basic, standard-1, standard-2, standard-3 or standard-4");
}
