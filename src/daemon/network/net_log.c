#include "daemon/network/net_log.h"

#include <stdio.h>

#include "base/clock.h"
#include "daemon/limits.h"

struct net_log {
	char *records[NET_LOG_MAX]; /* a ring */
	size_t head, n;
	uint64_t lost; /* that made room */
	struct net_totals totals;
	struct followers followers;
};

static struct net_log *get(struct net_log **log)
{
	if (!*log) {
		*log = xcalloc(1, sizeof **log);
		followers_init(&(*log)->followers, NET_FOLLOWERS_MAX);
	}
	return *log;
}

static void copy(struct json_writer *w, const struct json *record, const char *name)
{
	const struct json *j = json_get(record, name);
	auto_buf struct buf text = {0};
	if (json_is_null(j))
		return json_member_cstr(w, name, NULL);
	json_put_tree(&text, j);
	json_key(w, name);
	json_raw(w, buf_str(&text));
}

/* The gate's record as clients see it: its time as text, its members and no others. */
static char *render(const struct json *record)
{
	static const char *const names[] = {
		"name", "address", "port", "protocol", "decision", "rule", "sent", "received", "ms", "end"};
	auto_buf struct buf out = {.max = NET_LOG_RECORD_MAX};
	struct json_writer w = json_writer(&out);
	char iso[CLOCK_ISO_LEN];
	uint64_t time = 0;
	json_read_u64(record, "time", 0, INT64_MAX, &time, NULL);
	json_object_begin(&w);
	json_member_cstr(&w, "time", clock_iso((int64_t)time, iso));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		copy(&w, record, names[i]);
	if (json_get(record, "times"))
		copy(&w, record, "times");
	json_object_end(&w);
	return out.failed ? NULL : str_dup(buf_str(&out));
}

void net_totals_add(struct net_totals *t, const struct json *record)
{
	struct str decision = STR_NULL;
	uint64_t sent = 0, received = 0, times = 1;
	json_read_u64(record, "times", 1, UINT32_MAX, &times, NULL);
	json_read_str(record, "decision", &decision, NULL);
	json_read_u64(record, "sent", 0, UINT64_MAX / 2, &sent, NULL);
	json_read_u64(record, "received", 0, UINT64_MAX / 2, &received, NULL);
	bool denied = str_eq_c(decision, "deny");
	t->denied += denied ? times : 0;
	t->connections += denied ? 0 : times;
	t->sent += sent;
	t->received += received;
}

static void push(struct net_log *l, char *text)
{
	size_t at = (l->head + l->n) % NET_LOG_MAX;
	if (l->n == NET_LOG_MAX) {
		free(l->records[l->head]);
		l->head = (l->head + 1) % NET_LOG_MAX;
		l->lost++;
	} else {
		l->n++;
	}
	l->records[at] = text;
}

static void show(struct net_log *l, const struct json *record)
{
	char *text = render(record);
	if (!text)
		return;
	push(l, text);
	followers_send(&l->followers, str_of(text));
}

void net_log_add(struct net_log **log, const struct json *record)
{
	struct net_log *l = get(log);
	net_totals_add(&l->totals, record);
	show(l, record);
}

void net_log_gate_restarted(struct net_log **log, int64_t now)
{
	static const char text[] =
		"{\"time\":%lld,\"port\":0,\"protocol\":\"tcp\",\"decision\":\"deny\",\"rule\":\"the gate was "
		"restarted\","
		"\"sent\":0,\"received\":0,\"ms\":0,\"end\":\"connections that were open have been cut\"}";
	char record[sizeof text + 24];
	snprintf(record, sizeof record, text, (long long)now);
	auto_json struct json_doc *d = json_parse(str_of(record), NULL);
	if (d)
		show(get(log), json_root(d));
}

struct net_totals net_log_totals(const struct net_log *log)
{
	return log ? log->totals : (struct net_totals){0};
}

void net_log_write(const struct net_log *log, struct json_writer *w)
{
	json_key(w, "log");
	json_array_begin(w);
	for (size_t i = 0; log && i < log->n; i++)
		json_raw(w, str_of(log->records[(log->head + i) % NET_LOG_MAX]));
	json_array_end(w);
	json_member_u64(w, "lost", log ? log->lost : 0);
}

int net_log_follow(struct net_log **log, const struct follow *how, struct err *e)
{
	struct net_log *n = get(log);
	struct follower *f = followers_add(&n->followers, how, e);
	if (!f)
		return -1;
	for (size_t i = 0; i < n->n; i++)
		follower_send(f, str_of(n->records[(n->head + i) % NET_LOG_MAX]));
	return 0;
}

void net_log_free(struct net_log *log)
{
	if (!log)
		return;
	followers_end(&log->followers);
	for (size_t i = 0; i < log->n; i++)
		free(log->records[(log->head + i) % NET_LOG_MAX]);
	free(log);
}
