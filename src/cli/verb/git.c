/*
 * git.c - `atoll git ID clone`: clones a repository into a box. A clone that fails leaves nothing behind.
 */
#include <stdio.h>
#include <string.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verbs.h"
#include "proto/limits.h"

static void write_request(struct buf *to, const struct args *a, const char *branch, uint64_t depth, uint64_t timeout_ms)
{
	struct json_writer w = json_writer(to);
	json_object_begin(&w);
	json_member_cstr(&w, "repoUrl", a->words[2]);
	if (a->n > 3)
		json_member_cstr(&w, "targetDir", a->words[3]);
	if (branch)
		json_member_cstr(&w, "branch", branch);
	if (depth)
		json_member_u64(&w, "depth", depth);
	json_member_u64(&w, "timeoutMs", timeout_ms);
	json_object_end(&w);
}

static void print_done(const struct json *answer)
{
	auto_buf struct buf line = {0};
	text_put_safe(&line, api_text(answer, "targetDir"));
	buf_add_c(&line, " (");
	text_put_safe(&line, api_text(answer, "branch"));
	buf_add_c(&line, ")\n");
	cli_print(&line);
}

int verb_git(struct cli *c, int argc, char **argv)
{
	const char *branch = NULL, *id;
	uint64_t depth = 0, timeout_ms = GIT_TIMEOUT;
	const struct arg table[] = {
		{"branch", "NAME", "branch or tag to check out", ARG_TEXT, &branch, 'b'},
		{"depth", "N", "only the last N commits", ARG_COUNT, &depth},
		{"timeout", "TIME", "give up after this time (default 10m)", ARG_SECONDS, &timeout_ms},
		ARG_TABLE_END,
	};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !args_box(c, &a, 4, &id, &code))
		return code;
	if (a.n < 2 || strcmp(a.words[1], "clone") != 0)
		return cli_usage(
			c, "only 'clone' is supported; for other commands use: %s exec %s -- git …", c->self, id);
	if (a.n < 3)
		return cli_usage(c, "clone which repository? Write its URL");
	if (!timeout_ms || timeout_ms > GIT_TIMEOUT_MAX)
		return cli_usage(c, "--timeout must be more than 0 and at most 24h");
	auto_buf struct buf body = {0};
	write_request(&body, &a, branch, depth, timeout_ms);
	auto_client struct client cl = {0};
	struct err e;
	if (client_open(c, &cl, &e) < 0)
		return cli_fail(c, &e);
	cl.head_ms = (uint32_t)timeout_ms + CLIENT_HEAD_MS;
	if (isatty(STDERR_FILENO) && !c->json)
		fprintf(stderr, "cloning …\n");
	auto_json struct json_doc *d = api_ask(&cl, id, "POST", "/api/git/checkout", buf_str(&body), &e);
	if (!d)
		return cli_fail(c, &e);
	if (!c->json)
		print_done(json_root(d));
	return 0;
}
