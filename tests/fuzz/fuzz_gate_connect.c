/*
 * The head of a CONNECT request: what is accepted has one reading only. Lines are split here as a careless proxy would,
 * at every line feed; the first one must ask for the name and port that were read, and no other may look like a
 * request.
 */
#include <stdio.h>

#include "fuzz.h"
#include "gate/connect_head.h"
#include "proto/rule.h"

static void check_first(struct str line, const char *name, uint16_t port)
{
	struct str target, rest;
	char again[NET_NAME_MAX + 1], number[8];
	MUST(str_eq_c(str_split(line, ' ', &target), "CONNECT"));
	target = str_split(str_split(target, ' ', &rest), ':', &rest);
	MUST(rule_name(target, again) && strcmp(again, name) == 0);
	snprintf(number, sizeof number, "%u", port);
	while (rest.n > 1 && rest.p[0] == '0')
		rest = str_skip(rest, 1);
	MUST(str_eq_c(rest, number));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[NET_NAME_MAX + 1];
	uint16_t port = 0;
	struct str head = str_n(data, size), line, rest;
	if (!connect_head_read(head, name, &port))
		return 0;
	MUST(port > 0 && size > 4 && memcmp(data + size - 4, "\r\n\r\n", 4) == 0);
	line = str_split(head, '\n', &rest);
	check_first(line, name, port);
	for (size_t empty = 0; rest.n;) {
		line = str_split(rest, '\n', &rest);
		MUST(line.n && line.p[line.n - 1] == '\r' && !memchr(line.p, '\r', line.n - 1));
		MUST(!empty);
		empty += line.n == 1;
		MUST(line.n == 1 || str_index(line, ':') > 0);
	}
	return 0;
}
