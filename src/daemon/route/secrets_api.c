/* /v1/secrets: made, listed, deleted; a value comes in and never goes out. */
#include "base/json.h"
#include "daemon/network/secrets.h"
#include "daemon/route/handlers.h"
#include "daemon/route/pieces.h"

static void not_found(struct daemon_request *r)
{
	struct err e;
	err_set(&e, ERRC_NOT_FOUND, "there is no secret '%s'", r->match.secret);
	daemon_request_error(r, &e);
}

static void answer(struct daemon_request *r, int status)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!secrets_show(r->daemon, r->match.secret, &w))
		return not_found(r);
	daemon_request_json(r, status, buf_str(&out));
}

void handle_secret_put(struct daemon_request *r)
{
	struct err e;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	int made = doc ? secrets_put(r->daemon, r->match.secret, doc, &e) : -1;
	http_forget_body(r->x);
	if (made < 0)
		return daemon_request_error(r, &e);
	answer(r, made ? 201 : 200);
}

static void write_listed(struct json_writer *w, const struct daemon_request *r, void *arg, const char *name)
{
	(void)arg;
	secrets_show(r->daemon, name, w);
}

static void add_name(void *list, const char *name)
{
	pieces_list_add(list, name);
}

void handle_secrets(struct daemon_request *r)
{
	struct pieces_list l = {.key = "secrets", .write = write_listed};
	secrets_names(r->daemon, add_name, &l);
	pieces_list(r, &l);
}

void handle_secret_get(struct daemon_request *r)
{
	answer(r, 200);
}

void handle_secret_delete(struct daemon_request *r)
{
	if (!secrets_delete(r->daemon, r->match.secret))
		return not_found(r);
	daemon_request_json(r, 200, STR("{\"success\":true}"));
}
