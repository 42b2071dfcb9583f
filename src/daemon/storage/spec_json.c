#include "daemon/storage/spec_json.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/id.h"

static void write_limits(struct json_writer *w, const struct box_limits *l)
{
	json_key(w, "limits");
	json_object_begin(w);
	json_member_u64(w, "memory", l->mem_bytes);
	json_member_u64(w, "cpuMilli", l->cpu_milli);
	json_member_u64(w, "pids", l->pids);
	json_member_u64(w, "disk", l->disk_bytes);
	json_object_end(w);
}

void spec_json_write(struct json_writer *w, const struct api_spec *spec)
{
	json_member_cstr(w, "image", spec->image);
	write_limits(w, &spec->limits);
	json_member_u64(w, "sleepAfterMs", spec->sleep_after_ms);
	json_member_bool(w, "keepAlive", spec->keep_alive);
	const struct {
		const char *key, *text;
	} parts[] = {
		{"env", spec->env}, {"labels", spec->labels}, {"network", spec->network}, {"settings", spec->settings}};
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		json_key(w, parts[i].key);
		json_raw(w, str_of(parts[i].text));
	}
}

static void read_part(const struct json *root, const char *key, char **ret)
{
	const struct json *j = json_get(root, key);
	auto_buf struct buf text = {0};
	if (!j || j->type != JSON_T_OBJECT)
		return;
	json_put_tree(&text, j);
	free(*ret);
	*ret = str_dup(buf_str(&text));
}

void spec_json_read(const struct json *root, struct api_spec *spec)
{
	const struct json *limits = json_get(root, "limits");
	struct str image = STR_NULL;
	uint64_t cpu = spec->limits.cpu_milli, pids = spec->limits.pids;
	json_read_u64(limits, "memory", 0, UINT64_MAX, &spec->limits.mem_bytes, NULL);
	json_read_u64(limits, "cpuMilli", 0, UINT32_MAX, &cpu, NULL);
	json_read_u64(limits, "pids", 0, UINT32_MAX, &pids, NULL);
	json_read_u64(limits, "disk", 0, UINT64_MAX, &spec->limits.disk_bytes, NULL);
	spec->limits.cpu_milli = (uint32_t)cpu;
	spec->limits.pids = (uint32_t)pids;
	json_read_u64(root, "sleepAfterMs", 0, UINT64_MAX, &spec->sleep_after_ms, NULL);
	json_read_bool(root, "keepAlive", &spec->keep_alive, NULL);
	if (json_read_str(root, "image", &image, NULL) == 0 && box_image_name_ok(image))
		snprintf(spec->image, sizeof spec->image, "%.*s", STR_ARG(image));
	read_part(root, "env", &spec->env);
	read_part(root, "labels", &spec->labels);
	read_part(root, "network", &spec->network);
	read_part(root, "settings", &spec->settings);
}
