/*
 * approve.c - `atoll approve`: connections that wait for a user's decision. In a terminal each is shown and answered
 * as it comes; elsewhere the verb lists them, or answers those that its words name.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/args.h"
#include "cli/text.h"
#include "cli/verbs.h"

#define PATH "/v1/approvals"

struct approve {
	struct cli *c;
	struct client *cl;
	const char *remember;
	bool deny, all, list, forget;
};

static struct json_doc *ask_all(struct approve *a, struct buf *answer, struct err *e)
{
	if (client_call(a->cl, "GET", PATH, STR(""), answer, e) < 0)
		return NULL;
	return json_parse(buf_str(answer), e);
}

static void put_place(struct buf *out, const struct json *q)
{
	uint64_t port = 0;
	json_read_u64(q, "port", 0, 65535, &port, NULL);
	text_put_safe(out, api_text(q, "host"));
	buf_printf(out, ":%llu", (unsigned long long)port);
}

static int send_answer(struct approve *a, struct str id, const char *decision, const char *remember, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0}, answer = {0};
	struct json_writer w = json_writer(&body);
	auto_free char *text = str_dup(id);
	buf_add_c(&path, PATH "/");
	client_percent_encode(&path, text);
	json_object_begin(&w);
	json_member_cstr(&w, "decision", decision);
	json_member_cstr(&w, "remember", remember);
	json_object_end(&w);
	/* A connection of its own: the event stream has the other. */
	if (client_once(a->c, "POST", buf_cstr(&path), buf_str(&body), &answer, e) < 0)
		return -1;
	if (a->c->json)
		cli_print(&answer);
	return 0;
}

/* ---- the list ---- */

static void print_question(const struct json *q)
{
	auto_buf struct buf out = {0};
	text_put_safe(&out, api_text(q, "id"));
	buf_add_c(&out, "  ");
	text_put_safe(&out, api_text(q, "sandbox"));
	buf_add_c(&out, "  ");
	put_place(&out, q);
	buf_add_c(&out, "  ");
	text_put_safe(&out, api_text(q, "protocol"));
	buf_add_c(&out, "  until ");
	text_put_safe(&out, api_text(q, "expiresAt"));
	buf_add_byte(&out, '\n');
	cli_print(&out);
}

static void print_kept(const struct json *k)
{
	auto_buf struct buf out = {0};
	text_put_safe(&out, api_text(k, "id"));
	buf_add_c(&out, "  all sandboxes  ");
	text_put_safe(&out, api_text(k, "decision"));
	buf_add_byte(&out, ' ');
	text_put_safe(&out, api_text(k, "rule"));
	buf_add_byte(&out, '\n');
	cli_print(&out);
}

static int show(struct approve *a, struct err *e)
{
	auto_buf struct buf answer = {.max = CLIENT_BODY_MAX};
	auto_json struct json_doc *d = ask_all(a, &answer, e);
	if (!d)
		return -1;
	if (a->c->json) {
		cli_print(&answer);
		return 0;
	}
	const struct json *waiting = json_get(json_root(d), "approvals"), *kept = json_get(json_root(d), "always");
	json_each(it, waiting) print_question(it);
	json_each(it, kept) print_kept(it);
	if (!(waiting && waiting->first) && !(kept && kept->first))
		fputs("no connection waits for an approval\n", stderr);
	return 0;
}

/* ---- answers that the command line gives ---- */

static int answer_all(struct approve *a, struct err *e)
{
	auto_buf struct buf answer = {.max = CLIENT_BODY_MAX};
	auto_json struct json_doc *d = ask_all(a, &answer, e);
	if (!d)
		return -1;
	json_each(it, json_get(json_root(d), "approvals"))
	{
		if (!a->c->json)
			print_question(it);
		if (send_answer(a, api_text(it, "id"), a->deny ? "deny" : "allow", a->remember, e) < 0)
			return -1;
	}
	return 0;
}

static int forget(struct approve *a, const char *id, struct err *e)
{
	auto_buf struct buf path = {0}, answer = {0};
	buf_add_c(&path, PATH "/");
	client_percent_encode(&path, id);
	return client_call(a->cl, "DELETE", buf_cstr(&path), STR(""), &answer, e) < 0 ? -1 : 0;
}

