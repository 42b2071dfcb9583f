#include "gate/secret.h"

#include "test.h"

#define A_REST	 "0112233445566778899aabbccddeeff"
#define A_DIGITS "0" A_REST
#define A	 "atoll_" A_DIGITS
#define B	 "atoll_ffeeddccbbaa99887766554433221100"

static struct secrets *read_all(const char *text)
{
	struct err e;
	struct secrets *s = NULL;
	auto_json struct json_doc *d = json_parse(str_of(text), &e);
	CHECK(d && secrets_read(json_root(d), &s, &e) == 0);
	return s;
}

static struct secrets *two(void)
{
	return read_all("{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"" A
			"\",\"value\":\"va+/\",\"hosts\":[\"a.example\",\"*.b.example:8443\"]},"
			"{\"name\":\"b\",\"placeholder\":\"" B
			"\",\"value\":\"vb\",\"hosts\":[\"a.example\"],\"header\":\"X-Key: <{}>\"}]}");
}

static int uses;

static void on_used(void *arg, struct secret *s)
{
	(void)arg;
	CHECK(s);
	uses++;
}

static bool put_value(const struct secret_writer *w, const char *value, struct buf *out)
{
	return secret_put_value(w, &(struct http_header){STR("X"), str_of(value)}, out);
}

static void check_value(const struct secrets *s, const char *host, const char *in, const char *want)
{
	struct secret_writer w = {.secrets = s, .way = {host, 443}, .used = on_used};
	auto_buf struct buf out = {0};
	bool changed = put_value(&w, in, &out);
	CHECK_CSTR(buf_cstr(&out), want);
	CHECK_INT(changed, strcmp(in, want) != 0);
}

TEST(values_are_replaced_where_they_may_go)
{
	struct secrets *s = two();
	check_value(s, "a.example", "Bearer " A, "Bearer va+/");
	check_value(s, "a.example", A B A, "va+/vbva+/");
	check_value(s, "a.example", "x" A "atoll_" B, "xva+/atoll_vb");
	check_value(s, "a.example", "atoll_atoll_", "atoll_atoll_");
	check_value(s, "c.example", A, A);
	/* "u:A" and "u:va+/" */
	check_value(s, "a.example", "Basic dTphdG9sbF8wMDExMjIzMzQ0NTU2Njc3ODg5OWFhYmJjY2RkZWVmZg==", "Basic dTp2YSsv");
	check_value(s, "a.example", "Basic !!!", "Basic !!!");
	secrets_free(s);
}

/* "u:A" without its padding, and "u:A" with a letter more, which needs one '=', and three letters more, which needs
 * none. */
#define BASIC	     "dTphdG9sbF8wMDExMjIzMzQ0NTU2Njc3ODg5OWFhYmJjY2RkZWVmZg"
#define BASIC_ONE    BASIC_GROUPS "Zng"
#define BASIC_FULL   BASIC_GROUPS "Znh5"
#define BASIC_GROUPS "dTphdG9sbF8wMDExMjIzMzQ0NTU2Njc3ODg5OWFhYmJjY2RkZWVm"

static const char *const basic_forms[] = {"BASIC " BASIC "==", "bASIC " BASIC, "basic\t" BASIC "==", "Basic   " BASIC,
	"Basic \t " BASIC "= ", "Basic " BASIC_ONE, "Basic " BASIC_ONE "=", "Basic " BASIC_FULL};

TEST(basic_credentials_in_all_their_forms)
{
	struct secrets *s = two();
	struct secret_writer w = {.secrets = s, .way = {"a.example", 443}, .used = on_used};
	for (size_t i = 0; i < ARRAY_LEN(basic_forms); i++) {
		auto_buf struct buf out = {0};
		CHECK(secrets_in_value(s, str_of(basic_forms[i])));
		CHECK(put_value(&w, basic_forms[i], &out));
		CHECK(str_starts(buf_str(&out), STR("Basic dTp2YSsv"))); /* "u:va+/" */
	}
	check_value(s, "a.example", "Basic" BASIC, "Basic" BASIC);
	check_value(s, "a.example", "Basics " BASIC, "Basics " BASIC);
	check_value(s, "a.example", "Basic " BASIC "===", "Basic " BASIC "===");
	check_value(s, "a.example", "Basic " BASIC_GROUPS "Z", "Basic " BASIC_GROUPS "Z");
	check_value(s, "a.example", "Bas", "Bas");
	check_value(s, "a.example", "Basic", "Basic");
	check_value(s, "a.example", "", "");
	secrets_free(s);
}

