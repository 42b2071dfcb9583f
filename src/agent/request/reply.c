#include "agent/request/reply.h"

#include "base/base64.h"
#include "base/json.h"

/* Raw bytes per step: a multiple of 3 for base64; escaping makes at most six of one. */
enum { STEP = 12 * 1024, WHOLE_MAX = 16 * 1024 };

struct part {
	struct buf text;
	struct spool spool; /* comes after the text */
	bool has_spool, base64;
};

struct reply {
	struct part part[REPLY_SPOOLS_MAX + 1];
	int n;	      /* parts in use */
	int at;	      /* part that is being sent */
	bool inside;  /* its text is out, its spool is being sent … */
	uint64_t off; /* … from here */
};

struct reply *reply_new(void)
{
	struct reply *p = xcalloc(1, sizeof *p);
	for (size_t i = 0; i < ARRAY_LEN(p->part); i++)
		p->part[i].spool = SPOOL_INIT;
	p->n = 1;
	return p;
}

void reply_free(struct reply *p)
{
	for (size_t i = 0; i < ARRAY_LEN(p->part); i++) {
		buf_free(&p->part[i].text);
		spool_free(&p->part[i].spool);
	}
	free(p);
}

struct buf *reply_text(struct reply *p)
{
	return &p->part[p->n - 1].text;
}

void reply_add_spool(struct reply *p, struct spool *s, bool base64)
{
	struct part *part = &p->part[p->n - 1];
	INVARIANT(p->n <= REPLY_SPOOLS_MAX);
	part->spool = *s;
	part->has_spool = true;
	part->base64 = base64;
	*s = SPOOL_INIT;
	p->n++;
}

/* Renders the next piece into `out`. 1: more follows, 0: that was the last, -1: a spool cannot be read. */
static int next_piece(struct reply *p, struct buf *out)
{
	struct part *part = &p->part[p->at];
	if (!p->inside) {
		buf_add_str(out, buf_str(&part->text));
		if (!part->has_spool)
			return 0;
		buf_add_byte(out, '"');
		p->inside = true;
		p->off = 0;
		return 1;
	}
	char raw[STEP];
	ssize_t n = spool_read(&part->spool, p->off, raw, sizeof raw);
	if (n < 0 || (n == 0 && p->off < part->spool.size))
		return -1; /* somebody in the box has cut the file short: its end would never come */
	bool last = p->off + (uint64_t)n >= part->spool.size;
	p->off += (uint64_t)n;
	if (part->base64)
		base64_append(out, str_n(raw, (size_t)n));
	else
		p->off -= json_put_piece(out, str_n(raw, (size_t)n), last);
	if (last) {
		buf_add_byte(out, '"');
		p->inside = false;
		p->at++;
	}
	return 1;
}

static void pour(struct http_exchange *x)
{
	struct reply *p = http_exchange_arg(x);
	int more;
	bool room;
	do {
		auto_buf struct buf piece = {0};
		more = next_piece(p, &piece);
		room = http_respond_write(x, buf_str(&piece));
	} while (more == 1 && room);
	if (more == 0)
		http_respond_end(x);
	else if (more < 0)
		http_abort(x);
}

static void on_close(struct http_exchange *x, bool complete)
{
	(void)complete;
	reply_free(http_exchange_arg(x));
}

static const struct http_exchange_ops stream_ops = {.on_writable = pour, .on_close = on_close};
static const struct http_exchange_ops no_ops;

static void send_whole(struct reply *p, struct http_exchange *x, int status)
{
	auto_buf struct buf all = {0};
	int more;
	do
		more = next_piece(p, &all);
	while (more == 1);
	http_exchange_set(x, &no_ops, NULL);
	if (more < 0)
		http_abort(x);
	else
		http_respond(x, status, "application/json", buf_str(&all));
	reply_free(p);
}

void reply_send(struct reply *p, struct http_exchange *x, int status)
{
	uint64_t total = 0;
	for (int i = 0; i < p->n; i++)
		total += p->part[i].spool.size;
	if (total <= WHOLE_MAX)
		return send_whole(p, x, status);
	http_respond_put_extra(x, reply_text(p));
	http_exchange_set(x, &stream_ops, p);
	http_respond_header(x, STR("Content-Type"), STR("application/json"));
	http_respond_begin(x, status, HTTP_CHUNKED);
	pour(x);
}
