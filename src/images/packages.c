/*
 * The packages of an image: atoll-mover reads the image's own databases in a box, so that nothing of them is parsed
 * outside. Its answer is bounded, and taken apart again: only texts pass. An image that gets a name gets its list
 * beside it (meta/KEY.packages).
 */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
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

/* The mover's list, in a box on the image. */
static int read_in_box(const char *key, struct buf *ret, struct err *e)
{
	static const char *const argv[] = {"packages", NULL};
	auto_work struct work box = {0};
	auto_buf struct buf text = {.max = IMAGE_PACKAGES_MAX};
	struct mover_call m = {.argv = argv, .in = -1, .out = -1, .text = &text};
	if (work_open(&box, e) < 0 || work_box(&box, key, NULL, e) < 0 || work_mover(&box, &m, e) < 0)
		return -1;
	work_drop(&box);
	auto_json struct json_doc *doc = json_parse(buf_str(&text), e);
	if (!doc)
		return err_wrap(e, "the packages of the image");
	struct json_writer w = json_writer(ret);
	json_array_begin(&w);
	json_each(it, json_root(doc)) put_package(&w, it);
	json_array_end(&w);
	return 0;
}

static bool read_kept(const struct store *s, const char *key, struct buf *ret)
{
	char name[BOX_IMAGE_NAME_MAX + 16];
	snprintf(name, sizeof name, "%s.packages", strcmp(key, "default") == 0 ? s->own : key);
	return fd_read_file(s->meta, name, IMAGE_PACKAGES_MAX, ret) == 0;
}

void packages_keep(struct store *s, const char *key)
{
	auto_buf struct buf kept = {.max = IMAGE_PACKAGES_MAX}, text = {.max = IMAGE_PACKAGES_MAX};
	struct err ignored;
	if (!read_kept(s, key, &kept) && read_in_box(key, &text, &ignored) == 0)
		store_packages(s, key, buf_str(&text), &ignored);
}

int packages_put(struct json_writer *w, struct store *s, const char *key, struct err *e)
{
	auto_buf struct buf text = {.max = IMAGE_PACKAGES_MAX};
	if (!read_kept(s, key, &text) && read_in_box(key, &text, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(buf_str(&text), e);
	if (!doc)
		return err_wrap(e, "the packages of the image");
	json_key(w, "packages");
	json_array_begin(w);
	json_each(it, json_root(doc)) put_package(w, it);
	json_array_end(w);
	return 0;
}