TEST(targets_get_them_encoded)
{
	struct secrets *s = two();
	struct secret_writer w = {.secrets = s, .way = {"x.b.example", 8443}, .used = on_used};
	auto_buf struct buf out = {0};
	uses = 0;
	CHECK(secret_put_target(&w, STR("/p/" A "?k=" A "&o=" B), &out));
	CHECK_CSTR(buf_cstr(&out), "/p/va%2B%2F?k=va%2B%2F&o=" B);
	CHECK_INT(uses, 2);
	buf_clear(&out);
	CHECK(secret_put_target(&w, STR("/%61toll%5F" A_DIGITS "x?k=atoll%5f%30" A_REST "&%5f"), &out));
	CHECK_CSTR(buf_cstr(&out), "/va%2B%2Fx?k=va%2B%2F&%5f");
	/* Not those: cut short, no hex, another character, escaped twice. */
	static const char *const others[] = {"/atoll%5f0", "/atoll%5", "/atoll%5g" A_DIGITS, "/atoll%5e" A_DIGITS,
		"/atoll%255f" A_DIGITS, "/ATOLL%5f" A_DIGITS, "/atoll%" A_DIGITS};
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		buf_clear(&out);
		CHECK(!secret_put_target(&w, str_of(others[i]), &out));
		CHECK_CSTR(buf_cstr(&out), others[i]);
	}
	secrets_free(s);
}

TEST(hosts_and_ports)
{
	struct secrets *s = two();
	CHECK(secrets_want(s, "a.example", 443) && !secrets_want(s, "a.example", 80) &&
		!secrets_want(s, "a.example", 8443));
	CHECK(secrets_want(s, "x.b.example", 8443) && !secrets_want(s, "b.example", 8443) &&
		!secrets_want(s, "x.b.example", 443));
	CHECK(!secrets_want(NULL, "a.example", 443));
	auto_buf struct buf out = {0};
	secret_put_header(&s->v[1], &out);
	CHECK_CSTR(buf_cstr(&out), "<vb>");
	secrets_free(s);
}

static bool misplaced(
	const struct secrets *s, const char *name, const char *value, const char *target, const char *host)
{
	struct http_header h = {str_of(name), str_of(value)};
	struct http_request rq = {.target = str_of(target), .host = STR("a.example"), .headers = {&h, 1}};
	return secrets_misplaced(s, &rq, &(struct secret_way){host, 443}).secret != NULL;
}

TEST(misplaced_placeholders)
{
	struct secrets *s = two();
	CHECK(!misplaced(s, "X", A, "/", "a.example") && misplaced(s, "X", A, "/", NULL) &&
		misplaced(s, "X", A, "/", "c.example"));
	CHECK(misplaced(s, "X", "1", "/" B, "c.example") && !misplaced(s, "X", "1", "/" B, "a.example"));
	CHECK(misplaced(s, A, "1", "/", "a.example"));
	CHECK(misplaced(s, "X", "basic dTphdG9sbF8wMDExMjIzMzQ0NTU2Njc3ODg5OWFhYmJjY2RkZWVmZg==", "/", "c.example"));
	for (size_t i = 0; i < ARRAY_LEN(basic_forms); i++)
		CHECK(misplaced(s, "X", basic_forms[i], "/", "c.example") &&
			!misplaced(s, "X", basic_forms[i], "/", "a.example"));
	CHECK(misplaced(s, "X", "1", "/?k=%61toll%5F" A_DIGITS, "c.example"));
	CHECK(!misplaced(s, "X", "1", "/?k=%61toll%5F" A_DIGITS, "a.example"));
	CHECK(!misplaced(NULL, "X", A, "/", NULL));
	secrets_free(s);
}

