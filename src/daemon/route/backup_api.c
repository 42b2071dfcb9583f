/* /v1/backups, /v1/backups/{backup} and /v1/sandboxes/{id}/backups. */
#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/pieces.h"
#include "daemon/storage/backups.h"

/* A request that waits for the list of backups, and what it wants then. */
struct backup_call {
	struct daemon_request *r;
	struct backup_wish wish;
	bool wait;
	void (*run)(struct backup_call *c);
};

static void answer_one(struct daemon_request *r, int status, const struct backup *b)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	backup_write(&w, b);
	daemon_request_json(r, status, buf_str(&out));
}

static void on_known(void *arg, const struct err *e)
{
	struct backup_call *c = arg;
	struct daemon_request *r = c->r;
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		c->run(c);
	free(c);
	daemon_request_release(r);
}

static void when_known(struct daemon_request *r, const struct backup_call *call)
{
	struct backup_call *c = xcalloc(1, sizeof *c);
	*c = *call;
	c->r = r;
	daemon_request_hold(r);
	backups_when_known(r->daemon, on_known, c);
}

/* ---- make ---- */

static void on_made(void *arg, struct backup *b, const struct err *e)
{
	struct daemon_request *r = arg;
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		answer_one(r, 201, b);
	daemon_request_release(r);
}

static void run_make(struct backup_call *c)
{
	struct daemon_request *r = c->r;
	struct err e;
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	if (daemon_request_warden_is_away(r))
		return;
	if (c->wait)
		daemon_request_hold(r);
	struct backup *b = backup_make(s, &c->wish, c->wait ? on_made : NULL, r, &e);
	if (b && c->wait)
		return;
	if (c->wait)
		daemon_request_release(r);
	if (b)
		answer_one(r, 202, b);
	else
		daemon_request_error(r, &e);
}

static int read_wish(struct str body, struct backup_call *c, struct err *e)
{
	struct str name = STR_NULL;
	uint64_t ttl = 0;
	c->wait = true;
	if (!body.n)
		return 0;
	auto_json struct json_doc *doc = json_parse(body, e);
	const struct json *root = doc ? json_root(doc) : NULL;
	if (!root)
		return -1;
	if (root->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
	json_each(it, root) if (!str_eq_c(it->key, "name") && !str_eq_c(it->key, "ttl") &&
				!str_eq_c(it->key, "wait")) return err_field(e, "body", "field '%.*s' is not known",
		(int)(it->key.n < 40 ? it->key.n : 40), it->key.p);
	if (json_read_str(root, "name", &name, e) < 0 || json_read_u64(root, "ttl", 1, BACKUP_TTL_MAX, &ttl, e) < 0 ||
		json_read_bool(root, "wait", &c->wait, e) < 0)
		return -1;
	if (name.n > SNAPSHOT_LABEL_MAX || (name.n && memchr(name.p, 0, name.n)))
		return err_field(e, "name", "field 'name' must have at most %d bytes and no NUL", SNAPSHOT_LABEL_MAX);
	memcpy(c->wish.name, name.n ? name.p : "", name.n);
	c->wish.ttl_ms = ttl * 1000;
	return 0;
}

void handle_backup_make(struct daemon_request *r)
{
	struct backup_call c = {.run = run_make};
	struct err e;
	if (!daemon_request_find(r))
		return;
	if (read_wish(r->body, &c, &e) < 0)
		return daemon_request_error(r, &e);
	when_known(r, &c);
}

/* ---- list ---- */

static void put_usage(struct json_writer *w, const struct daemon_request *r)
{
	bool one = *r->match.id != 0;
	struct backup_usage u = backups_usage(r->daemon, one ? r->match.id : NULL);
	uint64_t most = one ? r->daemon->config.backup_bytes : 0;
	json_key(w, "usage");
	json_object_begin(w);
	json_member_u64(w, "bytes", u.bytes);
	json_member_u64(w, "hidden", u.hidden);
	json_member_u64(w, "hiddenBytes", u.hidden_bytes);
	if (most)
		json_member_u64(w, "allowed", most);
	json_object_end(w);
}

static void write_listed(struct json_writer *w, const struct daemon_request *r, void *arg, const char *id)
{
	struct backup *b = backup_find(r->daemon, str_of(id));
	(void)arg;
	if (b)
		backup_write(w, b);
}

static void run_list(struct backup_call *c)
{
	struct daemon_request *r = c->r;
	struct pieces_list l = {.key = "backups", .write = write_listed, .tail = put_usage};
	size_t n;
	auto_free struct backup **v = backups_of(r->daemon, *r->match.id ? r->match.id : NULL, &n);
	for (size_t i = 0; i < n; i++)
		pieces_list_add(&l, v[i]->id);
	pieces_list(r, &l);
}

void handle_backups(struct daemon_request *r)
{
	when_known(r, &(struct backup_call){.run = run_list});
}

void handle_box_backups(struct daemon_request *r)
{
	when_known(r, &(struct backup_call){.run = run_list});
}

/* ---- one ---- */

static struct backup *find(struct daemon_request *r)
{
	struct err e;
	struct backup *b = backup_find(r->daemon, str_of(r->match.snapshot));
	if (!b) {
		err_set(&e, ERRC_BACKUP_NOT_FOUND, "there is no backup '%s'", r->match.snapshot);
		daemon_request_error(r, &e);
	}
	return b;
}

static void run_get(struct backup_call *c)
{
	struct backup *b = find(c->r);
	if (b)
		answer_one(c->r, 200, b);
}

static void on_deleted(void *arg, struct backup *b, const struct err *e)
{
	struct daemon_request *r = arg;
	(void)b;
	if (r->x && e)
		daemon_request_error(r, e);
	else if (r->x)
		daemon_request_empty(r);
	daemon_request_release(r);
}

static void run_delete(struct backup_call *c)
{
	struct backup *b = find(c->r);
	if (!b)
		return;
	daemon_request_hold(c->r);
	backup_delete(b, on_deleted, c->r);
}

void handle_backup_get(struct daemon_request *r)
{
	when_known(r, &(struct backup_call){.run = run_get});
}

void handle_backup_delete(struct daemon_request *r)
{
	when_known(r, &(struct backup_call){.run = run_delete});
}
