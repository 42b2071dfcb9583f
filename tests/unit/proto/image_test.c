#include "proto/image.h"

#include "test.h"

static const char *canonical(const char *text)
{
	static struct image_ref ref;
	struct err e;
	return image_ref_parse(str_of(text), &ref, &e) < 0 ? "refused" : ref.name;
}

TEST(references_have_one_form)
{
	CHECK_CSTR(canonical("mytools"), "mytools:latest");
	CHECK_CSTR(canonical("mytools:2"), "mytools:2");
	CHECK_CSTR(canonical("docker.io/library/alpine:3.19"), "alpine:3.19");
	CHECK_CSTR(canonical("docker.io/cloudflare/sandbox:0.12.10"), "cloudflare/sandbox:0.12.10");
	CHECK_CSTR(canonical("registry.example:5000/team/app"), "registry.example:5000/team/app:latest");
}

TEST(references_that_are_none)
{
	static const char *const bad[] = {"", "A", "a b", "../a", "/a", "a/", "a//b", "a:", "a:-x", "a:b:c/",
		"a@sha256:12", "sha256:xyz", "a@md5:0123456789abcdef", "-a", "a\n"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_CSTR(canonical(bad[i]), "refused");
	char longest[IMAGE_REF_MAX + 10];
	memset(longest, 'a', sizeof longest);
	longest[IMAGE_REF_MAX - sizeof ":latest"] = 0;
	CHECK(strcmp(canonical(longest), "refused") != 0);
	longest[IMAGE_REF_MAX - sizeof ":latest"] = 'a';
	longest[IMAGE_REF_MAX - sizeof ":latest" + 1] = 0;
	CHECK_CSTR(canonical(longest), "refused");
}

TEST(digests_become_keys)
{
	struct image_ref ref;
	struct err e;
	CHECK_INT(image_ref_parse(STR("sha256:0123456789abcdef"), &ref, &e), 0);
	CHECK_CSTR(ref.key, "sha256-0123456789abcdef");
	CHECK_CSTR(ref.name, "");
	CHECK_INT(image_ref_parse(
			  STR("a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"), &ref, &e),
		0);
	CHECK_INT(strlen(ref.key), BOX_IMAGE_NAME_MAX);
	CHECK(image_key_made_here(str_of(ref.key)));
	CHECK(!image_key_made_here(STR("default")));
}

TEST(names_survive_as_file_names)
{
	char file[IMAGE_LINK_MAX + 1], name[IMAGE_REF_MAX + 1];
	image_name_encode("registry.example:5000/team/app:1", file);
	CHECK(!strchr(file, '/'));
	CHECK(image_name_decode(file, name));
	CHECK_CSTR(name, "registry.example:5000/team/app:1");
	CHECK(!image_name_decode("a%zz", name));
}

TEST(layer_lines_are_digests_or_names)
{
	struct str rest = STR(IMAGE_EMPTY_LAYER "\ntiny\n../x\n"), line;
	bool ok = false;
	CHECK(image_layer_next(&rest, &line, &ok) && ok);
	CHECK(image_layer_next(&rest, &line, &ok) && ok);
	CHECK(image_layer_next(&rest, &line, &ok) && !ok);
	CHECK(!image_layer_next(&rest, &line, &ok));
}

TEST_MAIN()
