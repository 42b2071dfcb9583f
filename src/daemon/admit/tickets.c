#include "daemon/admit/tickets.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/admit/secret_text.h"
#include "daemon/route/handlers.h"
#include "proto/id.h"

static const struct purpose {
	const char *name, *route; /* what follows the sandbox's id */
	bool upgrade, path;
} purposes[] = {
	{"terminal", "/ws/pty", true, false},
	{"exec", "/ws/exec", true, false},
	{"watch", "/ws", true, false},
	{"download", "/api/file", false, true},
};

struct ticket {
	char text[SECRET_TEXT_LEN + 1]; /* "": free */
	char id[BOX_ID_MAX + 1];
	char token[TOKEN_NAME_MAX + 1]; /* that asked for it; "": none with a name */
	const struct purpose *purpose;
	char *path; /* of a download, owned */
	uint64_t due;
};

struct tickets {
	struct loop *loop;
	struct ticket v[TICKETS_MAX];
};

struct tickets *tickets_new(struct loop *l)
{
	struct tickets *t = xcalloc(1, sizeof *t);
	t->loop = l;
	return t;
}

static void ticket_clear(struct ticket *k)
{
	free(k->path);
	*k = (struct ticket){0};
}

/* A free place; else the one that ends first makes room. */
static struct ticket *place(struct tickets *t)
{
	struct ticket *oldest = &t->v[0];
	uint64_t now = loop_now(t->loop);
	for (size_t i = 0; i < TICKETS_MAX; i++) {
		struct ticket *k = &t->v[i];
		if (*k->text && k->due <= now)
			ticket_clear(k);
		if (!*k->text)
			return k;
		if (k->due < oldest->due)
			oldest = k;
	}
	ticket_clear(oldest);
	return oldest;
}

bool tickets_is_parameter(struct str parameter)
{
	auto_buf struct buf value = {0};
	struct err e;
	return http_query_get(parameter, STR("ticket"), &value, &e) != 0;
}

static bool permits(const struct ticket *k, const struct daemon_request *r)
{
	const struct http_request *q = http_request(r->x);
	auto_buf struct buf path = {0};
	struct err e;
	if (strcmp(k->id, r->match.id) != 0 || !str_eq_c(r->match.rest, k->purpose->route) || q->method != HTTP_M_GET ||
		q->upgrade != k->purpose->upgrade)
		return false;
	return !k->purpose->path ||
	       (http_query_get(q->query, STR("path"), &path, &e) == 1 && str_eq_c(buf_str(&path), k->path));
}

bool tickets_admit(struct tickets *t, struct daemon_request *r)
{
	auto_buf struct buf given = {0};
	struct err e;
	if (http_query_get(http_request(r->x)->query, STR("ticket"), &given, &e) != 1 ||
		buf_size(&given) != SECRET_TEXT_LEN)
		return false;
	for (size_t i = 0; i < TICKETS_MAX; i++) {
		struct ticket *k = &t->v[i];
		if (!*k->text || !str_eq_secret(str_of(k->text), buf_str(&given)))
			continue;
		bool good = k->due > loop_now(t->loop) && permits(k, r);
		bool download = good && k->purpose->path;
		if (good)
			snprintf(r->caller.token, sizeof r->caller.token, "%s", k->token);
		ticket_clear(k); /* also by a request that it does not permit */
		if (download) {
			http_respond_header(r->x, STR("Content-Disposition"), STR("attachment"));
			http_respond_header(r->x, STR("X-Content-Type-Options"), STR("nosniff"));
			http_respond_header(r->x, STR("Content-Security-Policy"), STR("sandbox"));
		}
		return good;
	}
	return false;
}

void tickets_forget_token(struct tickets *t, const char *name)
{
	for (size_t i = 0; i < TICKETS_MAX; i++)
		if (*t->v[i].text && strcmp(t->v[i].token, name) == 0)
			ticket_clear(&t->v[i]);
}

/* ---- POST /v1/tickets ---- */

static int read_ticket(struct str body, struct ticket *ret, struct err *e)
{
	struct str id = STR_NULL, wanted = STR_NULL;
	const char *path = NULL;
	auto_json struct json_doc *doc = json_parse(body, e);
	const struct json *o = doc ? json_root(doc) : NULL;
	if (!doc)
		return -1;
	if (json_read_str(o, "sandbox", &id, e) < 0 || json_read_str(o, "for", &wanted, e) < 0 ||
		json_read_cstr(o, "path", &path, e) < 0)
		return -1;
	if (!id.p)
		return err_field(e, "sandbox", "field 'sandbox' must be the id of a sandbox");
	if (box_id_check(id, e) < 0)
		return err_about(e, "sandbox");
	for (size_t i = 0; wanted.p && i < ARRAY_LEN(purposes); i++)
		if (str_eq_c(wanted, purposes[i].name))
			ret->purpose = &purposes[i];
	if (!ret->purpose)
		return err_field(e, "for", "field 'for' must be terminal, exec, watch or download");
	if (ret->purpose->path && (!path || !*path || strlen(path) > TICKET_PATH_MAX))
		return err_field(e, "path", "field 'path' must be the path of the file to download");
	snprintf(ret->id, sizeof ret->id, "%.*s", STR_ARG(id));
	ret->path = ret->purpose->path ? xstrdup(path) : NULL;
	return 0;
}

static void answer(struct daemon_request *r, const struct ticket *k)
{
	char iso[CLOCK_ISO_LEN];
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "ticket", k->text);
	json_member_cstr(&w, "sandbox", k->id);
	json_member_cstr(&w, "for", k->purpose->name);
	json_member_cstr(&w, "expiresAt", clock_iso(clock_wall_ms() + TICKET_LIFE, iso));
	json_object_end(&w);
	daemon_request_json(r, 201, buf_str(&out));
}

void handle_tickets(struct daemon_request *r)
{
	struct err e;
	struct ticket made = {0};
	if (read_ticket(r->body, &made, &e) < 0)
		return daemon_request_error(r, &e);
	secret_text(made.text);
	snprintf(made.token, sizeof made.token, "%s", r->caller.token);
	made.due = loop_now(r->daemon->loop) + TICKET_LIFE;
	struct ticket *k = place(r->daemon->tickets);
	*k = made;
	answer(r, k);
}
