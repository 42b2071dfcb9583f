/*
 * References and configurations of images: a reference that is accepted is read back as itself, and is a file name that
 * is no path; a configuration that is accepted is written as one that is accepted.
 */
#include "fuzz.h"
#include "images/images.h"

static void check_ref(struct str text)
{
	struct image_ref ref, again;
	struct err e;
	char file[IMAGE_LINK_MAX + 1], name[IMAGE_REF_MAX + 1];
	if (image_ref_parse(text, &ref, &e) < 0)
		return;
	MUST(*ref.name || *ref.key);
	if (!*ref.name)
		return;
	MUST(image_ref_parse(str_of(ref.name), &again, &e) == 0 && strcmp(again.name, ref.name) == 0);
	image_name_encode(ref.name, file);
	MUST(!strchr(file, '/') && *file != '.' && image_name_decode(file, name) && strcmp(name, ref.name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_config struct image_config c = {0}, again = {0};
	auto_buf struct buf text = {0};
	struct err e;
	check_ref(str_n(data, size));
	if (config_read(&c, str_n(data, size), &e) < 0)
		return 0;
	config_write(&c, &text);
	MUST(config_read(&again, buf_str(&text), &e) == 0);
	return 0;
}
