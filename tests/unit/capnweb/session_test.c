#include <stdlib.h>

#include "base/buf.h"
#include "capnweb/capnweb.h"
#include "capnweb/limits.h"
#include "test.h"

/* A session with a peer that is this file: frames are written out, and what comes back is compared. */

static struct buf sent;
static char ended[600];
static struct capnweb_call *held[8];
static size_t held_n;
static int dropped;
static int64_t stub;
static struct capnweb_stream *out_stream;
static bool ready, cancelled;
static struct buf got;
static int done = -1;
static bool takes = true;
static bool full; /* the transport */
static struct capnweb_pipe *in_pipe;

static bool on_send(void *arg, struct str frame)
{
	(void)arg;
	if (buf_size(&sent))
		buf_add_byte(&sent, ' ');
	buf_add_str(&sent, frame);
	return !full;
}

static void on_ready(void *arg)
{
	(void)arg;
	ready = true;
}

static void on_cancel(void *arg)
{
	(void)arg;
	cancelled = true;
}

static bool on_chunk(void *arg, struct str bytes)
{
	(void)arg;
	buf_add_str(&got, bytes);
	return takes;
}

static void on_done(void *arg, bool complete)
{
	(void)arg;
	done = complete;
}

static const struct capnweb_stream_ops stream_ops = {.on_ready = on_ready, .on_cancel = on_cancel};
static const struct capnweb_pipe_ops pipe_ops = {.on_chunk = on_chunk, .on_done = on_done};

static void answer_echo(struct capnweb_call *c)
{
	auto_buf struct buf plain = {0}, wire = {0};
	capnweb_plain(&plain, capnweb_call_arg(c, 0));
	capnweb_put_json(&wire, buf_str(&plain));
	capnweb_resolve(c, buf_str(&wire));
}

static void on_call(void *arg, struct capnweb_call *c, void *object, const char *method)
{
	struct capnweb *s = capnweb_call_session(c);
	struct capnweb_answer a = {0};
	(void)arg;
	if (object) {
		buf_printf(&a.text, "\"%s of %s\"", method, (char *)object);
		capnweb_resolve_answer(c, &a);
	} else if (strcmp(method, "echo") == 0) {
		answer_echo(c);
	} else if (strcmp(method, "mebibyte") == 0) {
		memset(buf_room(&a.text, MIB), '1', MIB);
		buf_commit(&a.text, MIB);
		capnweb_resolve_answer(c, &a);
	} else if (strcmp(method, "hold") == 0) {
		held[held_n++] = c;
	} else if (strcmp(method, "thing") == 0) {
		buf_add_c(&a.text, "{\"it\":");
		capnweb_answer_object(&a, s, "thing");
		buf_add_c(&a.text, "}");
		capnweb_resolve_answer(c, &a);
	} else if (strcmp(method, "stream") == 0) {
		out_stream = capnweb_stream_new(s, &stream_ops, NULL);
		capnweb_answer_stream(&a, out_stream);
		capnweb_resolve_answer(c, &a);
	} else if (strcmp(method, "pipe") == 0) {
		in_pipe = capnweb_take_pipe(c, capnweb_call_arg(c, 0));
		CHECK(in_pipe != NULL);
		capnweb_pipe_start(in_pipe, &pipe_ops, NULL);
		held[held_n++] = c;
	} else if (strcmp(method, "stub") == 0) {
		stub = capnweb_take_stub(c, capnweb_call_arg(c, 0));
		capnweb_resolve(c, STR("1"));
	} else {
		capnweb_reject(c, "TypeError", STR("no such method"), STR("{\"code\":\"NONE\"}"));
	}
}

static bool has_object(void *arg, const char *path)
{
	(void)arg;
	return strcmp(path, "room") == 0;
}

static void on_drop(void *arg, void *object)
{
	(void)arg;
	(void)object;
	dropped++;
}

static void on_end(void *arg, const char *reason)
{
	(void)arg;
	snprintf(ended, sizeof ended, "%s", reason);
}

