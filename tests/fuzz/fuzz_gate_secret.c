/*
 * Placeholders in heads: whatever the text, the value appears only where it may go, and nothing else changes.
 */
#include "fuzz.h"
#include "gate/secret.h"

#define PLACE "atoll_00112233445566778899aabbccddeeff"
#define VALUE "\x7e~VALUE~"

static void on_used(void *arg, struct secret *s)
{
	(void)s;
	(*(int *)arg)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rule host;
	static struct secret secret = {.name = "s",
		.placeholder = PLACE,
		.value = VALUE,
		.value_n = sizeof VALUE - 1,
		.hosts = &host,
		.hosts_n = 1};
	struct secrets all = {&secret, 1};
	struct err e;
	int used = 0;
	MUST(rule_parse(STR("a.example"), &host, &e) == 0);
	if (size > 1 << 14)
		return 0;
	struct str in = str_n(data, size);
	struct secret_writer w = {.secrets = &all, .way = {"a.example", 443}, .used = on_used, .arg = &used};
	auto_buf struct buf out = {0}, same = {0}, target = {0};
	bool changed = secret_put_value(&w, in, &out);
	MUST(changed == (used > 0));
	MUST(changed || str_eq(buf_str(&out), in));
	used = 0;
	MUST(secret_put_target(&w, in, &target) == (secrets_in_target(&all, in) != NULL));
	MUST(!secrets_in_target(&all, buf_str(&target)) || used);
	w.way.name = "b.example";
	MUST(!secret_put_value(&w, in, &same) && str_eq(buf_str(&same), in));
	struct http_header h = {STR("X"), in};
	struct http_request rq = {.target = STR("/"), .host = STR("a.example"), .headers = {&h, 1}};
	bool there = secrets_misplaced(&all, &rq, &(struct secret_way){NULL, 443}) != NULL;
	MUST(there == changed);
	return 0;
}