/* One secret of the members, and what a refusal of the place says; NULL: it is none. */
static const char *told(const char *in, const char *name, const char *value, const char *target)
{
	static struct secret_fault f;
	char text[1024];
	snprintf(text, sizeof text,
		"{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"" A
		"\",\"value\":\"value-of-a\",\"hosts\":[\"a.example\"],\"in\":[%s]%s}]}",
		in, strstr(in, "aws") ? ",\"aws\":{\"accessKeyId\":\"i\"}" : "");
	struct secrets *s = read_all(text);
	struct http_header h = {str_of(name), str_of(value)};
	struct http_request rq = {.target = str_of(target), .host = STR("a.example"), .headers = {&h, 1}};
	struct secret_writer w = {.secrets = s, .way = {"a.example", 443}, .used = on_used};
	auto_buf struct buf in_value = {0}, in_target = {0};
	f = secrets_misplaced(s, &rq, &w.way);
	uses = 0;
	bool put = secret_put_value(&w, &h, &in_value), there = secret_put_target(&w, rq.target, &in_target);
	/* Whatever has to be replaced by now: nothing of what is refused is. */
	CHECK_INT(uses > 0, put || there);
	CHECK(!f.secret || !put || !there);
	bool refused = f.secret;
	secrets_free(s);
	return refused ? f.member : NULL;
}

#define BASIC_A "basic " BASIC

TEST(places_of_a_placeholder)
{
	CHECK(!told("\"header:X-Key\"", "x-key", "Bearer " A, "/"));
	CHECK(!told("\"header:X-Key\"", "X-KEY", BASIC_A, "/"));
	CHECK_CSTR(told("\"header:X-Key\"", "X-Two", A, "/"), "header:X-Two");
	CHECK_CSTR(told("", "X-Two", BASIC_A, "/"), "header:X-Two");
	CHECK_CSTR(told("\"header:X-Key\"", "X-Key", A, "/p/" A), "path");
	CHECK_CSTR(told("\"path\"", "X", "1", "/p/" A "?k=" A), "query:k");
	CHECK(!told("\"path\"", "X", "1", "/p/%61toll_" A_DIGITS ";x=1?k=1"));
	CHECK_CSTR(told("\"query:k\"", "X", "1", "/p/" A "?k=1"), "path");
	/* No member allows these. */
	CHECK_CSTR(told("", A, "1", "/"), "");
	CHECK_CSTR(told("", "Transfer-Encoding", A, "/"), "");
	CHECK_CSTR(told("", "A-name-that-is-far-too-long-to-be-shown-in-a-refusal-of-the-gate", A, "/"), "");
}

TEST(parameters_of_a_query)
{
	static const char *const fine[] = {"/?k=" A, "/?a=1&k=" A "&b", "/?k=x" A, "/?%6b=" A, "/?k=a?k=" A, "/?k==" A,
		"/?a;b=1&k=" A, "/?k=%61toll%5F" A_DIGITS, "/?k=" A ";q=1"};
	for (size_t i = 0; i < ARRAY_LEN(fine); i++)
		CHECK(!told("\"query:k\"", "X", "1", fine[i]));
	/* Behind a semicolon some servers see another parameter. */
	static const struct {
		const char *target, *member;
	} refused[] = {{"/?q=" A, "query:q"}, {"/?" A, ""}, {"/?" A "=k", ""}, {"/?k=1;q=" A, ""}, {"/?q=1;k=" A, ""},
		{"/?q;k=" A, ""}, {"/?k=1&q=" A, "query:q"}, {"/?kk=" A, "query:kk"}, {"/?K=" A, "query:K"},
		{"/?k%=" A, ""}, {"/?k=" A "&q=" A, "query:q"}, {"/?k[]=" A, "query:k[]"}, {"/?=" A, ""}, {"/?&" A, ""},
		{"/?%6b%6b=" A, ""}, {"/?+k=" A, ""}};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		CHECK_CSTR(told("\"query:k\"", "X", "1", refused[i].target), refused[i].member);
	CHECK(!told("\"query:a b\"", "X", "1", "/?a+b=" A) && !told("\"query:a b\"", "X", "1", "/?a%20b=" A));
}

TEST(a_signature_takes_the_place_of_placeholders)
{
	CHECK(!told("\"query:aws\"", "Authorization", "AWS4-HMAC-SHA256 Credential=" A "/2026", "/"));
	CHECK(!told("\"query:aws\"", "X", "1", "/?X-Amz-Credential=" A "%2F2026"));
	CHECK_CSTR(told("\"query:aws\"", "Authorization", "Bearer " A, "/"), "header:Authorization");
	CHECK_CSTR(told("\"query:k\"", "Authorization", "AWS4-HMAC-SHA256 Credential=" A, "/"), "header:Authorization");
	CHECK_INT(uses, 0);
}