static const struct capnweb_ops ops = {
	.send = on_send, .on_call = on_call, .has_object = has_object, .on_drop = on_drop, .on_end = on_end};

/* Frames in one text, with blanks between; none of them holds one. */
static void feed(struct capnweb *s, const char *frames)
{
	struct str rest = str_of(frames);
	while (rest.n)
		capnweb_frame(s, str_split(rest, ' ', &rest));
}

static void expect(struct capnweb *s, const char *frames, const char *want)
{
	buf_clear(&sent);
	feed(s, frames);
	CHECK_STR(buf_str(&sent), want);
}

TEST(a_call_is_answered_when_it_is_pulled)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	expect(s, "[\"push\",[\"pipeline\",0,[\"echo\"],[{\"a\":[[1,[[]],[\"undefined\"]]],\"b\":[\"undefined\"]}]]]",
		"");
	expect(s, "[\"pull\",1]", "[\"resolve\",1,{\"a\":[[1,[[]],null]]}]");
	expect(s, "[\"pull\",1]", "");
	CHECK_INT(capnweb_live(s), 1);
	expect(s, "[\"release\",1,1]", "");
	CHECK_INT(capnweb_live(s), 0);
	expect(s, "[\"push\",[\"pipeline\",0,[\"no\"],[]]] [\"pull\",2]",
		"[\"reject\",2,[\"error\",\"TypeError\",\"no such method\",null,{\"code\":\"NONE\"}]]");
	capnweb_free(s);
}

TEST(calls_on_results_that_are_not_there_wait)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	/* 2 is a property of 1, 3 a call with 2 as its argument, 4 a map over 1. */
	expect(s,
		"[\"push\",[\"pipeline\",0,[\"hold\"],[]]] [\"push\",[\"pipeline\",1,[\"a\",1]]] "
		"[\"push\",[\"pipeline\",0,[\"echo\"],[{\"x\":[\"pipeline\",2]}]]] "
		"[\"push\",[\"remap\",1,[\"a\"],[],[{\"n\":[\"pipeline\",0]}]]] [\"pull\",3] [\"pull\",4]",
		"");
	buf_clear(&sent);
	capnweb_resolve(held[0], STR("{\"a\":[[\"x\",\"y\"]]}"));
	CHECK_STR(buf_str(&sent), "[\"resolve\",4,[[{\"n\":\"x\"},{\"n\":\"y\"}]]] [\"resolve\",3,{\"x\":\"y\"}]");
	expect(s, "[\"push\",[\"pipeline\",1,[\"a\",9]]] [\"pull\",5]", "[\"resolve\",5,[\"undefined\"]]");
	expect(s, "[\"push\",[\"pipeline\",1,[\"b\",\"c\"]]] [\"pull\",6]",
		"[\"reject\",6,[\"error\",\"TypeError\",\"Cannot read properties of undefined (reading 'c')\"]]");
	expect(s, "[\"push\",[\"pipeline\",1,[\"a\"],[1]]] [\"pull\",7]",
		"[\"reject\",7,[\"error\",\"TypeError\",\"'a' is not a function.\"]]");
	capnweb_free(s);
}

TEST(objects_live_until_the_peer_lets_go)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	expect(s,
		"[\"push\",[\"pipeline\",0,[\"thing\"],[]]] [\"push\",[\"pipeline\",1,[\"it\",\"say\"],[]]] "
		"[\"pull\",2]",
		"[\"resolve\",2,\"say of thing\"]");
	expect(s, "[\"pull\",1] [\"release\",1,1]", "[\"resolve\",1,{\"it\":[\"export\",-1]}]");
	CHECK_INT(dropped, 0);
	expect(s, "[\"push\",[\"pipeline\",-1,[\"go\"],[]]] [\"pull\",3]", "[\"resolve\",3,\"go of thing\"]");
	expect(s, "[\"push\",[\"pipeline\",0,[\"room\"]]] [\"pull\",4]", "[\"resolve\",4,[\"export\",-2]]");
	expect(s, "[\"push\",[\"pipeline\",-2,[\"echo\"],[]]] [\"pull\",5]",
		"[\"reject\",5,[\"error\",\"TypeError\",\"no such method\",null,{\"code\":\"NONE\"}]]");
	feed(s, "[\"release\",-1,1]");
	CHECK_INT(dropped, 1);
	capnweb_free(s);
}

