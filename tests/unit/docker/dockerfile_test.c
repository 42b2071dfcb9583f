#include "docker/dockerfile.h"

#include "test.h"

static void check(const char *text, const char *json)
{
	static const char *const args[] = {"WHO=me"};
	struct dockerfile d;
	struct err e = {0};
	auto_buf struct buf out = {0};
	int r = dockerfile_read(str_of(text), args, 1, &d, &e);
	if (r == 0)
		dockerfile_json(&d, &out);
	CHECK_CSTR(r == 0 ? buf_cstr(&out) : e.msg, json);
	dockerfile_free(&d);
}

#define FROM "FROM cloudflare/sandbox:0.12.10\n"

TEST(variables)
{
	check(FROM, "{\"env\":{}}");
	check(FROM "ENV A=1 B=\"2 3\" C='$A' D=$A-${A}x\n",
		"{\"env\":{\"A\":\"1\",\"B\":\"2 3\",\"C\":\"$A\",\"D\":\"-x\"}}");
	check(FROM "ENV A=1\nENV D=$A-${A}x\nENV A=2\n", "{\"env\":{\"D\":\"1-1x\",\"A\":\"2\"}}");
	check(FROM "ENV A the  rest\n", "{\"env\":{\"A\":\"the rest\"}}");
	check(FROM "ARG WHO=you\nARG X=1\nARG NONE\nENV A=$WHO$X${NONE:-n}\n", "{\"env\":{\"A\":\"me1n\"}}");
	check(FROM "ENV A=a\\ b \\\n# comment\n  B=2\n", "{\"env\":{\"A\":\"a b\",\"B\":\"2\"}}");
}

TEST(commands)
{
	check(FROM "CMD [\"a\", \"b c\"]\n", "{\"env\":{},\"cmd\":[\"a\",\"b c\"]}");
	check(FROM "CMD a b\n", "{\"env\":{},\"cmd\":[\"/bin/sh\",\"-c\",\"a b\"]}");
	check(FROM "CMD a\nCMD []\n", "{\"env\":{},\"cmd\":[]}");
	check(FROM "expose 80\nLABEL a=b\nUSER x\nWORKDIR /w\n", "{\"env\":{}}");
}

TEST(refusals_name_the_line)
{
	check("", "Dockerfile:1: there is no FROM");
	check("ENV A=1\n", "Dockerfile:1: ENV comes before FROM");
	check("FROM x\n",
		"Dockerfile:1: FROM 'x': only cloudflare/sandbox is known; it stands for Atoll's default image");
	check(FROM "\n\nENV A=\"x\n", "Dockerfile:4: a quote does not end, or a value is too long");
	check(FROM "CMD [1]\n", "Dockerfile:2: CMD [...] must be a JSON list of texts");
	check(FROM FROM, "Dockerfile:2: a second FROM (a multi-stage build) is not supported yet");
}

TEST_MAIN()
