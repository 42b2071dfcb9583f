/*
 * Signed uploads and signatures: any bytes, cut anywhere, come out the same; canonical requests are printable.
 */
#include "aws/aws_chunked.h"
#include "aws/sigv4.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct aws_chunked whole = {0}, cut = {0};
	auto_buf struct buf a = {0}, b = {0}, canonical = {0}, names = {0}, header = {0};
	struct str in = str_n(data, size), query;
	bool ok = aws_chunked_feed(&whole, in, &a), also = true;
	size_t step = size ? 1 + data[0] % 7 : 1;
	for (size_t at = 0; at < size && also; at += step)
		also = aws_chunked_feed(&cut, str_n(data + at, size - at < step ? size - at : step), &b);
	MUST(ok == also && str_eq(buf_str(&a), buf_str(&b)) && whole.total == buf_size(&a));
	MUST(aws_chunked_ended(&whole) == aws_chunked_ended(&cut));
	struct aws_header h = {STR("host"), STR("h")};
	struct aws_request r = {.method = STR("GET"),
		.path = str_split(in, '?', &query),
		.headers = &h,
		.headers_n = 1,
		.payload = STR("P"),
		.date = "20150830T123600Z"};
	r.query = query;
	if (!aws_canonical(&r, size & 1, &canonical, &names))
		return 0;
	for (size_t i = 0; i < buf_size(&canonical); i++)
		MUST(canonical.p[canonical.off + i] == '\n' ||
			(canonical.p[canonical.off + i] > ' ' && canonical.p[canonical.off + i] < 0x7f));
	struct aws_key k = {STR("id"), STR("secret"), STR("r"), STR("s3")};
	MUST(aws_sign(&k, &r, &header));
	return 0;
}
