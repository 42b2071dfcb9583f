/*
 * Rules: any text is a rule or a refusal; a rule's own name or address matches it, and its text reads as the same rule.
 */
#include "fuzz.h"
#include "proto/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rule r = {0}, again = {0};
	struct err e = {0};
	if (rule_parse(str_n(data, size), &r, &e) < 0) {
		MUST(e.code == ERRC_VALIDATION_FAILED && *e.msg);
		return 0;
	}
	MUST(rule_parse(str_of(r.text), &again, &e) == 0);
	MUST(again.kind == r.kind && again.port == r.port && again.bits == r.bits && strcmp(again.name, r.name) == 0);
	if (r.kind == RULE_RANGE)
		MUST(rule_matches_ip(&r, &r.range));
	else if (!r.below)
		MUST(rule_matches_name(&r, r.name));
	return 0;
}