TEST(a_stream_to_the_peer_waits_for_acknowledgements)
{
	static char chunk[CAPNWEB_WINDOW];
	struct capnweb *s = capnweb_new(&ops, NULL);
	feed(s, "[\"push\",[\"pipeline\",0,[\"stream\"],[]]]");
	CHECK(!ready);
	expect(s, "[\"pull\",1]", "[\"pipe\"] [\"resolve\",1,[\"readable\",1]]");
	CHECK(ready);
	buf_clear(&sent);
	CHECK(capnweb_stream_write(out_stream, STR("ab")));
	CHECK_STR(buf_str(&sent), "[\"stream\",[\"pipeline\",1,[\"write\"],[[\"bytes\",\"YWI\"]]]]");
	ready = false;
	memset(chunk, '1', sizeof chunk);
	CHECK(!capnweb_stream_put(out_stream, str_n(chunk, sizeof chunk)));
	feed(s, "[\"resolve\",2,[\"undefined\"]]");
	CHECK(!ready);
	feed(s, "[\"resolve\",3,[\"undefined\"]]");
	CHECK(ready);
	buf_clear(&sent);
	capnweb_stream_end(out_stream, NULL);
	CHECK_STR(buf_str(&sent), "[\"stream\",[\"pipeline\",1,[\"close\"],[]]]");
	expect(s, "[\"resolve\",4,[\"undefined\"]]", "[\"release\",1,1]");
	CHECK(!cancelled);
	feed(s, "[\"push\",[\"pipeline\",0,[\"stream\"],[]]] [\"pull\",2]");
	capnweb_stream_write(out_stream, STR("x"));
	expect(s, "[\"reject\",6,[\"error\",\"Error\",\"enough\"]]", "[\"release\",5,1]");
	CHECK(cancelled);
	/* One that is released before it was asked for. */
	cancelled = false;
	feed(s, "[\"push\",[\"pipeline\",0,[\"stream\"],[]]] [\"release\",3,1]");
	CHECK(cancelled);
	capnweb_free(s);
}

/* How many frames were sent since the last time. */
static size_t frames_sent(void)
{
	size_t n = 0;
	struct str rest = buf_str(&sent);
	while (rest.n) {
		str_split(rest, ' ', &rest);
		n++;
	}
	buf_clear(&sent);
	return n;
}

TEST(a_stream_gathers_bytes_while_much_is_not_acknowledged)
{
	static char chunk[CAPNWEB_EAGER];
	struct capnweb *s = capnweb_new(&ops, NULL);
	feed(s, "[\"push\",[\"pipeline\",0,[\"stream\"],[]]] [\"pull\",1]");
	frames_sent();
	/* A quiet stream: nothing waits. */
	CHECK(capnweb_stream_write(out_stream, STR("a")));
	CHECK(capnweb_stream_write(out_stream, STR("b")));
	CHECK_INT(frames_sent(), 2);
	CHECK(capnweb_stream_write(out_stream, str_n(chunk, sizeof chunk)));
	CHECK_INT(frames_sent(), 1);
	/* Much is on its way: gathered, up to a piece. */
	for (size_t n = 0; n + sizeof chunk < CAPNWEB_PIECE; n += sizeof chunk) {
		CHECK(capnweb_stream_write(out_stream, str_n(chunk, sizeof chunk)));
		CHECK_INT(frames_sent(), 0);
	}
	CHECK(capnweb_stream_write(out_stream, str_n(chunk, sizeof chunk)));
	CHECK_INT(frames_sent(), 1);
	CHECK(capnweb_stream_write(out_stream, STR("ab")));
	CHECK_INT(frames_sent(), 0);
	/* The peer has caught up: the rest goes out without another write. */
	feed(s, "[\"resolve\",2,[\"undefined\"]] [\"resolve\",3,[\"undefined\"]] [\"resolve\",4,[\"undefined\"]]");
	CHECK_INT(frames_sent(), 0);
	expect(s, "[\"resolve\",5,[\"undefined\"]]", "[\"stream\",[\"pipeline\",1,[\"write\"],[[\"bytes\",\"YWI\"]]]]");
	capnweb_free(s);
}

