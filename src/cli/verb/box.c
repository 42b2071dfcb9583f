#include "cli/verb/box.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/api.h"
#include "proto/limits.h"

bool box_is_network_mode(const char *text)
{
	return strcmp(text, "open") == 0 || strcmp(text, "list") == 0 || strcmp(text, "off") == 0;
}

bool box_is_time(const char *text)
{
	struct str s = str_of(text);
	uint64_t n;
	s.n -= s.n > 1 && strchr("smh", s.p[s.n - 1]);
	return str_to_u64(s, UINT32_MAX, &n);
}

/* "90" is seconds; the daemon takes a text only with a unit. */
static void write_sleep_after(struct json_writer *w, const char *text)
{
	uint64_t seconds;
	if (str_to_u64(str_of(text), UINT32_MAX, &seconds))
		json_member_u64(w, "sleepAfter", seconds);
	else
		json_member_cstr(w, "sleepAfter", text);
}

static void write_backup(struct json_writer *w, const struct box_options *o)
{
	uint64_t seconds;
	bool bare = str_to_u64(str_of(o->backup_every), UINT32_MAX, &seconds);
	char text[24];
	json_key(w, "backup");
	if (bare && seconds == 0) {
		json_null(w);
		return;
	}
	snprintf(text, sizeof text, "%llus", (unsigned long long)(bare ? seconds : 0));
	json_object_begin(w);
	json_member_cstr(w, "every", bare ? text : o->backup_every);
	if (o->backup_keep)
		json_member_u64(w, "keep", o->backup_keep);
	json_object_end(w);
}

static bool is_set(const struct box_options *o, struct str key)
{
	struct str value;
	for (size_t i = 0; i < o->labels.n; i++)
		if (str_eq(str_split(str_of(o->labels.items[i]), '=', &value), key))
			return true;
	return false;
}

/* The labels that the box has, with those of the options set. */
static void write_labels(struct json_writer *w, const struct box_options *o, const struct json *own)
{
	json_key(w, "labels");
	json_object_begin(w);
	json_each(it, own)
	{
		auto_free char *key = str_dup(it->key);
		if (!is_set(o, it->key))
			json_member_str(w, key, it->text);
	}
	for (size_t i = 0; i < o->labels.n; i++) {
		struct str value, name = str_split(str_of(o->labels.items[i]), '=', &value);
		auto_free char *key = str_dup(name);
		json_member_str(w, key, value);
	}
	json_object_end(w);
}

bool box_options_given(const struct box_options *o)
{
	return o->image || o->user || o->memory || o->cpu_milli || o->pids || o->disk || o->instance ||
	       o->sleep_after || o->network || o->keep_alive || o->no_keep_alive || o->env.n || o->labels.n ||
	       o->secrets.n || o->volumes.n || o->backup_every;
}

/* PUT replaces all labels, so those that are there are asked for first. NULL: none, or no such box. */
static struct json_doc *read_labels(struct client *cl, const char *id, const struct json **ret)
{
	auto_buf struct buf path = {0}, body = {0};
	struct err e;
	*ret = NULL;
	client_box_path(&path, id, "");
	if (client_call(cl, "GET", buf_cstr(&path), STR(""), &body, &e) < 0)
		return NULL;
	struct json_doc *d = json_parse(buf_str(&body), &e);
	*ret = d ? json_get(json_root(d), "labels") : NULL;
	return d;
}

bool box_volume_split(const char *text, struct str *ret_name, struct str *ret_path, bool *ret_read_only)
{
	struct str rest;
	*ret_name = str_split(str_of(text), ':', &rest);
	*ret_read_only = rest.n > 3 && str_eq_c(str_skip(rest, rest.n - 3), ":ro");
	*ret_path = str_n(rest.p, rest.n - (*ret_read_only ? 3 : 0));
	return ret_name->n && ret_path->n && ret_path->p[0] == '/' && str_index(*ret_path, ':') < 0;
}

static void write_volumes(struct json_writer *w, const struct arg_list *volumes)
{
	json_key(w, "volumes");
	json_array_begin(w);
	for (size_t i = 0; i < volumes->n; i++) {
		struct str name, path;
		bool read_only;
		box_volume_split(volumes->items[i], &name, &path, &read_only);
		json_object_begin(w);
		json_member_str(w, "name", name);
		json_member_str(w, "path", path);
		if (read_only)
			json_member_bool(w, "readOnly", true);
		json_object_end(w);
	}
	json_array_end(w);
}

