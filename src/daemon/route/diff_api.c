/*
 * GET /v1/sandboxes/{id}/diff?from=SNAPSHOT: what has changed since.
 *
 * The warden hands over a pipe with a list of names (cage/pool/diff.h). They are names that a box has made: they are
 * bounded, and bytes that are not UTF-8 are replaced. A list without its end is an error, never a shorter result. The
 * list is gathered, then written a piece at a time, kind by kind: as JSON it may be 64 MiB long.
 */
#include "base/fd.h"
#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/route/handlers.h"
#include "daemon/route/pieces.h"
#include "daemon/storage/snapshots.h"

struct diff {
	struct daemon_request *r;
	int fd;
	struct loop_io io;
	struct loop_timer timer;
	struct loop_task free_task;
	struct buf list;
};

static void diff_free(struct loop_task *t)
{
	struct diff *d = container_of(t, struct diff, free_task);
	buf_free(&d->list);
	free(d);
}

/* The last record says whether the list is whole. */
static char last_kind(struct str list)
{
	return list.n >= 2 && list.p[list.n - 1] == 0 && (list.n == 2 || list.p[list.n - 3] == 0) ? list.p[list.n - 2]
												  : 0;
}

/* The names on their way to the client. */
struct names {
	struct pieces pieces;
	struct buf list;
	struct str rest; /* of this kind */
	size_t kind;
	bool begun, truncated;
};

static const struct {
	char mark;
	const char *key;
} kinds[] = {{'A', "added"}, {'C', "changed"}, {'D', "deleted"}};

static void names_free(struct pieces *p)
{
	struct names *n = container_of(p, struct names, pieces);
	buf_free(&n->list);
	free(n);
}

/* False: the piece is full. */
static bool write_kind(struct names *n, struct json_writer *w, size_t *looked)
{
	char mark = kinds[n->kind].mark;
	while (n->rest.n) {
		if (buf_size(w->out) >= API_PIECE || *looked >= DIFF_STEP)
			return false;
		struct str one = str_split(n->rest, 0, &n->rest);
		*looked += one.n + 1;
		if (one.n > 1 && one.p[0] == mark)
			json_str(w, str_skip(one, 1));
	}
	return true;
}

static bool next_names(struct pieces *p, struct json_writer *w)
{
	struct names *n = container_of(p, struct names, pieces);
	size_t looked = 0;
	if (!n->begun)
		json_list_begin(w, kinds[0].key);
	n->begun = true;
	while (write_kind(n, w, &looked)) {
		json_array_end(w);
		if (++n->kind == ARRAY_LEN(kinds)) {
			json_member_bool(w, "truncated", n->truncated);
			json_object_end(w);
			return false;
		}
		n->rest = buf_str(&n->list);
		json_key(w, kinds[n->kind].key);
		json_array_begin(w);
	}
	return true;
}

static void answer(struct diff *d)
{
	struct daemon_request *r = d->r;
	struct str list = buf_str(&d->list);
	char last = last_kind(list);
	struct err e;
	if (last != 'E' && last != 'T') {
		err_set(&e, ERRC_INTERNAL_ERROR, "the comparison of sandbox '%s' did not come to its end", r->match.id);
		return daemon_request_error(r, &e);
	}
	struct names *n = xcalloc(1, sizeof *n);
	*n = (struct names){.pieces = {.next = next_names, .free = names_free}, .list = d->list};
	n->truncated = last == 'T';
	n->rest = buf_str(&n->list);
	d->list = (struct buf){0};
	pieces_start(&n->pieces, r);
}

static void diff_end(struct diff *d)
{
	struct daemon_request *r = d->r;
	loop_del(&d->io);
	loop_timer_stop(&d->timer);
	fd_close(&d->fd);
	if (r->x && !r->status)
		answer(d);
	loop_defer(r->daemon->loop, &d->free_task, diff_free);
	daemon_request_release(r);
}

static void on_late(struct loop_timer *t)
{
	diff_end(container_of(t, struct diff, timer));
}

static void on_readable(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct diff *d = container_of(io, struct diff, io);
	char *room = buf_room(&d->list, DIFF_READ);
	ssize_t n = room ? read(d->fd, room, DIFF_READ) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		buf_commit(&d->list, (size_t)n);
	if (n <= 0 || !d->r->x)
		diff_end(d);
}

static void on_pipe(struct sandbox *s, const struct warden_answer *a, void *arg)
{
	(void)s;
	struct diff *d = arg;
	struct daemon_request *r = d->r;
	struct err e;
	int added = -1;
	if (!a->err && a->fds_n == 1 && fd_set_nonblock(a->fds[0], true) == 0) {
		d->fd = a->fds[0];
		a->fds[0] = -1;
		added = loop_add(r->daemon->loop, &d->io, d->fd, EPOLLIN, on_readable);
	}
	if (added == 0)
		return loop_timer_set(r->daemon->loop, &d->timer, DIFF_TIMEOUT, on_late);
	err_set(&e, ERRC_INTERNAL_ERROR, "the warden's answer has no list");
	if (r->x && !r->status)
		daemon_request_error(r, a->err ? a->err : &e);
	diff_end(d);
}

void handle_diff(struct daemon_request *r)
{
	auto_buf struct buf from = {0};
	struct err e;
	struct sandbox *s = daemon_request_find(r);
	if (!s)
		return;
	if (http_query_get(http_request(r->x)->query, STR("from"), &from, &e) != 1) {
		err_field(&e, "from", "the query must name a snapshot: ?from=SNAPSHOT");
		return daemon_request_error(r, &e);
	}
	struct snapshot *snap = snapshot_find(r->daemon, s->id, buf_str(&from));
	if (!snap) {
		err_set(&e, ERRC_SNAPSHOT_NOT_FOUND, "sandbox '%s' has no snapshot '%.80s'", s->id, buf_cstr(&from));
		return daemon_request_error(r, &e);
	}
	if (daemon_request_warden_is_away(r))
		return;
	struct warden_request q = {.op = WARDEN_DIFF};
	struct diff *d = xcalloc(1, sizeof *d);
	*d = (struct diff){.r = r, .fd = -1, .list = {.max = DIFF_LIST_MAX}};
	memcpy(q.snapshot, snap->id, sizeof q.snapshot);
	memcpy(q.image, s->spec.image, sizeof q.image);
	daemon_request_hold(r);
	sandbox_ask(s, &q, on_pipe, d);
}