TEST(no_write_of_a_stream_has_more_than_a_piece)
{
	static char chunk[3 * CAPNWEB_PIECE + 1];
	struct capnweb *s = capnweb_new(&ops, NULL);
	feed(s, "[\"push\",[\"pipeline\",0,[\"stream\"],[]]] [\"pull\",1]");
	frames_sent();
	/* A quiet stream does not keep the rest back, a busy one does. */
	capnweb_stream_write(out_stream, str_n(chunk, sizeof chunk));
	CHECK(buf_size(&sent) > 4 * CAPNWEB_PIECE);
	CHECK_INT(frames_sent(), 4);
	capnweb_stream_write(out_stream, str_n(chunk, sizeof chunk));
	CHECK_INT(frames_sent(), 3);
	capnweb_stream_write(out_stream, str_n(chunk, CAPNWEB_PIECE - 2));
	CHECK_INT(frames_sent(), 0);
	capnweb_stream_write(out_stream, str_n(chunk, 1));
	CHECK_INT(frames_sent(), 1);
	capnweb_free(s);
}

TEST(gathered_bytes_go_before_a_value_and_before_the_end)
{
	static char chunk[CAPNWEB_EAGER];
	struct capnweb *s = capnweb_new(&ops, NULL);
	feed(s, "[\"push\",[\"pipeline\",0,[\"stream\"],[]]] [\"pull\",1]");
	capnweb_stream_write(out_stream, str_n(chunk, sizeof chunk));
	frames_sent();
	capnweb_stream_write(out_stream, STR("ab"));
	capnweb_stream_put(out_stream, STR("1"));
	CHECK_STR(buf_str(&sent), "[\"stream\",[\"pipeline\",1,[\"write\"],[[\"bytes\",\"YWI\"]]]] "
				  "[\"stream\",[\"pipeline\",1,[\"write\"],[1]]]");
	frames_sent();
	capnweb_stream_write(out_stream, STR("ab"));
	capnweb_stream_end(out_stream, "broken");
	CHECK_STR(buf_str(&sent), "[\"stream\",[\"pipeline\",1,[\"write\"],[[\"bytes\",\"YWI\"]]]] "
				  "[\"stream\",[\"pipeline\",1,[\"abort\"],[[\"error\",\"Error\",\"broken\"]]]]");
	capnweb_free(s);
}

TEST(gathered_bytes_of_a_refused_stream_are_dropped)
{
	static char chunk[CAPNWEB_EAGER];
	struct capnweb *s = capnweb_new(&ops, NULL);
	cancelled = false;
	feed(s, "[\"push\",[\"pipeline\",0,[\"stream\"],[]]] [\"pull\",1]");
	capnweb_stream_write(out_stream, str_n(chunk, sizeof chunk));
	capnweb_stream_write(out_stream, STR("ab"));
	frames_sent();
	expect(s, "[\"reject\",2,[\"error\",\"Error\",\"enough\"]]", "[\"release\",1,1]");
	CHECK(cancelled);
	capnweb_free(s);
}