static void write_spec(struct buf *b, const struct box_options *o, const struct json *labels)
{
	struct json_writer w = json_writer(b);
	json_object_begin(&w);
	if (o->image)
		json_member_cstr(&w, "image", o->image);
	if (o->user)
		json_member_cstr(&w, "user", o->user);
	if (o->secrets.n) {
		json_key(&w, "secrets");
		json_array_begin(&w);
		for (size_t k = 0; k < o->secrets.n; k++)
			json_cstr(&w, o->secrets.items[k]);
		json_array_end(&w);
	}
	if (o->volumes.n)
		write_volumes(&w, &o->volumes);
	if (o->instance)
		json_member_cstr(&w, "instance", o->instance);
	if (o->sleep_after)
		write_sleep_after(&w, o->sleep_after);
	if (o->backup_every)
		write_backup(&w, o);
	if (o->keep_alive || o->no_keep_alive)
		json_member_bool(&w, "keepAlive", o->keep_alive);
	if (o->network) {
		json_key(&w, "network");
		json_object_begin(&w);
		json_member_cstr(&w, "mode", o->network);
		json_object_end(&w);
	}
	api_write_env(&w, "envChanges", o->env.items, o->env.n);
	if (o->labels.n)
		write_labels(&w, o, labels);
	if (o->memory || o->cpu_milli || o->pids || o->disk) {
		json_key(&w, "limits");
		json_object_begin(&w);
		if (o->memory)
			json_member_u64(&w, "memory", o->memory);
		if (o->cpu_milli)
			json_member_double(&w, "cpu", (double)o->cpu_milli / 1000);
		if (o->pids)
			json_member_u64(&w, "pids", o->pids);
		if (o->disk)
			json_member_u64(&w, "disk", o->disk);
		json_object_end(&w);
	}
	json_object_end(&w);
}

int box_put(struct client *cl, const char *id, const struct box_options *o, struct buf *ret_body, struct err *e)
{
	auto_buf struct buf path = {0}, spec = {0};
	const struct json *labels = NULL;
	auto_json struct json_doc *own = o->labels.n ? read_labels(cl, id, &labels) : NULL;
	(void)own; /* holds the labels */
	client_box_path(&path, id, "");
	write_spec(&spec, o, labels);
	return client_call(cl, "PUT", buf_cstr(&path), buf_str(&spec), ret_body, e);
}

int box_delete(struct client *cl, const char *id, struct err *e)
{
	auto_buf struct buf path = {0}, body = {0};
	client_box_path(&path, id, "");
	return client_call(cl, "DELETE", buf_cstr(&path), STR(""), &body, e) < 0 ? -1 : 0;
}

/* One page; *next becomes the id to go on after, or "". */
static int list_page(struct client *cl, box_on_each each, void *arg, char next[BOX_ID_MAX + 1], struct err *e)
{
	auto_buf struct buf path = {0}, body = {0};
	buf_add_c(&path, "/v1/sandboxes?limit=100&after=");
	client_percent_encode(&path, next);
	if (client_call(cl, "GET", buf_cstr(&path), STR(""), &body, e) < 0)
		return -1;
	auto_json struct json_doc *d = json_parse(buf_str(&body), e);
	struct str id = STR_NULL;
	if (!d || json_read_str(json_root(d), "next", &id, e) < 0)
		return err_wrap(e, "list of boxes from %s", cl->where);
	json_each(box, json_get(json_root(d), "sandboxes")) if (each(arg, box, e) < 0) return -1;
	snprintf(next, BOX_ID_MAX + 1, "%.*s", STR_ARG(id));
	return 0;
}

int box_each(struct client *cl, box_on_each each, void *arg, struct err *e)
{
	char next[BOX_ID_MAX + 1] = "";
	do
		if (list_page(cl, each, arg, next, e) < 0)
			return -1;
	while (*next);
	return 0;
}

const char *box_size_text(uint64_t bytes, char ret[24])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	size_t u = 0;
	double v = (double)bytes;
	for (; v >= 1024 && u + 1 < ARRAY_LEN(units); u++)
		v /= 1024;
	snprintf(ret, 24, v < 10 && u > 0 ? "%.1f %s" : "%.0f %s", v, units[u]);
	return ret;
}

const char *box_age_text(struct str iso, char ret[24])
{
	struct tm tm = {0};
	char text[32];
	ret[0] = 0;
	snprintf(text, sizeof text, "%.*s", STR_ARG(iso));
	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
		    &tm.tm_sec) != 6)
		return ret;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	int64_t s = clock_wall_ms() / 1000 - (int64_t)timegm(&tm);
	s = s < 0 ? 0 : s;
	if (s < 120)
		snprintf(ret, 24, "%lld s", (long long)s);
	else if (s < 7200)
		snprintf(ret, 24, "%lld min", (long long)s / 60);
	else
		snprintf(ret, 24, "%lld h", (long long)s / 3600);
	return ret;
}
