/*
 * ports.c - `atoll expose`, `unexpose`, `ports`, `open` and `requests`: URLs for servers in a box.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/verb/box.h"
#include "cli/verb/browser.h"
#include "cli/verbs.h"

/* Checks the words: ID, and PORT if the verb takes one. False: *ret_code is set. */
static bool check_words(struct cli *c, const struct args *a, bool port, int *ret_code)
{
	uint64_t n;
	const char *id;
	if (!args_box(c, a, 1 + port, &id, ret_code))
		return false;
	if (port && a->n < 2)
		*ret_code = cli_usage(c, "which port?");
	else if (port && (!str_to_u64(str_of(a->words[1]), 65535, &n) || n == 0))
		*ret_code = cli_usage(c, "a port is a number from 1 to 65535, not '%s'", a->words[1]);
	else
		return true;
	return false;
}

/* For the verbs here that have no options. */
static bool take_words(struct cli *c, int argc, char **argv, bool port, struct args *ret, int *ret_code)
{
	static const struct arg table[] = {ARG_TABLE_END};
	*ret = (struct args){.command_after = ARGS_NO_COMMAND};
	return args_parse(c, table, argc, argv, ret, ret_code) && check_words(c, ret, port, ret_code);
}

/* "/v1/sandboxes/ID/ports[/PORT]<rest>" */
static void port_path(struct buf *ret, const struct args *a, const char *rest)
{
	char tail[64];
	snprintf(tail, sizeof tail, "/ports%s%s%s", a->n > 1 ? "/" : "", a->n > 1 ? a->words[1] : "", rest);
	client_box_path(ret, a->words[0], tail);
}

static void wish(struct buf *ret, const char *name, const char *token)
{
	struct json_writer w = json_writer(ret);
	json_object_begin(&w);
	if (name)
		json_member_cstr(&w, "name", name);
	if (token)
		json_member_cstr(&w, "token", token);
	json_object_end(&w);
}

static int print_member(struct buf *body, const char *key, struct err *e)
{
	auto_json struct json_doc *d = json_parse(buf_str(body), e);
	const char *text = NULL;
	if (!d || json_read_cstr(json_root(d), key, &text, e) < 0 || !text)
		return d ? err_set(e, ERRC_INVALID_JSON, "the daemon's answer has no %s", key) : -1;
	auto_free char *clean = xstrdup(text);
	cli_clean(clean);
	puts(clean);
	return 0;
}

/* The daemon's hints for these codes fit HTTP requests, not the verbs here. */
static int port_fail(struct cli *c, const struct args *a, const struct err *e)
{
	if (e->code == ERRC_PORT_NOT_EXPOSED)
		cli_hint(c, "'%s ports %s' lists the exposed ports.", c->self, a->words[0]);
	if (e->code == ERRC_INVALID_SANDBOX_ID_CHARACTERS)
		cli_hint(c, "Use a box whose id has only lowercase letters, digits, '-' and '_'.");
	if (e->code == ERRC_INVALID_SANDBOX_ID_LENGTH)
		cli_hint(c, "Use a box with a shorter id, or give a shorter --token.");
	return cli_fail(c, e);
}

/* The whole answer with --json, else the URL in it. */
static int print_url(struct cli *c, struct buf *answer, struct err *e)
{
	if (!c->json)
		return print_member(answer, "url", e);
	cli_print(answer);
	return 0;
}

int verb_expose(struct cli *c, int argc, char **argv)
{
	const char *name = NULL, *token = NULL;
	const struct arg table[] = {{"name", "NAME", "name of the port in lists", ARG_TEXT, &name},
		{"token", "TOKEN", "the URL's secret: 1 to 16 of a-z, 0-9 and _ (default: random)", ARG_TEXT, &token},
		ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !check_words(c, &a, true, &code))
		return code;
	struct err e;
	auto_buf struct buf path = {0}, body = {0}, answer = {0};
	port_path(&path, &a, "");
	wish(&body, name, token);
	if (client_once(c, "POST", buf_cstr(&path), buf_str(&body), &answer, &e) < 0 || print_url(c, &answer, &e) < 0)
		return port_fail(c, &a, &e);
	return 0;
}

int verb_unexpose(struct cli *c, int argc, char **argv)
{
	struct args a;
	struct err e;
	int code;
	if (!take_words(c, argc, argv, true, &a, &code))
		return code;
	auto_buf struct buf path = {0}, answer = {0};
	port_path(&path, &a, "");
	if (client_once(c, "DELETE", buf_cstr(&path), STR(""), &answer, &e) < 0)
		return port_fail(c, &a, &e);
	printf(c->json ? "{\"unexposed\":%s}\n" : "%s\n", a.words[1]);
	return 0;
}

