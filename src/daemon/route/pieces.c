#include "daemon/route/pieces.h"

#include <string.h>

#include "daemon/limits.h"

/* A client that does not read is waited for by on_writable, as is the connection's next part of a turn. */
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
		http_respond_more(r->x);
	}
}

static void on_writable(struct http_exchange *x)
{
	run(http_exchange_arg(x));
}

static void on_close(struct http_exchange *x, bool complete)
{
	struct pieces *p = http_exchange_arg(x);
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
	struct pieces_list l;
	struct str left; /* of l.ids */
	bool begun;
};

static void begin(struct id_list *l, struct json_writer *w)
{
	l->begun = true;
	if (l->l.key)
		json_list_begin(w, l->l.key);
	else
		json_array_begin(w);
}

static bool next_objects(struct pieces *p, struct json_writer *w)
{
	struct id_list *l = container_of(p, struct id_list, pieces);
	if (!l->begun)
		begin(l, w);
	for (int i = 0; l->left.n && i < API_PIECE_ITEMS && buf_size(w->out) < API_PIECE; i++) {
		const char *id = l->left.p;
		l->left = str_skip(l->left, strlen(id) + 1);
		l->l.write(w, p->r, l->l.arg, id);
	}
	if (l->left.n)
		return true;
	json_array_end(w);
	if (l->l.tail)
		l->l.tail(w, p->r);
	if (l->l.key)
		json_object_end(w);
	return false;
}

static void free_list(struct pieces *p)
{
	struct id_list *l = container_of(p, struct id_list, pieces);
	if (l->l.free)
		l->l.free(l->l.arg);
	buf_free(&l->l.ids);
	free(l);
}

void pieces_list_add(struct pieces_list *l, const char *id)
{
	buf_add(&l->ids, id, strlen(id) + 1);
}

void pieces_list(struct daemon_request *r, struct pieces_list *given)
{
	struct id_list *l = xcalloc(1, sizeof *l);
	*l = (struct id_list){.pieces = {.next = next_objects, .free = free_list}, .l = *given};
	given->ids = (struct buf){0};
	given->arg = NULL;
	l->left = buf_str(&l->l.ids);
	pieces_start(&l->pieces, r);
}