TEST(a_stream_from_the_peer_is_acknowledged_as_it_is_taken)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	takes = false;
	expect(s,
		"[\"pipe\"] [\"push\",[\"pipeline\",0,[\"pipe\"],[[\"readable\",1]]]] "
		"[\"stream\",[\"pipeline\",1,[\"write\"],[[\"bytes\",\"YWI\"]]]] "
		"[\"stream\",[\"pipeline\",1,[\"write\"],[\"cd\"]]] "
		"[\"stream\",[\"pipeline\",1,[\"close\"],[]]]",
		"");
	CHECK_STR(buf_str(&got), "ab");
	capnweb_pipe_resume(in_pipe);
	CHECK_STR(buf_str(&sent), "[\"resolve\",3,[\"undefined\"]]");
	CHECK_STR(buf_str(&got), "abcd");
	CHECK_INT(done, -1);
	capnweb_pipe_resume(in_pipe);
	CHECK_INT(done, 1);
	expect(s, "[\"release\",1,1]", "");
	capnweb_resolve(held[0], STR("4"));
	/* Bytes that are none, and an end without a close. */
	takes = true;
	done = -1;
	feed(s, "[\"pipe\"] [\"push\",[\"pipeline\",0,[\"pipe\"],[[\"readable\",6]]]]");
	expect(s, "[\"stream\",[\"pipeline\",6,[\"write\"],[[\"bytes\",\"!\"]]]]",
		"[\"reject\",8,[\"error\",\"Error\",\"a chunk must be bytes or text\"]]");
	CHECK_INT(done, 0);
	done = -1;
	feed(s, "[\"pipe\"] [\"push\",[\"pipeline\",0,[\"pipe\"],[[\"readable\",9]]]] [\"release\",9,1]");
	CHECK_INT(done, 0);
	capnweb_free(s);
}

static int replies;
static void on_reply(void *arg, bool ok, const struct json *value)
{
	(void)arg;
	replies += ok && value && value->type == JSON_T_STRING ? 1 : 100;
}

TEST(objects_of_the_peer_are_called_and_released)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	feed(s, "[\"push\",[\"pipeline\",0,[\"stub\"],[[\"export\",-1]]]]");
	CHECK_INT(stub, -1);
	buf_clear(&sent);
	capnweb_call_peer(s, stub, NULL, STR("1,2"), on_reply, NULL);
	CHECK_STR(buf_str(&sent), "[\"push\",[\"pipeline\",-1,[],[1,2]]] [\"pull\",1]");
	expect(s, "[\"resolve\",1,\"yes\"]", "[\"release\",1,1]");
	CHECK_INT(replies, 1);
	buf_clear(&sent);
	capnweb_release_stub(s, stub);
	CHECK_STR(buf_str(&sent), "[\"release\",-1,1]");
	/* A promise of the peer as an argument. */
	expect(s, "[\"push\",[\"pipeline\",0,[\"echo\"],[[\"promise\",-2]]]] [\"pull\",2]", "");
	expect(s, "[\"resolve\",-2,7]", "[\"release\",-2,1] [\"resolve\",2,7]");
	capnweb_call_peer(s, 0, "a.b", STR_NULL, on_reply, NULL);
	capnweb_free(s);
	CHECK_INT(replies, 101);
}

TEST(wrong_frames_end_the_session_with_a_reason)
{
	static const char *const bad[] = {"", "{", "1", "[]", "[\"x\"]", "[\"push\"]", "[\"pull\"]", "[\"pull\",1]",
		"[\"release\",3,1]", "[\"release\",0,2]", "[\"release\",0,-1]", "[\"release\",0]", "[\"push\",[]]",
		"[\"push\",[1]]", "[\"push\",[\"what\"]]", "[\"push\",[\"$ref\",0]]", "[\"push\",[\"bytes\",1]]",
		"[\"push\",[\"date\",\"x\"]]", "[\"push\",[\"error\",1,2]]",
		"[\"push\",[\"error\",\"a\",\"b\",null,1]]", "[\"push\",[\"pipeline\"]]", "[\"push\",[\"pipeline\",7]]",
		"[\"push\",[\"pipeline\",0.5]]", "[\"push\",[\"pipeline\",0,[null]]]",
		"[\"push\",[\"pipeline\",0,[],{}]]", "[\"push\",[\"readable\",1]]", "[\"push\",[\"export\",1]]",
		"[\"push\",[\"remap\",0,[],[],1]]", "[\"push\",[\"remap\",0,[],[1],[]]]", "[\"resolve\",1]",
		"[\"resolve\",\"1\",1]", "[\"push\",[\"headers\",[]]]", "[\"abort\",[\"error\",\"Error\",\"bye\"]]"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct capnweb *s = capnweb_new(&ops, NULL);
		ended[0] = '\0';
		capnweb_frame(s, str_of(bad[i]));
		CHECK(strlen(ended) > 5);
		buf_clear(&sent);
		feed(s, "[\"push\",1] [\"pull\",1]");
		CHECK_STR(buf_str(&sent), "");
		capnweb_free(s);
	}
}

