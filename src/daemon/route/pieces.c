#include "daemon/route/pieces.h"

#include "daemon/limits.h"

static void run(struct pieces *p);

static void on_again(struct loop_timer *t)
{
	run(container_of(t, struct pieces, again));
}

/* A client that does not read is waited for by on_writable. */
static void run(struct pieces *p)
{
	struct daemon_request *r = p->r;
	auto_buf struct buf piece = {0};
	struct json_writer w = {.out = &piece, .comma = p->comma};
	bool more = p->next(p, &w);
	p->comma = w.comma;
	bool room = http_respond_write(r->x, buf_str(&piece));
	if (!more) {
		http_respond_end(r->x);
		daemon_request_answered(r, 200);
	} else if (room) {
		loop_timer_set(r->daemon->loop, &p->again, 0, on_again);
	}
}

static void on_writable(struct http_exchange *x)
{
	struct pieces *p = http_exchange_arg(x);
	if (!p->again.pos)
		run(p);
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct pieces *p = http_exchange_arg(x);
	loop_timer_stop(&p->again);
	daemon_request_retake(p->r);
	p->free(p);
	daemon_request_closed(x, complete);
}

void pieces_start(struct pieces *p, struct daemon_request *r)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = on_close};
	p->r = r;
	http_exchange_set(r->x, &ops, p);
	http_respond_header(r->x, STR("Content-Type"), STR("application/json"));
	http_respond_begin(r->x, 200, HTTP_CHUNKED);
	run(p);
}

/* ---- lists of objects with ids ---- */

struct id_list {
	struct pieces pieces;
	const char *key;
	struct pieces_ids ids;
	size_t at;
	pieces_write write;
};

static bool next_objects(struct pieces *p, struct json_writer *w)
{
	struct id_list *l = container_of(p, struct id_list, pieces);
	if (!l->at)
		json_list_begin(w, l->key);
	while (l->at < l->ids.n && buf_size(w->out) < API_PIECE)
		l->write(w, p->r->daemon, l->ids.v[l->at++]);
	if (l->at < l->ids.n)
		return true;
	json_list_end(w);
	return false;
}

static void free_list(struct pieces *p)
{
	struct id_list *l = container_of(p, struct id_list, pieces);
	free(l->ids.v);
	free(l);
}

void pieces_list(struct daemon_request *r, const char *key, struct pieces_ids ids, pieces_write write)
{
	struct id_list *l = xcalloc(1, sizeof *l);
	*l = (struct id_list){
		.pieces = {.next = next_objects, .free = free_list}, .key = key, .ids = ids, .write = write};
	pieces_start(&l->pieces, r);
}
