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

static void check_value(const struct secrets *s, const char *host, const char *in, const char *want)
{
	struct secret_writer w = {.secrets = s, .way = {host, 443}, .used = on_used};
	auto_buf struct buf out = {0};
	bool changed = secret_put_value(&w, str_of(in), &out);
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
		CHECK(secret_put_value(&w, str_of(basic_forms[i]), &out));
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
	return secrets_misplaced(s, &rq, &(struct secret_way){host, 443}) != NULL;
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
		"\",\"value\":\"v\",\"hosts\":[],\"header\":\"a b: {}\"}]}"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e;
		struct secrets *s = NULL;
		auto_json struct json_doc *d = json_parse(str_of(bad[i]), &e);
		CHECK(d && secrets_read(json_root(d), &s, &e) < 0 && !s);
	}
}

TEST_MAIN()
