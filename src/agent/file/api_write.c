#include "agent/agent.h"
#include "agent/api.h"
#include "agent/file/path.h"
#include "agent/file/write_body.h"
#include "agent/request/aside.h"
#include "agent/request/fields.h"

/*
 * Writes a file: POST /api/write (JSON, here) and PUT /api/file?path= (raw bytes, api_file_put.c). Both use constant
 * memory for every size.
 */

struct write {
	struct http_exchange *x;
	const struct route *route;
	struct write_body body;
	struct loop_timer again;
};

static const struct http_exchange_ops no_ops;

static void write_free(struct write *w)
{
	loop_timer_stop(&w->again);
	write_body_free(&w->body);
	free(w);
}

static void write_fail(struct write *w, const struct err *e)
{
	struct agent_request r = {.x = w->x, .route = w->route};
	http_exchange_set(w->x, &no_ops, NULL);
	if (w->body.bad_base64)
		agent_request_invalid_code(&r, "content", e->msg, "INVALID_BASE64");
	else if (e->code == ERRC_VALIDATION_FAILED || e->code == ERRC_INVALID_JSON)
		agent_request_refuse(&r, e);
	else
		agent_request_fail_file(&r, e, buf_cstr(&w->body.path), NULL);
	write_free(w);
}

static void on_again(struct loop_timer *t);

/* Decodes or copies a long content in steps, so that other requests get their turn in between. */
static void go_on(struct write *w)
{
	struct err e = {0};
	int more = write_body_step(&w->body, &e);
	if (more < 0)
		return write_fail(w, &e);
	if (more > 0)
		return loop_timer_set(agent.loop, &w->again, 0, on_again);
	struct agent_request r = {.x = w->x, .route = w->route};
	http_exchange_set(w->x, &no_ops, NULL);
	agent_request_done(&r, buf_cstr(&w->body.path), NULL, NULL);
	write_free(w);
}

static void on_again(struct loop_timer *t)
{
	go_on(container_of(t, struct write, again));
}

static void on_body(struct http_exchange *x, struct str chunk)
{
	struct write *w = http_exchange_arg(x);
	struct err e = {0};
	if (write_body_feed(&w->body, chunk, &e) < 0)
		write_fail(w, &e);
}

static void on_body_end(struct http_exchange *x)
{
	struct write *w = http_exchange_arg(x);
	struct err e = {0};
	if (w->body.found_n)
		fields_warn(x, w->body.found, w->body.found_n);
	if (write_body_end(&w->body, &e) < 0)
		write_fail(w, &e);
	else
		go_on(w);
}

/* The client went away before the end: the old content stays. */
static void on_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	write_free(http_exchange_arg(x));
}

static void begin(struct http_exchange *x, const struct route *route)
{
	static const struct http_exchange_ops ops = {
		.on_body = on_body, .on_body_end = on_body_end, .on_close = on_close};
	struct write *w = xcalloc(1, sizeof *w);
	w->x = x;
	w->route = route;
	write_body_init(&w->body);
	http_exchange_set(x, &ops, w);
}

/* The whole body is there: it can be asked for its path before anything is done. */
static void on_whole_body(struct http_exchange *x, struct str text)
{
	struct agent_request r = {.x = x, .route = http_exchange_arg(x)};
	struct err e;
	struct json_doc *doc = json_parse(text, &e);
	r.body = doc && json_root(doc)->type == JSON_T_OBJECT ? json_root(doc) : NULL;
	auto_free char *waits = aside_path(&r);
	json_free(doc);
	http_exchange_set(x, &no_ops, NULL);
	if (waits)
		return aside_run(&r, text, waits);
	begin(x, r.route);
	on_body(x, text);
	if (http_exchange_arg(x))
		on_body_end(x);
}

/* In a box with FUSE mounts the path decides who writes; a body that is too long to wait for goes to a helper. */
static void ask_first(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_whole_body = on_whole_body};
	int64_t length = http_request(r->x)->content_length;
	if (length < 0 || length > WRITE_ASK_MAX)
		return aside_run(r, STR_NULL, "");
	http_exchange_set(r->x, &ops, (void *)r->route);
	http_collect(r->x, WRITE_ASK_MAX);
}

void api_write(struct agent_request *r)
{
	if (aside_asks())
		return ask_first(r);
	begin(r->x, r->route);
	if (http_body_ended(r->x))
		on_body_end(r->x);
}
