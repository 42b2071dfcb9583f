#include "agent/api.h"
#include "agent/file/path.h"
#include "agent/file/replace.h"

/* PUT /api/file?path=: the body is the new content, byte for byte, of any size. */

struct put {
	struct file_replace to;
	const struct route *route;
	char *path; /* as the client wrote it */
};

static const struct http_exchange_ops no_ops;

static void put_free(struct put *p)
{
	file_replace_abort(&p->to);
	free(p->path);
	free(p);
}

static void put_fail(struct http_exchange *x, struct put *p, const struct err *e)
{
	struct agent_request r = {.x = x, .route = p->route};
	http_exchange_set(x, &no_ops, NULL);
	agent_request_fail_file(&r, e, p->path, NULL);
	put_free(p);
}

static void on_body(struct http_exchange *x, struct str chunk)
{
	struct put *p = http_exchange_arg(x);
	struct err e;
	if (file_replace_write(&p->to, chunk, &e) < 0)
		put_fail(x, p, &e);
}

static void on_body_end(struct http_exchange *x)
{
	struct put *p = http_exchange_arg(x);
	struct err e;
	if (file_replace_finish(&p->to, &e) < 0)
		return put_fail(x, p, &e);
	http_exchange_set(x, &no_ops, NULL);
	struct agent_request r = {.x = x, .route = p->route};
	agent_request_done(&r, p->path, NULL, NULL);
	put_free(p);
}

/* The client went away before the end of the body: the old content stays. */
static void on_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	put_free(http_exchange_arg(x));
}

/* ?mode=755: octal digits. Without it the file keeps its mode, and a new one gets 0666 under the umask. */
static int query_mode(struct agent_request *r, bool *ret_given, mode_t *ret, struct err *e)
{
	auto_buf struct buf text = {0};
	int found = http_query_get(http_request(r->x)->query, STR("mode"), &text, e);
	char *end;
	if (found <= 0)
		return found;
	unsigned long mode = strtoul(buf_cstr(&text), &end, 8);
	if (*end || !buf_size(&text) || mode > 0777)
		return err_field(e, "mode", "field 'mode' must be octal digits up to 777");
	*ret_given = true;
	*ret = (mode_t)mode;
	return 0;
}

void api_file_put(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {
		.on_body = on_body, .on_body_end = on_body_end, .on_close = on_close};
	auto_free char *path = NULL, *given = NULL;
	struct err e;
	bool has_mode = false;
	mode_t mode = 0;
	if (agent_request_query_path(r, &path, &given, &e) < 0 || query_mode(r, &has_mode, &mode, &e) < 0)
		return agent_request_refuse(r, &e);
	struct put *p = xcalloc(1, sizeof *p);
	*p = (struct put){.to = FILE_REPLACE_INIT, .route = r->route, .path = take_ptr(&given)};
	if (file_replace_open(&p->to, path, &e) < 0)
		return put_fail(r->x, p, &e);
	if (has_mode)
		p->to.mode = mode;
	http_exchange_set(r->x, &ops, p);
	if (http_body_ended(r->x))
		on_body_end(r->x);
}
