#include "base/buf.h"
#include "capnweb/capnweb.h"
#include "test.h"

/* Values that are written as expressions. */

TEST(a_long_text_with_many_escapes_is_read_once)
{
	auto_buf struct buf in = {0}, out = {0};
	buf_add_c(&in, "[\"");
	for (unsigned i = 0; i < 8 * MIB; i++)
		buf_add_c(&in, i % 2 ? "\\n" : "\\\"");
	buf_add_c(&in, "[\"]");
	/* A search for its end from each escape would take hours. */
	capnweb_put_json(&out, buf_str(&in));
	CHECK_INT(buf_size(&out), buf_size(&in) + 2);
	CHECK_STR(str_n(buf_str(&out).p, 6), "[[\"\\\"\\");
	CHECK_STR(str_skip(buf_str(&out), buf_size(&out) - 4), "[\"]]");
}

TEST(bytes_and_json_are_written_as_expressions)
{
	auto_buf struct buf b = {0};
	capnweb_put_json(&b, STR("{\"a\":[1,\"[x]\\\"]\",[]],\"b\\\\\":[]}"));
	CHECK_STR(buf_str(&b), "{\"a\":[[1,\"[x]\\\"]\",[[]]]],\"b\\\\\":[[]]}");
	buf_clear(&b);
	capnweb_put_bytes(&b, STR("a"));
	capnweb_put_bytes(&b, STR(""));
	capnweb_put_date(&b, -5);
	CHECK_STR(buf_str(&b), "[\"bytes\",\"YQ\"][\"bytes\",\"\"][\"date\",-5]");
}

TEST_MAIN()