static int answer_words(struct approve *a, const struct args *words, struct err *e)
{
	for (int i = 0; i < words->n; i++) {
		int r = a->forget ? forget(a, words->words[i], e)
				  : send_answer(a, str_of(words->words[i]), a->deny ? "deny" : "allow", a->remember, e);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* ---- in a terminal ---- */

struct approve_choice {
	char key;
	const char *decision, *remember, *said;
};
static const struct approve_choice choices[] = {{'o', "allow", "once", "allowed once"},
	{'s', "allow", "sandbox", "allowed for this sandbox"}, {'a', "allow", "always", "allowed for all sandboxes"},
	{'n', "deny", "once", "denied once"}, {'d', "deny", "sandbox", "denied for this sandbox"}};

static const struct approve_choice *choose(const char *line)
{
	for (size_t i = 0; i < ARRAY_LEN(choices); i++)
		if (line[0] == choices[i].key && (line[1] == '\n' || line[1] == 0))
			return &choices[i];
	return NULL;
}

static void prompt(const struct json *q)
{
	auto_buf struct buf out = {0};
	text_put_safe(&out, api_text(q, "sandbox"));
	buf_add_c(&out, " wants to reach ");
	put_place(&out, q);
	buf_add_c(&out, " (");
	text_put_safe(&out, api_text(q, "protocol"));
	buf_add_c(&out, ")\n  [o]nce, for this [s]andbox, [a]lways, [n]o, [d]eny for this sandbox, Enter to skip: ");
	cli_print(&out);
	fflush(stdout);
}

/* 1: the input has ended. */
static int on_event(void *arg, const struct json *q, struct str text, struct err *e)
{
	struct approve *a = arg;
	char line[64];
	struct err lost;
	const struct approve_choice *c = NULL;
	(void)text;
	(void)e;
	if (!str_eq_c(api_text(q, "type"), "approval"))
		return 0;
	do {
		prompt(q);
		if (!fgets(line, sizeof line, stdin))
			return 1;
		c = choose(line);
	} while (!c && line[0] != '\n');
	if (!c)
		return 0;
	/* Another client, or time, may have decided meanwhile: say so, and go on. */
	if (send_answer(a, api_text(q, "id"), c->decision, c->remember, &lost) < 0)
		printf("  %s\n", lost.msg);
	else
		printf("  %s\n", c->said);
	fflush(stdout);
	return 0;
}

static int interact(struct approve *a, struct err *e)
{
	struct api_follow f = {.method = "GET", .rest = PATH "?follow=1", .on_event = on_event, .arg = a};
	puts("Waiting for connections that need an approval; Ctrl-C ends.");
	fflush(stdout);
	return api_follow(a->cl, &f, e);
}

/* ---- the verb ---- */

static bool check(struct approve *a, const struct args *words, int *code)
{
	const char *r = a->remember;
	bool known = strcmp(r, "once") == 0 || strcmp(r, "sandbox") == 0 || strcmp(r, "always") == 0;
	if (!known)
		*code = cli_usage(a->c, "--remember is once, sandbox or always, not '%s'", r);
	else if (words->n && (a->all || a->list))
		*code = cli_usage(a->c, "approvals by name do not go with --all or --list");
	else if (a->forget && !words->n)
		*code = cli_usage(a->c, "which rule? 'atoll approve --list' shows their ids");
	else
		return true;
	return false;
}

static int run(struct approve *a, const struct args *words, struct err *e)
{
	if (words->n)
		return answer_words(a, words, e);
	if (a->all)
		return answer_all(a, e);
	if (a->list || a->c->json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return show(a, e);
	return interact(a, e);
}

int verb_approve(struct cli *c, int argc, char **argv)
{
	auto_client struct client cl = {0};
	struct approve a = {.c = c, .cl = &cl, .remember = "once"};
	const struct arg table[] = {{"deny", NULL, "refuse instead of allowing", ARG_FLAG, &a.deny},
		{"remember", "HOW", "once (default), sandbox or always", ARG_TEXT, &a.remember},
		{"all", NULL, "answer everything that waits now", ARG_FLAG, &a.all},
		{"list", NULL, "show what waits, and the rules of earlier answers", ARG_FLAG, &a.list},
		{"forget", NULL, "take rules for all sandboxes away, by their ids", ARG_FLAG, &a.forget},
		ARG_TABLE_END};
	struct args words = {.command_after = ARGS_NO_COMMAND};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &words, &code) || !check(&a, &words, &code))
		return code;
	if (client_open(c, &cl, &e) < 0 || run(&a, &words, &e) < 0)
		return cli_fail(c, &e);
	return 0;
}
