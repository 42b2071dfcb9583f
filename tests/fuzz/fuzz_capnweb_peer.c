/*
 * A capnweb session with a hostile peer that knows the protocol: every byte of the input chooses a frame, an expression
 * or an id, so that frames are well-formed and name each other in every way.
 */
#include "fuzz_capnweb.h"

enum { DEPTH = 4, FRAMES = 400 };

struct source {
	const uint8_t *p, *end;
};

static unsigned pick(struct source *in, unsigned n)
{
	return in->p < in->end ? *in->p++ % n : 0;
}

/* Small, so that they meet. */
static void put_id(struct buf *b, struct source *in)
{
	buf_printf(b, "%d", (int)pick(in, 14) - 4);
}

static void put_path(struct buf *b, struct source *in)
{
	static const char *const names[] = {"\"a\"", "\"b\"", "0", "\"s\"", "\"o\"", "\"h\"", "\"write\"", "\"room\""};
	buf_add_byte(b, '[');
	for (unsigned n = pick(in, 4), i = 0; i < n; i++)
		buf_printf(b, "%s%s", i ? "," : "", names[pick(in, ARRAY_LEN(names))]);
	buf_add_byte(b, ']');
}

static void put_expression(struct buf *b, struct source *in, int depth);

static void put_list(struct buf *b, struct source *in, int depth)
{
	buf_add_byte(b, '[');
	for (unsigned n = pick(in, 4), i = 0; i < n; i++) {
		if (i)
			buf_add_byte(b, ',');
		put_expression(b, in, depth + 1);
	}
	buf_add_byte(b, ']');
}

static void put_object(struct buf *b, struct source *in, int depth)
{
	static const char *const names[] = {"a", "b", "s"};
	buf_add_byte(b, '{');
	for (unsigned n = pick(in, 4), i = 0; i < n; i++) {
		buf_printf(b, "%s\"%s\":", i ? "," : "", names[i]);
		put_expression(b, in, depth + 1);
	}
	buf_add_byte(b, '}');
}

/* ["pipeline",id,path?,args?], or the same with "import". */
static void put_pipeline(struct buf *b, struct source *in, int depth)
{
	buf_printf(b, "[\"%s\",", pick(in, 3) ? "pipeline" : "import");
	put_id(b, in);
	unsigned parts = pick(in, 3);
	if (parts > 0) {
		buf_add_byte(b, ',');
		put_path(b, in);
	}
	if (parts > 1) {
		buf_add_byte(b, ',');
		put_list(b, in, depth);
	}
	buf_add_byte(b, ']');
}

static void put_remap(struct buf *b, struct source *in, int depth)
{
	buf_add_c(b, "[\"remap\",");
	put_id(b, in);
	buf_add_byte(b, ',');
	put_path(b, in);
	buf_add_c(b, ",[");
	for (unsigned n = pick(in, 3), i = 0; i < n; i++) {
		buf_printf(b, "%s[\"%s\",", i ? "," : "", pick(in, 2) ? "import" : "export");
		put_id(b, in);
		buf_add_byte(b, ']');
	}
	buf_add_c(b, "],");
	put_list(b, in, depth);
	buf_add_byte(b, ']');
}

static void put_expression(struct buf *b, struct source *in, int depth)
{
	static const char *const plain[] = {"1", "\"x\"", "null", "[\"undefined\"]", "[\"bytes\",\"AAAA\"]",
		"[\"error\",\"E\",\"m\"]", "\"\\ud800\"", "[\"date\",1e400]"};
	static const char *const sent[] = {"export", "promise", "writable", "readable"};
	unsigned kind = depth > DEPTH ? 0 : pick(in, 12);
	if (kind < 2) {
		buf_add_c(b, plain[pick(in, ARRAY_LEN(plain))]);
	} else if (kind < 4) {
		buf_add_byte(b, '[');
		put_list(b, in, depth);
		buf_add_byte(b, ']');
	} else if (kind < 6) {
		put_object(b, in, depth);
	} else if (kind < 9) {
		put_pipeline(b, in, depth);
	} else if (kind < 11) {
		buf_printf(b, "[\"%s\",", sent[pick(in, ARRAY_LEN(sent))]);
		put_id(b, in);
		buf_add_byte(b, ']');
	} else {
		put_remap(b, in, depth);
	}
}

static void put_frame(struct buf *b, struct source *in)
{
	static const char *const verbs[] = {
		"push", "push", "push", "stream", "pipe", "pull", "pull", "release", "resolve", "resolve", "reject"};
	unsigned kind = pick(in, ARRAY_LEN(verbs));
	buf_printf(b, "[\"%s\"", verbs[kind]);
	if (kind > 4) {
		buf_add_byte(b, ',');
		put_id(b, in);
	}
	if (kind < 4 || kind > 7) {
		buf_add_byte(b, ',');
		put_expression(b, in, 0);
	}
	buf_add_c(b, kind == 7 ? ",1]" : "]");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct app a = {0};
	struct source in = {data, data + size};
	a.s = capnweb_new(&ops, &a);
	for (size_t i = 1; i < FRAMES && in.p < in.end && !a.over; i++) {
		auto_buf struct buf frame = {0};
		put_frame(&frame, &in);
		if (getenv("FUZZ_SHOW"))
			fprintf(stderr, "%s\n", buf_cstr(&frame));
		frame_in(&a, buf_str(&frame), i);
	}
	capnweb_free(a.s);
	return 0;
}
