/*
 * secret.c - `atoll secret`: values that the gate puts into requests, and no box ever sees.
 *
 * The value comes from standard input: a prompt without an echo on a terminal, else the input up to its end without
 * the last line feed. It never stands on the command line, where every user of the machine could read it.
 */
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/api.h"
#include "cli/args.h"
#include "cli/client.h"
#include "cli/verb/delete.h"
#include "cli/verb/listing.h"
#include "cli/verbs.h"
#include "proto/limits.h"
#include "proto/secret_in.h"

struct secret_options {
	struct arg_list hosts, in;
	const char *env, *header;
	const char *aws, *region, *service;
};

/* ---- the value ---- */

static int read_hidden(char *value, size_t size, struct err *e)
{
	struct termios old, hidden;
	if (tcgetattr(STDIN_FILENO, &old) < 0)
		return err_os(e, ERRC_INVALID_REQUEST, errno, "read the terminal");
	hidden = old;
	hidden.c_lflag &= ~(tcflag_t)ECHO;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
	fputs("Value (not shown): ", stderr);
	bool got = fgets(value, (int)size, stdin) != NULL;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
	fputc('\n', stderr);
	return got ? 0 : err_set(e, ERRC_INVALID_REQUEST, "no value was given");
}

static int read_value(char *value, size_t size, struct err *e)
{
	if (isatty(STDIN_FILENO)) {
		if (read_hidden(value, size, e) < 0)
			return -1;
	} else {
		ssize_t n = fd_read_full(STDIN_FILENO, value, size - 1);
		if (n < 0)
			return err_os(e, ERRC_INVALID_REQUEST, (int)-n, "read the value from standard input");
		value[n] = 0;
	}
	size_t n = strlen(value);
	if (n && value[n - 1] == '\n')
		value[--n] = 0;
	if (n && value[n - 1] == '\r')
		value[--n] = 0;
	return n ? 0
		 : err_set(e, ERRC_INVALID_REQUEST,
			   "no value was given: pipe it in, as in 'pass show openai | atoll secret set …'");
}

static void write_list(struct json_writer *w, const char *key, const struct arg_list *list)
{
	json_key(w, key);
	json_array_begin(w);
	for (size_t i = 0; i < list->n; i++)
		json_cstr(w, list->items[i]);
	json_array_end(w);
}

static void write_body(struct buf *body, const struct secret_options *o, const char *value)
{
	struct json_writer w = json_writer(body);
	json_object_begin(&w);
	json_member_cstr(&w, "value", value);
	write_list(&w, "hosts", &o->hosts);
	if (o->in.n)
		write_list(&w, "in", &o->in);
	if (o->env)
		json_member_cstr(&w, "env", o->env);
	if (o->header)
		json_member_cstr(&w, "header", o->header);
	if (o->aws) {
		json_key(&w, "aws");
		json_object_begin(&w);
		json_member_cstr(&w, "accessKeyId", o->aws);
		if (o->region)
			json_member_cstr(&w, "region", o->region);
		if (o->service)
			json_member_cstr(&w, "service", o->service);
		json_object_end(&w);
	}
	json_object_end(&w);
}

static int set(struct cli *c, const char *name, const struct secret_options *o, struct err *e)
{
	char value[SECRET_VALUE_MAX + 3];
	auto_buf struct buf path = {0}, body = {.wipe = true}, answer = {0};
	if (read_value(value, sizeof value, e) < 0)
		return -1;
	buf_add_c(&path, "/v1/secrets/");
	client_percent_encode(&path, name);
	write_body(&body, o, value);
	explicit_bzero(value, sizeof value);
	if (client_once(c, "PUT", buf_cstr(&path), buf_str(&body), &answer, e) < 0)
		return -1;
	if (c->json)
		cli_print(&answer);
	else
		printf("%s\n", name);
	return 0;
}

/* ---- the rest ---- */

static void put_words(struct buf *to, const struct json *list)
{
	json_each(it, list) buf_printf(to, "%s%.*s", buf_size(to) ? " " : "", STR_ARG(it->text));
}

static bool is_usual(const struct json *in)
{
	size_t i = 0;
	json_each(it, in)
	{
		if (i == secret_in_usual_n || !str_eq_c(it->text, secret_in_usual[i++]))
			return false;
	}
	return i == secret_in_usual_n;
}

/* Daemons that know no places replace placeholders anywhere as well. */
static bool is_anywhere(const struct json *secret)
{
	return json_is_null(json_get(secret, "in"));
}

