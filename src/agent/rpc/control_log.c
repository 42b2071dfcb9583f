#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/rpc/control.h"
#include "base/clock.h"

/*
 * Logs as events. A cursor is "<id>:<bytes>", where bytes counts the output up to the end of the event, or "<id>:end"
 * behind the last event. A reader whose output was dropped meanwhile gets one event `truncated` in its place.
 */

#define END "end"

static void put_at(const struct control_reader *rd, struct proclog_at *ret)
{
	*ret = proclog_resume(rd->log.log, rd->log.log->bytes);
}

int control_reader_since(struct control_reader *rd, struct str cursor, const char **why)
{
	struct str id = str_of(rd->log.id);
	uint64_t bytes = 0;
	bool over = rd->log.is_over(rd->log.owner);
	if (!cursor.n)
		return 0;
	if (!str_starts(cursor, id) || cursor.n <= id.n || cursor.p[id.n] != ':') {
		*why = "the cursor belongs to another log";
		return -1;
	}
	struct str at = str_skip(cursor, id.n + 1);
	if (str_eq_c(at, END) && over) {
		put_at(rd, &rd->at);
		rd->wants_end = false;
		return 0;
	}
	if (!str_to_u64(at, UINT64_MAX, &bytes) || bytes > rd->log.log->bytes) {
		*why = "no event of this log has that cursor";
		return -1;
	}
	rd->at = proclog_resume(rd->log.log, bytes);
	if (rd->at.bytes == bytes)
		return 0;
	*why = "no event of this log has that cursor";
	return -1;
}

static bool is(const struct json *value, bool yes)
{
	return value && value->type == JSON_T_BOOL && value->boolean == yes;
}

int control_reader_open(struct control_reader *rd, const struct json *options, const char **why)
{
	const struct json *since = control_option(options, "since");
	bool over = rd->log.is_over(rd->log.owner);
	rd->follow = is(control_option(options, "follow"), true);
	rd->until = rd->log.log->bytes;
	rd->wants_end = rd->follow || over;
	if (since && (since->type != JSON_T_STRING || !since->text.n)) {
		*why = "a cursor must be a text that is not empty";
		return -1;
	}
	if (since && control_reader_since(rd, since->text, why) < 0)
		return -1;
	if (is(control_option(options, "replay"), false)) {
		put_at(rd, &rd->at);
		rd->wants_end = rd->wants_end && !over;
	}
	return 0;
}

enum control_event control_reader_next(struct control_reader *rd)
{
	if (rd->has_record) {
		rd->has_record = false;
		rd->at.bytes += rd->record.n;
		return EVENT_OUTPUT;
	}
	bool past = !rd->follow && rd->at.bytes >= rd->until;
	if (!past && proclog_read(rd->log.log, &rd->at, &rd->record)) {
		if (!rd->record.skipped)
			return EVENT_OUTPUT;
		/* The gap is told first, with the cursor before the record. */
		rd->has_record = rd->record.n > 0;
		rd->at.bytes -= rd->record.n;
		return EVENT_TRUNCATED;
	}
	if (!rd->log.is_over(rd->log.owner))
		return rd->follow ? EVENT_NONE : EVENT_END;
	if (!rd->wants_end)
		return EVENT_END;
	rd->wants_end = false;
	return EVENT_TERMINAL;
}

void control_reader_cursor(const struct control_reader *rd, enum control_event ev, char ret[CONTROL_CURSOR_LEN])
{
	if (ev == EVENT_TERMINAL)
		snprintf(ret, CONTROL_CURSOR_LEN, "%s:" END, rd->log.id);
	else
		snprintf(ret, CONTROL_CURSOR_LEN, "%s:%llu", rd->log.id, (unsigned long long)rd->at.bytes);
}

void control_put_exit(struct json_writer *w, int code, int signal, bool timed_out)
{
	json_key(w, "exit");
	json_object_begin(w);
	json_member_i64(w, "code", code);
	if (signal)
		json_member_i64(w, "signal", signal);
	json_member_bool(w, "timedOut", timed_out);
	json_object_end(w);
}

/* ---- subscriptions ---- */