TEST(results_that_nobody_releases_are_bounded)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	/* The main object is one. */
	for (int i = 1; i < CAPNWEB_HOOKS_MAX; i++)
		capnweb_frame(s, STR("[\"push\",1]"));
	CHECK_CSTR(ended, "");
	capnweb_frame(s, STR("[\"push\",1]"));
	CHECK(strstr(ended, "too many results") != NULL);
	capnweb_free(s);
}

TEST(bytes_that_are_held_are_bounded)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	auto_buf struct buf b = {0};
	buf_add_c(&b, "[\"push\",\"");
	for (unsigned i = 0; i < MIB; i++)
		buf_add_byte(&b, 'x');
	buf_add_c(&b, "\"]");
	int n = 0;
	for (; !ended[0] && n < 200; n++)
		capnweb_frame(s, buf_str(&b));
	CHECK(n > 10 && n <= (int)(CAPNWEB_HELD_MAX / MIB));
	CHECK(strstr(ended, "too many bytes") != NULL);
	capnweb_free(s);
}

TEST(answers_that_are_held_are_bounded)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	const char *call = "[\"push\",[\"pipeline\",0,[\"mebibyte\"],[]]]";
	for (unsigned i = 0; i < CAPNWEB_ANSWERS_MAX / MIB; i++)
		feed(s, call);
	CHECK_CSTR(ended, "");
	feed(s, "[\"release\",1,1]");
	feed(s, call);
	CHECK_CSTR(ended, "");
	feed(s, call);
	CHECK(strstr(ended, "too many bytes") != NULL);
	capnweb_free(s);
}

TEST(a_transport_that_is_full_gets_one_result_at_a_time)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	feed(s, "[\"push\",[\"pipeline\",0,[\"hold\"],[]]]");
	for (int i = 2; i < 5; i++) {
		char frames[100];
		snprintf(frames, sizeof frames, "[\"push\",[\"pipeline\",1,[]]] [\"pull\",%d]", i);
		feed(s, frames);
	}
	full = true;
	capnweb_resolve(held[0], STR("\"long\""));
	CHECK_STR(buf_str(&sent), "[\"resolve\",2,\"long\"]");
	buf_clear(&sent);
	capnweb_writable(s);
	CHECK_STR(buf_str(&sent), "[\"resolve\",3,\"long\"]");
	buf_clear(&sent);
	full = false;
	capnweb_writable(s);
	CHECK_STR(buf_str(&sent), "[\"resolve\",4,\"long\"]");
	capnweb_free(s);
}

TEST(calls_that_are_not_answered_are_bounded)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	for (int i = 0; i < CAPNWEB_CALLS_MAX; i++) {
		held_n = 0;
		feed(s, "[\"push\",[\"pipeline\",0,[\"hold\"],[]]]");
	}
	CHECK_INT(capnweb_calls(s), CAPNWEB_CALLS_MAX);
	char frames[100];
	snprintf(frames, sizeof frames, "[\"push\",[\"pipeline\",0,[\"echo\"],[1]]] [\"pull\",%d]",
		CAPNWEB_CALLS_MAX + 1);
	buf_clear(&sent);
	feed(s, frames);
	CHECK(str_starts(buf_str(&sent), STR("[\"reject\",")));
	CHECK_CSTR(ended, "");
	capnweb_free(s);
}

/* `names` names in a path, or `instructions` over `elements`. */
static bool rejected(struct capnweb *s, const char *frame, int id)
{
	char pull[40];
	buf_clear(&sent);
	capnweb_frame(s, str_of(frame));
	snprintf(pull, sizeof pull, "[\"pull\",%d]", id);
	capnweb_frame(s, str_of(pull));
	return str_starts(buf_str(&sent), STR("[\"reject\",")) || ended[0];
}