/* ---- lists ---- */

/* A member as safe text: anybody may choose the name of a port and the paths of requests. */
static char *shown(const struct json *j, const char *key)
{
	struct str s = STR("-");
	json_read_str(j, key, &s, NULL);
	char *text = str_dup(s);
	cli_clean(text);
	return text;
}

static void print_port(const struct json *j)
{
	uint64_t port = 0;
	json_read_u64(j, "port", 0, 65535, &port, NULL);
	auto_free char *status = shown(j, "status"), *name = shown(j, "name"), *url = shown(j, "url");
	printf("%-6llu %-9s %-20s %s\n", (unsigned long long)port, status, name, url);
}

static void print_request(const struct json *j)
{
	uint64_t status = 0, in = 0, out = 0;
	double ms = 0;
	json_read_u64(j, "status", 0, 999, &status, NULL);
	json_read_u64(j, "bytesIn", 0, UINT64_MAX, &in, NULL);
	json_read_u64(j, "bytesOut", 0, UINT64_MAX, &out, NULL);
	json_read_double(j, "ms", &ms, NULL);
	auto_free char *time = shown(j, "time"), *method = shown(j, "method"), *path = shown(j, "path");
	printf("%-24s %-7s %6llu %10.1f %10llu %10llu  %s\n", time, method, (unsigned long long)status, ms,
		(unsigned long long)in, (unsigned long long)out, path);
}

struct port_listing {
	bool port;	  /* the list is of one port, not of the box */
	const char *rest; /* end of the path */
	const char *key;  /* member of the answer that is the list */
	const char *header;
	const char *empty; /* printed to stderr when the list is empty */
	void (*each)(const struct json *);
};

static int print_list(struct buf *body, const struct port_listing *l, struct err *e)
{
	auto_json struct json_doc *d = json_parse(buf_str(body), e);
	if (!d)
		return -1;
	const struct json *list = json_get(json_root(d), l->key);
	if (list && list->first)
		printf("%s%s%s\n", cli_style(1, STYLE_BOLD), l->header, cli_style(1, STYLE_PLAIN));
	else
		fprintf(stderr, "%s\n", l->empty);
	json_each(it, list) l->each(it);
	return 0;
}

static int show_list(struct cli *c, int argc, char **argv, const struct port_listing *l)
{
	struct args a;
	struct err e;
	int code;
	if (!take_words(c, argc, argv, l->port, &a, &code))
		return code;
	auto_buf struct buf path = {0}, body = {0};
	port_path(&path, &a, l->rest);
	if (client_once(c, "GET", buf_cstr(&path), STR(""), &body, &e) < 0)
		return port_fail(c, &a, &e);
	if (c->json)
		cli_print(&body);
	else if (print_list(&body, l, &e) < 0)
		return cli_fail(c, &e);
	return 0;
}

int verb_ports(struct cli *c, int argc, char **argv)
{
	static const struct port_listing ports = {
		false, "", "ports", "PORT   STATUS    NAME                 URL", "no exposed ports", print_port};
	return show_list(c, argc, argv, &ports);
}

int verb_requests(struct cli *c, int argc, char **argv)
{
	static const struct port_listing requests = {true, "/requests", "requests",
		"TIME                     METHOD  STATUS         MS         IN        OUT  PATH", "no requests yet",
		print_request};
	return show_list(c, argc, argv, &requests);
}

/* ---- open ---- */

/* An exposed port keeps its token and its name: it is not exposed again. */
static int expose_if_needed(struct client *cl, const struct args *a, struct buf *ret_answer, struct err *e)
{
	auto_buf struct buf path = {0};
	port_path(&path, a, "");
	int status = client_ask(cl, "GET", buf_cstr(&path), STR(""), ret_answer, e);
	if (status < 0 || status == 200)
		return status < 0 ? -1 : 0;
	buf_clear(ret_answer);
	return client_call(cl, "POST", buf_cstr(&path), STR("{}"), ret_answer, e);
}

int verb_open(struct cli *c, int argc, char **argv)
{
	struct args a;
	struct err e;
	int code;
	if (!take_words(c, argc, argv, true, &a, &code))
		return code;
	auto_client struct client cl = {0};
	auto_buf struct buf answer = {0};
	if (client_open(c, &cl, &e) < 0 || expose_if_needed(&cl, &a, &answer, &e) < 0)
		return port_fail(c, &a, &e);
	auto_json struct json_doc *d = json_parse(buf_str(&answer), &e);
	const char *url = NULL;
	if (!d || json_read_cstr(json_root(d), "url", &url, &e) < 0)
		return cli_fail(c, &e);
	if (url)
		browser_open(url);
	return print_url(c, &answer, &e) < 0 ? cli_fail(c, &e) : 0;
}
