#include "base/base64.h"
#include "test.h"

#include <stdlib.h>

static bool decode(const char *text, struct buf *out)
{
	struct base64_decoder d = {0};
	return base64_decode(&d, str_of(text), out) && base64_finish(&d);
}

TEST(the_vectors_of_the_rfc)
{
	static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
	static const char *const coded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
	for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
		auto_buf struct buf out = {0}, back = {0};
		base64_append(&out, str_of(plain[i]));
		CHECK_STR(buf_str(&out), coded[i]);
		CHECK(decode(coded[i], &back));
		CHECK_STR(buf_str(&back), plain[i]);
	}
}

TEST(what_is_not_base64_is_refused)
{
	static const char *const bad[] = {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "=", "====", "Zg==Zg==", "Zm9v\n",
		"Zm 9v", "Zm9-", "Z=9v", "Zm9v="};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_buf struct buf out = {0};
		if (decode(bad[i], &out))
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
	}
}

TEST(every_way_to_cut_a_text_gives_the_same_bytes)
{
	unsigned char bytes[100];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)(i * 37);
	auto_buf struct buf text = {0};
	base64_append(&text, str_n(bytes, sizeof bytes));
	for (size_t cut = 0; cut <= buf_size(&text); cut++) {
		struct base64_decoder d = {0};
		auto_buf struct buf out = {0};
		CHECK(base64_decode(&d, str_n(buf_str(&text).p, cut), &out));
		CHECK(base64_decode(&d, str_skip(buf_str(&text), cut), &out));
		CHECK(base64_finish(&d));
		CHECK_MEM(buf_str(&out).p, buf_size(&out), (char *)bytes, sizeof bytes);
	}
}

TEST_MAIN()
