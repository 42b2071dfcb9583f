#include "base/buf.h"
#include "capnweb/capnweb.h"
#include "capnweb/limits.h"
#include "test.h"

/* Promises, ids and strings of a peer that is hostile or careless. */

static struct buf sent;
static char ended[600];

static bool on_send(void *arg, struct str frame)
{
	(void)arg;
	if (buf_size(&sent))
		buf_add_byte(&sent, ' ');
	buf_add_str(&sent, frame);
	return true;
}

static void on_call(void *arg, struct capnweb_call *c, void *object, const char *method)
{
	(void)arg;
	(void)object;
	(void)method;
	capnweb_resolve(c, STR("1"));
}

static void on_end(void *arg, const char *reason)
{
	(void)arg;
	snprintf(ended, sizeof ended, "%s", reason);
}

static const struct capnweb_ops ops = {.send = on_send, .on_call = on_call, .on_end = on_end};

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

/* Each would be a cycle of references, on which a call, a pull or the clean-up never ends. */
TEST(a_promise_cannot_contain_itself)
{
	static const char *const resolved[] = {"[\"import\",1]", "[\"import\",1,[]]", "[\"export\",-1]",
		"[[1,[\"import\",1]]]", "{\"a\":{\"a\":[\"pipeline\",1,[\"a\"]]}}", "{\"a\":[\"import\",1,[\"a\"]]}",
		"[\"pipeline\",1]", "[\"pipeline\",1,[\"a\"]]"};
	for (size_t i = 0; i < ARRAY_LEN(resolved); i++) {
		struct capnweb *s = capnweb_new(&ops, NULL);
		char frame[200];
		snprintf(frame, sizeof frame, "[\"push\",[\"promise\",-1]] [\"resolve\",-1,%s]", resolved[i]);
		feed(s, frame);
		feed(s, "[\"pull\",1] [\"push\",[\"pipeline\",1,[\"a\",\"a\",\"a\"]]] [\"pull\",2] "
			"[\"push\",[\"pipeline\",1,[\"a\"],[]]] [\"pull\",3] "
			"[\"push\",[\"remap\",1,[\"a\"],[],[[\"pipeline\",0]]]] [\"pull\",4]");
		expect(s, "[\"push\",5] [\"pull\",5]", "[\"resolve\",5,5]");
		CHECK_CSTR(ended, "");
		capnweb_free(s);
	}
}

TEST(a_promise_that_contains_itself_is_an_error)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	expect(s, "[\"push\",[\"promise\",-1]] [\"resolve\",-1,{\"a\":[\"import\",1]}] [\"pull\",1]",
		"[\"release\",-1,1] "
		"[\"reject\",1,[\"error\",\"Error\",\"a promise cannot resolve to a value that contains it\"]]");
	/* The answer of the peer to a call of its own object. */
	expect(s,
		"[\"push\",[\"export\",-2]] [\"push\",[\"pipeline\",2,[],[]]] [\"resolve\",1,[\"import\",3]] "
		"[\"pull\",3]",
		"[\"push\",[\"pipeline\",-2,[],[]]] [\"pull\",1] [\"release\",1,1] "
		"[\"reject\",3,[\"error\",\"Error\",\"a promise cannot resolve to a value that contains it\"]]");
	capnweb_free(s);
}

TEST(an_answer_may_hold_the_id_that_it_is_for)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	expect(s, "[\"reject\",-4,[\"writable\",-4]]", "[\"release\",-4,1]");
	expect(s, "[\"resolve\",-5,[[[\"export\",-5],[\"export\",-5]]]]", "[\"release\",-5,2]");
	expect(s, "[\"push\",1] [\"pull\",1]", "[\"resolve\",1,1]");
	CHECK_CSTR(ended, "");
	capnweb_free(s);
}

TEST(a_capture_is_an_object_of_the_peer_and_no_answer)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	feed(s, "[\"push\",[\"remap\",0,[],[[\"export\",1]],[1]]]");
	CHECK(strstr(ended, "must be negative") != NULL);
	capnweb_free(s);
}

TEST(ids_of_one_object_are_bounded)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	char frames[120];
	int n = 0;
	while (!ended[0] && n <= CAPNWEB_HOOKS_MAX) {
		n++;
		snprintf(frames, sizeof frames, "[\"push\",[\"import\",0]] [\"pull\",%d] [\"release\",%d,1]", n, n);
		feed(s, frames);
	}
	/* The main object has an id, and so has the result that is being released. */
	CHECK_INT(n, CAPNWEB_HOOKS_MAX - 1);
	CHECK(strstr(ended, "too many") != NULL);
	capnweb_free(s);
}

TEST(half_of_a_surrogate_pair_stands_for_u_fffd)
{
	struct capnweb *s = capnweb_new(&ops, NULL);
	expect(s, "[\"push\",\"a\\ud83d\"] [\"pull\",1]", "[\"resolve\",1,\"a\xef\xbf\xbd\"]");
	expect(s, "[\"push\",\"\\udc00\\uD83D\\uDE00\\ud83d\\n\\\\ud83d\"] [\"pull\",2]",
		"[\"resolve\",2,\"\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd\\n\\\\ud83d\"]");
	expect(s, "[\"push\",{\"\\ud800\\ud800\":1}] [\"pull\",3]", "[\"resolve\",3,{\"\xef\xbf\xbd\xef\xbf\xbd\":1}]");
	CHECK_CSTR(ended, "");
	feed(s, "[\"push\",\"\\ud8\"]");
	CHECK(strstr(ended, "hexadecimal") != NULL);
	capnweb_free(s);
}

TEST_MAIN()