static void add_row(struct table *t, const struct json *it)
{
	auto_buf struct buf hosts = {0}, in = {0};
	put_words(&hosts, json_get(it, "hosts"));
	put_words(&in, json_get(it, "in"));
	table_add(t, api_text(it, "name"));
	table_add(t, buf_str(&hosts));
	table_add(t, is_anywhere(it)		    ? STR("anywhere")
		     : is_usual(json_get(it, "in")) ? STR("usual headers")
						    : buf_str(&in));
	table_add(t, api_text(it, "env"));
	table_add(t, json_is_null(json_get(it, "lastUsedAt")) ? STR("never") : api_text(it, "lastUsedAt"));
}

static const char *const heads[] = {"NAME", "HOSTS", "IN", "VARIABLE", "LAST USED"};
static const struct listing listing = {"secrets", heads, ARRAY_LEN(heads), add_row, "there are no secrets"};

static void warn_anywhere(const struct json *secrets)
{
	auto_buf struct buf names = {0};
	json_each(it, secrets)
	{
		if (!is_anywhere(it))
			continue;
		buf_add_c(&names, buf_size(&names) ? ", " : "");
		text_put_safe(&names, api_text(it, "name"));
	}
	if (buf_size(&names))
		fprintf(stderr,
			"atoll secret: placeholders of %s are replaced anywhere in the head of a request, as before: a "
			"host that\nshows its path or query to the client gives the value to the box. Set them anew "
			"('atoll secret set'), with --in if\nthe usual headers are not enough.\n",
			buf_cstr(&names));
}

static int list(struct cli *c, struct err *e)
{
	auto_json struct json_doc *d = api_once(c, "GET", "/v1/secrets", STR(""), e);
	if (!d)
		return -1;
	const struct json *secrets = json_get(json_root(d), "secrets");
	if (!c->json)
		listing_print(&listing, json_root(d));
	warn_anywhere(secrets);
	return 0;
}

static bool is_list(const char *word)
{
	return strcmp(word, "list") == 0 || strcmp(word, "ls") == 0;
}

static bool check(struct cli *c, const struct args *a, const struct secret_options *o, int *code)
{
	const char *what = a->n ? a->words[0] : "list";
	bool sets = strcmp(what, "set") == 0, lists = is_list(what), removes = strcmp(what, "rm") == 0;
	if (!sets && !lists && !removes)
		*code = cli_usage(c, "set, list or rm, not '%s'", what);
	else if (lists && a->n > 1)
		*code = cli_usage(c, "'%s' is one word too many", a->words[1]);
	else if (sets && a->n > 2)
		*code = cli_usage(c, "the value is read from standard input, never from the command line");
	else if (!lists && (a->n < 2 || !*a->words[1]))
		*code = cli_usage(c, "which secret? Write its name");
	else if (sets && !o->hosts.n)
		*code = cli_usage(c, "where may it go? Write --host api.example.com");
	else if ((o->region || o->service) && !o->aws)
		*code = cli_usage(c, "--region and --service go with --aws KEYID");
	else
		return true;
	return false;
}

int verb_secret(struct cli *c, int argc, char **argv)
{
	struct secret_options o = {0};
	const struct arg table[] = {
		{"host", "NAME", "where the value may go, over TLS; may be repeated", ARG_LIST, &o.hosts},
		{"in", "PLACE", "where its placeholder may stand: header:NAME, query:NAME, path; may be repeated",
			ARG_LIST, &o.in},
		{"env", "VAR", "variable of a box that holds the placeholder", ARG_TEXT, &o.env, 'e'},
		{"header", "LINE", "header to set, as in 'Authorization: Bearer {}'", ARG_TEXT, &o.header},
		{"aws", "KEYID", "the value is the secret of this AWS access key: sign requests", ARG_TEXT, &o.aws},
		{"region", "NAME", "with --aws: the region", ARG_TEXT, &o.region},
		{"service", "NAME", "with --aws: the service, as in s3", ARG_TEXT, &o.service}, ARG_TABLE_END};
	struct args a = {.command_after = ARGS_NO_COMMAND};
	struct err e;
	int code;
	if (!args_parse(c, table, argc, argv, &a, &code) || !check(c, &a, &o, &code))
		return code;
	const char *what = a.n ? a.words[0] : "list";
	if (strcmp(what, "rm") == 0)
		return delete_from(c, "/v1/secrets/", a.words + 1, a.n - 1);
	int r = strcmp(what, "set") == 0 ? set(c, a.words[1], &o, &e) : list(c, &e);
	return r < 0 ? cli_fail(c, &e) : 0;
}
