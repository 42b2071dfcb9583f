#include <stdio.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/limits.h"
#include "agent/process/process.h"
#include "agent/request/events.h"
#include "agent/request/route.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/json.h"
#include "http/limits.h"
#include "http/sse.h"

/*
 * GET /api/process/{id}/stream: the log of the process, then its new output, then its end. Every event of output has an
 * id. A client that comes back with Last-Event-ID (or ?lastEventId=) goes on after that event without losing or
 * repeating a byte. A slow client falls behind in the log and delays nobody.
 *
 * Where output is missing (the log has a cap, the disk may be full), the next event has the number of bytes as
 * `dropped`, and its text begins with a line that says so.
 *
 * Not in upstream's API: ?follow=false ends with {"type":"end"} at the present end of the log; ?encoding=base64 carries
 * bytes that are no text, without that line.
 */

struct follow {
	struct process_follower f;
	struct http_exchange *x;
	struct process *p;
	struct proclog_at at;
	bool ended;
	bool once;   /* do not wait for more */
	bool base64; /* output byte for byte */
	struct loop_timer beat;
};

static void begin_event(struct json_writer *w, const char *type, const struct process *p, int64_t wall_ms)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "type", type);
	json_member_cstr(w, "processId", p->id);
	json_member_cstr(w, "timestamp", clock_iso(wall_ms, iso));
}

static bool send_info(struct follow *s)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	begin_event(&w, "process_info", s->p, clock_wall_ms());
	json_member_cstr(&w, "command", s->p->command);
	json_member_cstr(&w, "status", process_status_name(s->p->status));
	json_object_end(&w);
	return sse_send(s->x, NULL, STR_NULL, buf_str(&b));
}

static void send_exit(struct follow *s)
{
	auto_buf struct buf b = {0};
	char text[64];
	snprintf(text, sizeof text, "Process completed with exit code %d", process_exit_code(s->p));
	struct json_writer w = json_writer(&b);
	begin_event(&w, "exit", s->p, s->p->end_ms);
	json_member_i64(&w, "exitCode", process_exit_code(s->p));
	json_member_cstr(&w, "data", text);
	json_member_cstr(&w, "outcome", outcome_name(s->p->result.outcome));
	json_object_end(&w);
	sse_send(s->x, NULL, STR_NULL, buf_str(&b));
}

static void send_end(struct follow *s)
{
	auto_buf struct buf b = {0};
	struct json_writer w = json_writer(&b);
	begin_event(&w, "end", s->p, clock_wall_ms());
	json_member_cstr(&w, "status", process_status_name(s->p->status));
	json_object_end(&w);
	sse_send(s->x, NULL, STR_NULL, buf_str(&b));
}

static bool send_record(struct follow *s, const struct proclog_record *rec)
{
	struct buf *b = events_buffer();
	char id[24], note[96];
	struct json_writer w = json_writer(b);
	begin_event(&w, rec->stream == CMD_STDOUT ? "stdout" : "stderr", s->p, rec->wall_ms);
	if (rec->skipped)
		json_member_u64(&w, "dropped", rec->skipped);
	if (s->base64)
		json_member_cstr(&w, "encoding", "base64");
	json_key(&w, "data");
	buf_add_byte(b, '"');
	if (rec->skipped && !s->base64) {
		int n = snprintf(note, sizeof note, PROCLOG_NOTE, (unsigned long long)rec->skipped);
		json_put_piece(b, str_n(note, (size_t)n), true);
	}
	if (s->base64)
		base64_append(b, str_n(rec->bytes, rec->n));
	else
		json_put_piece(b, str_n(rec->bytes, rec->n), true);
	buf_add_c(b, "\"}");
	int n = snprintf(id, sizeof id, "%llu", (unsigned long long)s->at.bytes);
	return sse_send(s->x, NULL, str_n(id, (size_t)n), buf_str(b));
}

static void follow_pour(struct follow *s)
{
	struct proclog_record rec;
	bool room = http_respond_pending(s->x) < HTTP_OUT_HIGH, over = process_is_over(s->p);
	while (room && !s->ended && proclog_read(&s->p->log, &s->at, &rec))
		room = send_record(s, &rec);
	if (!room || s->ended || !(over || s->once))
		return;
	s->ended = true;
	if (over)
		send_exit(s);
	else
		send_end(s);
	http_respond_end(s->x);
}

static void on_news(struct process_follower *f)
{
	follow_pour(container_of(f, struct follow, f));
}

static void on_writable(struct http_exchange *x)
{
	follow_pour(http_exchange_arg(x));
}

static void follow_client_gone(struct http_exchange *x, bool complete)
{
	(void)complete;
	struct follow *s = http_exchange_arg(x);
	loop_timer_stop(&s->beat);
	process_unfollow(s->p, &s->f);
	free(s);
}

static void on_beat(struct loop_timer *t)
{
	struct follow *s = container_of(t, struct follow, beat);
	if (!s->ended)
		sse_comment(s->x);
	loop_timer_set(agent.loop, t, SSE_BEAT, on_beat);
}

void api_process_stream(struct agent_request *r)
{
	static const struct http_exchange_ops ops = {.on_writable = on_writable, .on_close = follow_client_gone};
	auto_buf struct buf mem = {0}, mem2 = {0}, mem3 = {0};
	struct process *p = agent_request_process(r);
	if (!p)
		return;
	struct str last = http_header_value(&http_request(r->x)->headers, STR("Last-Event-ID"));
	uint64_t id = 0;
	if (!last.n)
		last = agent_request_query(r, STR("lastEventId"), &mem);
	struct follow *s = xcalloc(1, sizeof *s);
	*s = (struct follow){.f.on_news = on_news, .x = r->x, .p = p};
	s->once = str_eq_c(agent_request_query(r, STR("follow"), &mem2), "false");
	s->base64 = str_eq_c(agent_request_query(r, STR("encoding"), &mem3), "base64");
	if (str_to_u64(last, UINT64_MAX, &id))
		s->at = proclog_resume(&p->log, id);
	list_push(&p->followers, &s->f.node);
	http_exchange_set(r->x, &ops, s);
	sse_begin(r->x);
	send_info(s);
	loop_timer_set(agent.loop, &s->beat, SSE_BEAT, on_beat);
	follow_pour(s);
}
