/*
 * The packages of an image: atoll-mover reads the image's own databases in a box, so that nothing of them is parsed
 * outside. Its answer is bounded, and taken apart again: only texts pass.
 */
#include "images/images.h"

static bool text_of(const struct json *object, const char *key, struct str *ret)
{
	const struct json *j = json_get(object, key);
	if (!j || j->type != JSON_T_STRING)
		return false;
	*ret = j->text;
	return true;
}

static void put_package(struct json_writer *w, const struct json *p)
{
	static const char *const keys[] = {"type", "name", "version"};
	struct str text[ARRAY_LEN(keys)];
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!text_of(p, keys[i], &text[i]))
			return;
	json_object_begin(w);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		json_member_str(w, keys[i], text[i]);
	json_object_end(w);
}

int packages_put(struct json_writer *w, struct conn *c, const char *key, struct err *e)
{
	static const char *const argv[] = {"packages", NULL};
	auto_work struct work box = {0};
	auto_buf struct buf text = {.max = SERVICE_PACKAGES_MAX};
	struct mover_call m = {.argv = argv, .in = -1, .out = -1, .text = &text};
	if (work_open(&box, c, e) < 0 || work_box(&box, key, NULL, e) < 0 || work_mover(&box, &m, e) < 0)
		return -1;
	work_drop(&box);
	auto_json struct json_doc *doc = json_parse(buf_str(&text), e);
	if (!doc)
		return err_wrap(e, "the packages of the image");
	json_key(w, "packages");
	json_array_begin(w);
	json_each(it, json_root(doc)) put_package(w, it);
	json_array_end(w);
	return 0;
}