static void check_hidden(const struct secrets *s, const char *host, const char *text, const char *want)
{
	auto_buf struct buf out = {0};
	CHECK_INT(secrets_hide(s, &(struct secret_way){host, 443}, str_of(text), &out), strcmp(text, want) != 0);
	CHECK_CSTR(buf_cstr(&out), want);
}

TEST(values_in_responses_become_placeholders)
{
	struct secrets *s = read_all("{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"" A
				     "\",\"value\":\"va+/ %41b\",\"hosts\":[\"a.example\"],\"in\":[]},"
				     "{\"name\":\"b\",\"placeholder\":\"" B
				     "\",\"value\":\"va+/ %41b and more\",\"hosts\":[\"a.example\"],\"aws\":"
				     "{\"accessKeyId\":\"i\",\"sessionToken\":\"the-session\"}},"
				     "{\"name\":\"c\",\"placeholder\":\"" A "\",\"value\":\"1234567\","
				     "\"hosts\":[\"a.example\"]}]}");
	check_hidden(s, "a.example", "x va+/ %41b y", "x " A " y");
	check_hidden(s, "a.example", "va%2b%2F%20%2541%62", A);
	check_hidden(s, "a.example", "va+/ %41b and more, va+/ %41b and", B ", " A " and");
	check_hidden(s, "a.example", "token=the-session", "token=" B);
	check_hidden(s, "a.example", "va+/ %41", "va+/ %41");
	check_hidden(s, "a.example", "1234567 %zz %", "1234567 %zz %");
	check_hidden(s, "a.example", "", "");
	check_hidden(s, "c.example", "va+/ %41b", "va+/ %41b");
	/* "u:va+/ %41b" and "u:A" */
	check_hidden(s, "a.example", "Basic dTp2YSsvICU0MWI=", "Basic " BASIC "==");
	check_hidden(s, "a.example", "A: bASIC\tdTp2YSsvICU0MWI= va+/ %41b", "A: Basic " BASIC "== " A);
	check_hidden(s, "a.example", "basic basic dTp4, Basicx Basic", "basic basic dTp4, Basicx Basic");
	secrets_free(s);
}

TEST(placeholders_in_a_raw_head)
{
	struct secrets *s = two();
	CHECK(secrets_in_head(s, STR("CONNECT x:1 HTTP/1.1\r\nX: " A "\r\n\r\n")));
	CHECK(secrets_in_head(s, STR("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nProxy-Authorization: Basic "
				     "dTphdG9sbF8wMDExMjIzMzQ0NTU2Njc3ODg5OWFhYmJjY2RkZWVmZg==\r\n\r\n")));
	CHECK(secrets_in_head(s, STR("CONNECT x:1 HTTP/1.1\r\nProxy-Authorization:bASIC\t" BASIC "\r\n\r\n")));
	CHECK(secrets_in_head(s, STR("CONNECT atoll%5f" A_DIGITS ":1 HTTP/1.1\r\n\r\n")));
	CHECK(!secrets_in_head(s, STR("CONNECT x:1 HTTP/1.1\r\nProxy-Authorization: Basic dTp4\r\n\r\n")));
	CHECK(!secrets_in_head(s, STR("")));
	secrets_free(s);
}

TEST(bad_lines_are_refused)
{
	static const char *const bad[] = {"{\"secrets\":1}", "{\"secrets\":[{}]}",
		"{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"x\",\"value\":\"v\",\"hosts\":[]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"" A "\",\"value\":\"v\\n\",\"hosts\":[]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"" A "\",\"value\":\"v\",\"hosts\":[\"/\"]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"" A
		"\",\"value\":\"v\",\"hosts\":[],\"header\":\"a b: {}\"}]}",
		"{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"" A
		"\",\"value\":\"v\",\"hosts\":[],\"in\":\"path\"}]}",
		"{\"secrets\":[{\"name\":\"a\",\"placeholder\":\"" A
		"\",\"value\":\"v\",\"hosts\":[],\"in\":[\"cookie:a\"]}]}"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e;
		struct secrets *s = NULL;
		auto_json struct json_doc *d = json_parse(str_of(bad[i]), &e);
		CHECK(d && secrets_read(json_root(d), &s, &e) < 0 && !s);
	}
}

TEST_MAIN()
