/*
 * The examples of AWS's own documentation: the request of S3's "GET Object" and the one of IAM's "ListUsers".
 */
#include "aws/sigv4.h"

#include "test.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct aws_key s3 = {
	STR("AKIAIOSFODNN7EXAMPLE"), STR("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), STR("us-east-1"), STR("s3")};

TEST(get_object)
{
	const struct aws_header h[] = {{STR("host"), STR("examplebucket.s3.amazonaws.com")},
		{STR("range"), STR("bytes=0-9")}, {STR("x-amz-content-sha256"), STR(EMPTY)},
		{STR("x-amz-date"), STR("20130524T000000Z")}};
	struct aws_request r = {.method = STR("GET"),
		.path = STR("/test.txt"),
		.headers = h,
		.headers_n = 4,
		.payload = STR(EMPTY),
		.date = "20130524T000000Z"};
	auto_buf struct buf out = {0};
	CHECK(aws_sign(&s3, &r, &out));
	CHECK_CSTR(buf_cstr(&out),
		"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
		"SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
		"Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(get_lifecycle_with_an_empty_parameter)
{
	const struct aws_header h[] = {{STR("host"), STR("examplebucket.s3.amazonaws.com")},
		{STR("x-amz-content-sha256"), STR(EMPTY)}, {STR("x-amz-date"), STR("20130524T000000Z")}};
	struct aws_request r = {.method = STR("GET"),
		.path = STR("/"),
		.query = STR("lifecycle"),
		.headers = h,
		.headers_n = 3,
		.payload = STR(EMPTY),
		.date = "20130524T000000Z"};
	auto_buf struct buf out = {0};
	CHECK(aws_sign(&s3, &r, &out));
	CHECK(memmem(buf_str(&out).p, buf_str(&out).n,
		"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", 64));
}

TEST(list_users_of_iam)
{
	const struct aws_key key = {
		STR("AKIDEXAMPLE"), STR("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), STR("us-east-1"), STR("iam")};
	const struct aws_header h[] = {{STR("content-type"), STR("application/x-www-form-urlencoded; charset=utf-8")},
		{STR("host"), STR("iam.amazonaws.com")}, {STR("x-amz-date"), STR("20150830T123600Z")}};
	struct aws_request r = {.method = STR("GET"),
		.path = STR("/"),
		.query = STR("Action=ListUsers&Version=2010-05-08"),
		.headers = h,
		.headers_n = 3,
		.payload = STR(EMPTY),
		.date = "20150830T123600Z"};
	auto_buf struct buf out = {0};
	CHECK(aws_sign(&key, &r, &out));
	CHECK(memmem(buf_str(&out).p, buf_str(&out).n,
		"5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7", 64));
}

TEST(canonical_forms)
{
	const struct aws_header h[] = {
		{STR("x-amz-a"), STR("  a   b ")}, {STR("host"), STR("h")}, {STR("x-amz-a"), STR("c")}};
	struct aws_request r = {.method = STR("PUT"),
		.path = STR("/a%2fb/c d~%7e+é"),
		.query = STR("b=2&a=%7e&a=1+x&A=&c"),
		.headers = h,
		.headers_n = 3,
		.payload = STR("P")};
	auto_buf struct buf once = {0}, twice = {0}, names = {0}, again = {0};
	CHECK(aws_canonical(&r, true, &once, &names));
	CHECK_CSTR(buf_cstr(&once),
		"PUT\n/a%2Fb/c%20d~~%2B%C3%A9\nA=&a=1%20x&a=~&b=2&c=\nhost:h\nx-amz-a:a b,c\n\nhost;x-amz-a\nP");
	CHECK(aws_canonical(&r, false, &twice, &again));
	CHECK(strstr(buf_cstr(&twice), "/a%252Fb/c%2520d~~%252B%25C3%25A9\n"));
}

TEST(dates)
{
	char text[AWS_DATE + 1];
	aws_date(1440938160000, text);
	CHECK_CSTR(text, "20150830T123600Z");
}

TEST_MAIN()
