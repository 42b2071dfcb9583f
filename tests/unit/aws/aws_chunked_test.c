#include "aws/aws_chunked.h"

#include "test.h"

#define SIGNATURE ";chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"

static bool feed(struct aws_chunked *c, struct str in, size_t step, struct buf *out)
{
	for (size_t at = 0; at < in.n; at += step)
		if (!aws_chunked_feed(c, str_n(in.p + at, in.n - at < step ? in.n - at : step), out))
			return false;
	return true;
}

TEST(bodies_in_pieces_of_any_length)
{
	static const struct str body = STR("5" SIGNATURE "\r\nhello\r\nA" SIGNATURE "\r\n0\r\n\r\n 1234\r\n0" SIGNATURE
					   "\r\nx-amz-checksum-crc32:aaaa\r\n\r\n");
	for (size_t step = 1; step <= body.n; step++) {
		struct aws_chunked c = {0};
		auto_buf struct buf out = {0};
		CHECK(feed(&c, body, step, &out));
		CHECK(aws_chunked_ended(&c));
		CHECK_INT(c.total, 15);
		CHECK(str_eq(buf_str(&out), STR("hello0\r\n\r\n 1234")));
		CHECK(!aws_chunked_feed(&c, STR("x"), &out));
	}
}

TEST(malformed_bodies_are_refused)
{
	static const char *const bad[] = {"\r\n", "g\r\n", "-1\r\n", "5\nhello", "5\r\nhelloX\r\n", "5\r\nhello\n\n",
		"1000000000000\r\n", "0x5\r\nhello\r\n", " 5\r\nhello\r\n", "5\r\r\nhello"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct aws_chunked c = {0};
		auto_buf struct buf out = {0};
		CHECK(!aws_chunked_feed(&c, str_of(bad[i]), &out));
		CHECK(!aws_chunked_feed(&c, STR("0\r\n\r\n"), &out));
		CHECK(!aws_chunked_ended(&c));
	}
}

TEST(lines_have_a_limit)
{
	struct aws_chunked c = {0};
	auto_buf struct buf out = {0};
	for (size_t i = 0; i < AWS_LINE_MAX; i++)
		CHECK(aws_chunked_feed(&c, i ? STR(";") : STR("5"), &out));
	CHECK(!aws_chunked_feed(&c, STR(";"), &out));
}

TEST_MAIN()