static void put_names(struct buf *b, int n)
{
	buf_clear(b);
	buf_add_c(b, "[\"push\",[\"pipeline\",0,[");
	for (int i = 0; i < n; i++)
		buf_printf(b, "%s\"a\"", i ? "," : "");
	buf_add_c(b, "]]]");
}

TEST(paths_and_mappers_are_bounded)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	auto_buf struct buf b = {0};
	put_names(&b, CAPNWEB_PATH_MAX);
	CHECK(!rejected(s, buf_cstr(&b), 1));
	buf_clear(&b);
	buf_add_c(&b, "[\"push\",[[1");
	for (int i = 1; i < CAPNWEB_MAP_MAX; i++)
		buf_add_c(&b, ",1");
	buf_add_c(&b, "]]]");
	capnweb_frame(s, buf_str(&b));
	CHECK(rejected(s, "[\"push\",[\"remap\",2,[],[],[[\"pipeline\",0],1]]]", 3));
	CHECK_CSTR(ended, "");
	put_names(&b, CAPNWEB_PATH_MAX + 1);
	CHECK(rejected(s, buf_cstr(&b), 4));
	capnweb_free(s);
}

/* Pushes an array of n numbers. */
static void push_numbers(struct capnweb *s, size_t n)
{
	auto_buf struct buf b = {0};
	buf_add_c(&b, "[\"push\",[[1");
	for (size_t i = 1; i < n; i++)
		buf_add_c(&b, ",1");
	buf_add_c(&b, "]]]");
	capnweb_frame(s, buf_str(&b));
}

TEST(values_with_promises_in_them_are_bounded)
{
	enum { NUMBERS = 60000, TIMES = 4 };
	struct capnweb *s = capnweb_new(&ops, NULL);
	char at_limit[200], past[200], frame[240];
	/* Each promise counts, and so do the two arrays around the numbers and around the promises. */
	push_numbers(s, NUMBERS);
	push_numbers(s, CAPNWEB_REPLACED_NODES - 2 - TIMES * (NUMBERS + 3) - 3);
	snprintf(at_limit, sizeof at_limit, "[\"push\",[[%s,%s,%s,%s,%s]]]", "[\"pipeline\",1]", "[\"pipeline\",1]",
		"[\"pipeline\",1]", "[\"pipeline\",1]", "[\"pipeline\",2]");
	snprintf(past, sizeof past, "%.*s,1]]]", (int)strlen(at_limit) - 3, at_limit);
	CHECK(!rejected(s, at_limit, 3));
	for (int i = 0; i < CAPNWEB_TOO_LARGE_MAX; i++) {
		CHECK(rejected(s, past, 4 + i));
		CHECK(strstr(buf_cstr(&sent), "the value is too large") != NULL);
	}
	CHECK_CSTR(ended, "");
	snprintf(frame, sizeof frame, "%s [\"pull\",%d]", past, 4 + CAPNWEB_TOO_LARGE_MAX);
	feed(s, frame);
	CHECK_CSTR(ended, "too many values are too large");
	capnweb_free(s);
}

TEST(a_stream_in_a_value_that_is_too_large_is_cancelled)
{
	enum { NUMBERS = 60000 };
	struct capnweb *s = capnweb_new(&ops, NULL);
	char frame[300];
	cancelled = false;
	push_numbers(s, NUMBERS);
	snprintf(frame, sizeof frame, "[\"push\",[[%s,%s,%s,%s,%s,%s]]]", "[\"pipeline\",0,[\"stream\"],[]]",
		"[\"pipeline\",1]", "[\"pipeline\",1]", "[\"pipeline\",1]", "[\"pipeline\",1]", "[\"pipeline\",1]");
	CHECK(rejected(s, frame, 2));
	CHECK(cancelled);
	CHECK_CSTR(ended, "");
	capnweb_free(s);
}

TEST_MAIN()