static const char *type_of(const struct control_reader *rd, enum control_event ev)
{
	if (ev == EVENT_TERMINAL)
		return "terminal";
	if (ev == EVENT_TRUNCATED)
		return "truncated";
	if (rd->log.terminal)
		return "data";
	return rd->record.stream == CMD_STDOUT ? "stdout" : "stderr";
}

static void put_event(struct buf *b, const struct control_reader *rd, enum control_event ev)
{
	char iso[CLOCK_ISO_LEN], cursor[CONTROL_CURSOR_LEN];
	struct json_writer w = json_writer(b);
	int64_t ms = ev == EVENT_TERMINAL ? rd->log.end_ms(rd->log.owner) : rd->record.wall_ms;
	control_reader_cursor(rd, ev, cursor);
	json_object_begin(&w);
	json_member_cstr(&w, "type", type_of(rd, ev));
	if (rd->log.terminal)
		json_member_cstr(&w, "terminalId", rd->log.id);
	json_member_cstr(&w, "cursor", cursor);
	json_member_cstr(&w, "timestamp", clock_iso(ms, iso));
	if (ev == EVENT_TERMINAL)
		rd->log.put_end(&w, rd->log.owner);
	if (ev == EVENT_OUTPUT) {
		json_key(&w, "data");
		capnweb_put_bytes(b, str_n(rd->record.bytes, rd->record.n));
		w.comma = true;
	}
	json_object_end(&w);
}

struct feed {
	struct control_reader reader;
	struct process_follower follower;
	struct control_sub *sub;
	struct loop_task task;
	bool ready; /* the client takes events */
	void (*unfollow)(void *owner, struct process_follower *f);
};

static void feed_free(struct feed *f)
{
	list_del(&f->task.node);
	f->unfollow(f->reader.log.owner, &f->follower);
	free(f);
}

static void pour(struct feed *f)
{
	while (f->ready) {
		enum control_event ev = control_reader_next(&f->reader);
		if (ev == EVENT_NONE)
			return;
		auto_buf struct buf b = {0};
		if (ev != EVENT_END) {
			put_event(&b, &f->reader, ev);
			f->ready = control_sub_put(f->sub, buf_str(&b));
		}
		if (ev == EVENT_TERMINAL || ev == EVENT_END) {
			control_sub_end(f->sub, NULL);
			return feed_free(f);
		}
	}
}

static void on_ready(void *arg)
{
	struct feed *f = arg;
	f->ready = true;
	pour(f);
}

static void on_cancel(void *arg)
{
	feed_free(arg);
}

static void run_task(struct loop_task *task)
{
	pour(container_of(task, struct feed, task));
}

/* Later: a frame that is sent can end the session, and with it other followers of the same log. */
static void on_news(struct process_follower *follower)
{
	struct feed *f = container_of(follower, struct feed, follower);
	if (f->ready)
		loop_defer(agent.loop, &f->task, run_task);
}

void control_log_open(struct rpc *r, struct capnweb_call *call, const struct control_log *log, struct list *followers,
	void (*unfollow)(void *owner, struct process_follower *f))
{
	static const struct control_source source = {.on_ready = on_ready, .on_cancel = on_cancel};
	const struct json *options = capnweb_call_arg(call, 1), *since = control_option(options, "since");
	struct feed *f = xcalloc(1, sizeof *f);
	const char *why = NULL;
	*f = (struct feed){.reader.log = *log, .follower.on_news = on_news, .unfollow = unfollow};
	if (control_reader_open(&f->reader, options, &why) < 0) {
		auto_free char *cursor = since && since->type == JSON_T_STRING ? str_dup(since->text) : NULL;
		const char *details[] = {
			log->terminal ? "terminalId" : "processId", log->id, "cursor", cursor, "reason", why, NULL};
		control_reject(
			call, log->terminal ? "INVALID_TERMINAL_CURSOR" : "INVALID_PROCESS_CURSOR", why, details);
		return free(f);
	}
	list_push(followers, &f->follower.node);
	if (control_sub_open(r, call, &source, f, &f->sub) < 0)
		feed_free(f);
}
