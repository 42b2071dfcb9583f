/*
 * Placeholders in heads: whatever the text, the value appears only where it may go and stand, nothing else changes, and
 * in a response it is gone again.
 */
#include "fuzz.h"
#include "gate/secret.h"

#define PLACE "atoll_00112233445566778899aabbccddeeff"
#define VALUE "\x7e~VALUE~"

static struct rule host;
static struct secret_in places[] = {
	{SECRET_IN_HEADER, {"X", 1}}, {SECRET_IN_QUERY, {"k", 1}}, {SECRET_IN_PATH, {"", 0}}};
static struct secret secret = {
	.name = "s", .placeholder = PLACE, .value = VALUE, .value_n = sizeof VALUE - 1, .hosts = &host, .hosts_n = 1};
static struct secrets all = {&secret, 1};

static void on_used(void *arg, struct secret *s)
{
	(void)s;
	(*(int *)arg)++;
}

static bool is_misplaced(struct str name, struct str value, struct str target, const char *to)
{
	struct http_header h = {name, value};
	struct http_request rq = {.target = target, .host = STR("a.example"), .headers = {&h, 1}};
	return secrets_misplaced(&all, &rq, &(struct secret_way){to, 443}).secret != NULL;
}

static void anywhere(struct str in)
{
	int used = 0;
	struct secret_writer w = {.secrets = &all, .way = {"a.example", 443}, .used = on_used, .arg = &used};
	struct http_header h = {STR("X"), in};
	auto_buf struct buf out = {0}, same = {0}, target = {0};
	bool changed = secret_put_value(&w, &h, &out);
	MUST(changed == (used > 0));
	MUST(changed || str_eq(buf_str(&out), in));
	used = 0;
	MUST(secret_put_target(&w, in, &target) == (secrets_in_target(&all, in) != NULL));
	MUST(!secrets_in_target(&all, buf_str(&target)) || used);
	w.way.name = "b.example";
	MUST(!secret_put_value(&w, &h, &same) && str_eq(buf_str(&same), in));
	MUST(is_misplaced(STR("X"), in, STR("/"), NULL) == changed);
	MUST(!is_misplaced(STR("X"), in, in, "a.example"));
}

/* What is not misplaced is replaced whole, and nothing is anywhere but in its places. */
static void in_places(struct str in, struct str name)
{
	int used = 0;
	struct secret_writer w = {.secrets = &all, .way = {"a.example", 443}, .used = on_used, .arg = &used};
	struct http_header h = {name, in};
	auto_buf struct buf out = {0}, target = {0};
	bool changed = secret_put_value(&w, &h, &out), named = str_eq(name, STR("X")),
	     there = secrets_in_value(&all, in);
	MUST(changed == (there && named));
	MUST(is_misplaced(name, in, STR("/"), "a.example") == (there && !named));
	used = 0;
	secret_put_target(&w, in, &target);
	bool misplaced = is_misplaced(STR("X"), STR(""), in, "a.example");
	MUST(misplaced || (used > 0) == (secrets_in_target(&all, in) != NULL));
	MUST(misplaced || !secrets_in_target(&all, buf_str(&target)) || used);
}

static void hidden(struct str in)
{
	auto_buf struct buf out = {0};
	bool changed = secrets_hide(&all, &(struct secret_way){"a.example", 443}, in, &out);
	MUST(changed || str_eq(buf_str(&out), in));
	MUST(!memmem(buf_str(&out).p, buf_size(&out), VALUE, sizeof VALUE - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e;
	struct secret_in read;
	MUST(rule_parse(STR("a.example"), &host, &e) == 0);
	if (size > 1 << 14)
		return 0;
	struct str in = str_n(data, size);
	MUST(!secret_in_parse(in, &read) || read.kind == SECRET_IN_PATH || read.name.n);
	secret.anywhere = true;
	secret.in_n = 0;
	anywhere(in);
	secret.anywhere = false;
	for (secret.in_n = 0; secret.in_n <= ARRAY_LEN(places); secret.in_n++) {
		secret.in = places;
		in_places(in, secret.in_n ? STR("X") : STR("Y"));
		in_places(in, STR("Y"));
	}
	hidden(in);
	return 0;
}
