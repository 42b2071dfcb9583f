/*
 * /v1/sandboxes/{id}/restore and /replace.
 *
 * Restoring a backup takes as long as its bytes do. With ?follow=1 the answer is an event stream: progress, then done
 * or error; a client that leaves it while the backup is read has changed nothing.
 */
#include <stdio.h>

#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "http/sse.h"

/* What a client follows: request.extra. */
struct restore_follower {
	struct daemon_request *r;
	struct loop_timer timer; /* of keep-alive comments */
	bool told;		 /* with events */
	bool full;		 /* the client does not read: progress is left out */
};

static struct restore_follower *following_of(const struct daemon_request *r)
{
	return r->extra;
}

static void on_keep_alive(struct loop_timer *t)
{
	struct restore_follower *f = container_of(t, struct restore_follower, timer);
	if (!f->full)
		f->full = !sse_comment(f->r->x);
	loop_timer_set(f->r->daemon->loop, t, EVENTS_KEEP_ALIVE, on_keep_alive);
}

static void tell_progress(void *arg, const char *phase, uint64_t bytes, uint64_t total)
{
	struct restore_follower *f = following_of(arg);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!f->told || f->full)
		return;
	json_object_begin(&w);
	json_member_cstr(&w, "type", "progress");
	json_member_cstr(&w, "phase", phase);
	json_member_u64(&w, "bytes", bytes);
	json_member_u64(&w, "total", total);
	json_object_end(&w);
	f->full = !sse_send(f->r->x, NULL, STR_NULL, buf_str(&out));
}

static void tell_end(struct http_exchange *x, const struct err *e)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "type", e ? "error" : "done");
	if (e) {
		json_member_cstr(&w, "code", errc_info(e->code)->code);
		json_member_cstr(&w, "message", e->msg);
	}
	json_object_end(&w);
	sse_send(x, NULL, STR_NULL, buf_str(&out));
	http_respond_end(x);
}

static void on_writable(struct http_exchange *x)
{
	following_of(http_exchange_arg(x))->full = false;
}

/* A client that leaves ends the reading of a backup (op_forget), but not the exchange of the files. */
static void on_follower_close(struct http_exchange *x, bool complete)
{
	struct daemon_request *r = http_exchange_arg(x);
	loop_timer_stop(&following_of(r)->timer);
	daemon_request_closed(x, complete);
}

static void follow(void *arg)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = on_follower_close};
	struct daemon_request *r = arg;
	struct restore_follower *f = following_of(r);
	f->told = true;
	http_exchange_set(r->x, &ops, r);
	sse_begin(r->x);
	daemon_request_answered(r, 200);
	loop_timer_set(r->daemon->loop, &f->timer, EVENTS_KEEP_ALIVE, on_keep_alive);
}

static const struct op_follow *following_ops(struct daemon_request *r)
{
	static const struct op_follow ops = {.on_load = follow, .on_progress = tell_progress};
	return daemon_request_follows(r) ? &ops : NULL;
}

static void on_restored(void *arg, const struct op_result *result)
{
	struct daemon_request *r = daemon_request_done(arg);
	struct restore_follower *f = following_of(r);
	loop_timer_stop(&f->timer);
	if (f->told) {
		daemon_request_retake(r);
		tell_end(r->x, result->err);
	} else if (result->err) {
		daemon_request_error(r, result->err);
	} else {
		daemon_request_view(r, 200, result->sandbox, NULL);
	}
}

static struct op_call begin(struct daemon_request *r)
{
	struct restore_follower *f = xcalloc(1, sizeof *f);
	f->r = r;
	r->extra = f;
	return daemon_request_call(r, on_restored);
}

/* The only member of the body, which must have one of these names. */
static const struct json *only_member(
	const struct json *root, const char *const *names, const char *said, struct err *e)
{
	const struct json *found = NULL;
	const char *name = *names;
	for (; *names && !found; names++)
		found = root->type == JSON_T_OBJECT && root->count == 1 ? json_get(root, name = *names) : NULL;
	if (!found)
		err_field(e, name, "the body must be an object with the field %s alone", said);
	return found;
}

void handle_replace(struct daemon_request *r)
{
	static const char *const names[] = {"from", NULL};
	struct api_from from = {0};
	struct err e;
	if (!daemon_request_find(r))
		return;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	const struct json *given = doc ? only_member(json_root(doc), names, "'from'", &e) : NULL;
	if (!given || api_from_read(given, &from, &e) < 0)
		return daemon_request_error(r, &e);
	const struct op_call call = begin(r);
	r->op = op_replace(&call, &(struct op_files){.from = &from, .follow = following_ops(r)});
}

void handle_restore(struct daemon_request *r)
{
	static const char *const names[] = {"backup", "snapshot", NULL};
	struct api_from from = {0};
	struct err e;
	struct str text = STR_NULL;
	if (!daemon_request_find(r))
		return;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	const struct json *given = doc ? only_member(json_root(doc), names, "'snapshot' or 'backup'", &e) : NULL;
	bool backup = given && str_eq_c(given->key, "backup");
	if (!given || json_read_str(json_root(doc), backup ? "backup" : "snapshot", &text, &e) < 0)
		return daemon_request_error(r, &e);
	/* A text that is too long is the id of none, cut or not. */
	snprintf(backup ? from.backup : from.snapshot, SNAPSHOT_NAME_MAX + 1, "%.*s", STR_ARG(text));
	const struct op_call call = begin(r);
	r->op = op_restore(&call, &(struct op_files){.from = &from, .of_its_own = true, .follow = following_ops(r)});
}
