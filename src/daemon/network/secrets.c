#include "daemon/network/secrets.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/network/gate_client.h"
#include "daemon/network/secrets_impl.h"
#include "http/http.h"
#include "proto/rule.h"
#include "proto/secret_in.h"
#include "store/item.h"

#define KIND "secret"

bool secrets_name_ok(struct str s)
{
	if (!s.n || s.n > SECRET_NAME_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool word = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
		if (!word && !(i && (c == '.' || c == '_' || c == '-')))
			return false;
	}
	return true;
}

struct known_secret *secrets_get(const struct daemon *d, struct str name)
{
	return map_get(&d->secrets->map, name);
}

static void free_secret(struct known_secret *k)
{
	free(k->about);
	free(k->sealed);
	free(k);
}

/* ---- reading a body ---- */

static int check_host(const struct json *j, struct err *e)
{
	struct rule r;
	if (j->type != JSON_T_STRING || rule_parse(j->text, &r, e) < 0)
		return err_field(e, "hosts",
			"field 'hosts' must be a list of names like \"api.example.com\" or \"*.example.com:8443\"");
	if (r.kind != RULE_NAME || r.udp || !*r.name)
		return err_field(e, "hosts", "'%.*s' in field 'hosts' must be a host name, or '*.' and one",
			(int)(j->text.n < 80 ? j->text.n : 80), j->text.p);
	return 0;
}

static int check_hosts(const struct json *hosts, struct err *e)
{
	if (json_is_null(hosts) || hosts->type != JSON_T_ARRAY || !hosts->count || hosts->count > SECRET_HOSTS_MAX)
		return err_field(e, "hosts", "field 'hosts' must be a list of 1 to %d host names", SECRET_HOSTS_MAX);
	json_each(it, hosts)
	{
		if (check_host(it, e) < 0)
			return -1;
	}
	return 0;
}

static int check_in(const struct json *body, struct err *e)
{
	const struct json *in = json_get(body, "in");
	if (json_is_null(in))
		return 0;
	bool ok = in->type == JSON_T_ARRAY && in->count <= SECRET_IN_MAX;
	json_each(it, ok ? in : NULL)
	{
		struct secret_in one;
		ok = ok && it->type == JSON_T_STRING && secret_in_parse(it->text, &one);
	}
	return ok ? 0
		  : err_field(e, "in",
			    "field 'in' must be a list of at most %d places like \"header:X-Api-Key\", \"query:key\" "
			    "or "
			    "\"path\"",
			    SECRET_IN_MAX);
}

static int check_header(const struct json *body, struct err *e)
{
	static const struct str own[] = {STR("Host"), STR("Content-Length"), STR("Transfer-Encoding"),
		STR("Connection"), STR("Upgrade"), STR("Expect"), STR("TE")};
	struct str text = STR_NULL, value;
	if (json_read_str(body, "header", &text, e) < 0)
		return err_about(e, "header");
	if (!text.p)
		return 0;
	struct str name = str_split(text, ':', &value);
	bool ok = text.n <= SECRET_HEADER_MAX && http_name_ok(name) && http_value_ok(str_trim(value)) &&
		  memmem(value.p, value.n, "{}", 2);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		ok = ok && !str_eq_nocase(name, own[i]);
	return ok ? 0
		  : err_field(e, "header",
			    "field 'header' must be a header line with {} in the value's place, like \"Authorization: "
			    "Bearer "
			    "{}\"");
}

static int check_aws(const struct json *body, struct err *e)
{
	static const char *const names[] = {"accessKeyId", "region", "service", "sessionToken"};
	const struct json *aws = json_get(body, "aws");
	if (json_is_null(aws))
		return 0;
	if (aws->type != JSON_T_OBJECT || !json_get(aws, "accessKeyId"))
		return err_field(
			e, "aws", "field 'aws' must be an object with accessKeyId, and region and service if you like");
	json_each(it, aws)
	{
		bool known = false;
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			known = known || str_eq_c(it->key, names[i]);
		if (!known || it->type != JSON_T_STRING || it->text.n > SECRET_VALUE_MAX || !http_value_ok(it->text))
			return err_field(
				e, "aws", "field 'aws' has accessKeyId, region, service and sessionToken: plain texts");
	}
	return 0;
}

static bool env_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!(((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || (i && c >= '0' && c <= '9')))
			return false;
	}
	return s.n && s.n <= 255;
}

static int check_known_fields(const struct json *body, struct err *e)
{
	static const char *const names[] = {"value", "hosts", "in", "env", "header", "aws"};
	if (body->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
	json_each(it, body)
	{
		bool known = false;
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			known = known || str_eq_c(it->key, names[i]);
		if (!known)
			return err_set(e, ERRC_VALIDATION_FAILED, "field '%.*s' is not known",
				(int)(it->key.n < 40 ? it->key.n : 40), it->key.p);
	}
	return 0;
}

/* The sentence says nothing of the value but its length. */
static int check_value(const struct json *body, struct err *e)
{
	struct str value = STR_NULL;
	if (json_read_str(body, "value", &value, e) < 0 || !value.n || value.n > SECRET_VALUE_MAX ||
		!http_value_ok(value))
		return err_field(e, "value",
			"field 'value' must be a text of 1 to %d characters that can stand in a header: no line ends, "
			"no "
			"blanks at its ends",
			SECRET_VALUE_MAX);
	return 0;
}

static int check_body(const struct json *body, struct err *e)
{
	struct str env = STR_NULL;
	if (check_known_fields(body, e) < 0 || check_value(body, e) < 0 ||
		check_hosts(json_get(body, "hosts"), e) < 0 || check_in(body, e) < 0 || check_header(body, e) < 0 ||
		check_aws(body, e) < 0)
		return -1;
	if (json_read_str(body, "env", &env, e) < 0 || (env.p && !env_ok(env)))
		return err_field(e, "env", "field 'env' must be a variable name ([A-Za-z_][A-Za-z0-9_]*)");
	return 0;
}

/* ---- rows ---- */

/* `o` may hold a value. */
static void copy_member(struct json_writer *w, const struct json *o, const char *name)
{
	auto_buf struct buf text = {.wipe = true};
	const struct json *j = json_get(o, name);
	if (json_is_null(j))
		return;
	json_put_tree(&text, j);
	json_key(w, name);
	json_raw(w, buf_str(&text));
}

/* A secret that does not say has the usual places; one that was set before there were places has none in its row. */
static void describe_in(struct json_writer *w, const struct json *body)
{
	if (!json_is_null(json_get(body, "in")))
		return copy_member(w, body, "in");
	json_key(w, "in");
	json_array_begin(w);
	for (size_t i = 0; i < secret_in_usual_n; i++)
		json_cstr(w, secret_in_usual[i]);
	json_array_end(w);
}

/* Everything but the value and the session token. */
static char *describe(const struct json *body)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	const struct json *aws = json_get(body, "aws");
	json_object_begin(&w);
	copy_member(&w, body, "hosts");
	describe_in(&w, body);
	copy_member(&w, body, "env");
	copy_member(&w, body, "header");
	if (!json_is_null(aws)) {
		json_key(&w, "aws");
		json_object_begin(&w);
		copy_member(&w, aws, "accessKeyId");
		copy_member(&w, aws, "region");
		copy_member(&w, aws, "service");
		json_object_end(&w);
	}
	json_object_end(&w);
	return str_dup(buf_str(&out));
}

static char *seal(const struct daemon *d, const char *name, const struct json *body, struct err *e)
{
	auto_buf struct buf text = {.wipe = true}, out = {0};
	struct json_writer w = json_writer(&text);
	json_object_begin(&w);
	copy_member(&w, body, "value");
	copy_member(&w, json_get(body, "aws"), "sessionToken");
	json_object_end(&w);
	return vault_seal(d->secrets->vault, name, buf_str(&text), &out, e) < 0 ? NULL : str_dup(buf_str(&out));
}

static void write_row(struct daemon *d, const struct known_secret *k)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "about");
	json_raw(&w, str_of(k->about));
	json_member_cstr(&w, "sealed", k->sealed);
	json_member_i64(&w, "used", k->used_ms);
	json_object_end(&w);
	struct store_item item = {
		.kind = KIND, .key = k->name, .sandbox = "", .created_ms = k->created_ms, .value = buf_cstr(&out)};
	store_item_put(d->store, &item, NULL, NULL);
}

static int on_item(void *arg, const struct store_item *item, struct err *e)
{
	struct daemon *d = arg;
	uint64_t used = 0;
	struct str sealed = STR_NULL;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), e);
	const struct json *o = doc ? json_root(doc) : NULL, *about = json_get(o, "about");
	if (!about || json_read_str(o, "sealed", &sealed, e) < 0 || !sealed.p ||
		json_read_u64(o, "used", 0, INT64_MAX, &used, e) < 0 || strlen(item->key) > SECRET_NAME_MAX)
		return err_set(e, ERRC_INTERNAL_ERROR, "the row of secret '%.64s' is damaged", item->key);
	struct known_secret *k = xcalloc(1, sizeof *k);
	auto_buf struct buf text = {0};
	json_put_tree(&text, about);
	snprintf(k->name, sizeof k->name, "%s", item->key);
	k->about = str_dup(buf_str(&text));
	k->sealed = str_dup(sealed);
	k->used_ms = (int64_t)used;
	k->created_ms = item->created_ms;
	map_put(&d->secrets->map, str_of(k->name), k);
	return 0;
}

int secrets_open(struct daemon *d, struct err *e)
{
	d->secrets = xcalloc(1, sizeof *d->secrets);
	if (vault_open(d->config.state_dir, &d->secrets->vault, e) < 0)
		return -1;
	return store_load_items(d->store, KIND, on_item, d, e);
}

/* ---- the API ---- */

/* The gate hears of it, and with it every box that has it. */
static void tell_sandboxes(struct daemon *d, const char *name)
{
	size_t it = 0;
	void *v;
	while (map_next(&d->boxes, &it, &(struct str){0}, &v))
		if (secrets_has(v, name))
			gate_client_secrets(d->gate, v);
}

int secrets_put(struct daemon *d, const char *name, struct json_doc *body, struct err *e)
{
	struct known_secret *k = map_get(&d->secrets->map, str_of(name));
	bool is_new = !k;
	char *sealed = NULL;
	if (is_new && d->secrets->map.count >= SECRETS_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "there are %d secrets already; delete some", SECRETS_MAX);
	bool ok = check_body(json_root(body), e) == 0 && (sealed = seal(d, name, json_root(body), e));
	if (ok && is_new) {
		k = xcalloc(1, sizeof *k);
		snprintf(k->name, sizeof k->name, "%s", name);
		k->created_ms = clock_wall_ms();
		map_put(&d->secrets->map, str_of(name), k);
	}
	if (ok) {
		free(k->about);
		free(k->sealed);
		k->about = describe(json_root(body));
		k->sealed = sealed;
	}
	json_wipe(body);
	if (!ok)
		return -1;
	write_row(d, k);
	tell_sandboxes(d, name);
	return is_new;
}

bool secrets_delete(struct daemon *d, const char *name)
{
	struct known_secret *k = map_del(&d->secrets->map, str_of(name));
	if (!k)
		return false;
	store_item_delete(d->store, KIND, name, NULL, NULL);
	tell_sandboxes(d, name);
	free_secret(k);
	return true;
}

/* Null: anywhere in the head. */
static void show_in(struct json_writer *w, const struct json *about)
{
	if (json_is_null(json_get(about, "in")))
		json_member_cstr(w, "in", NULL);
	else
		copy_member(w, about, "in");
}

static void show(const struct known_secret *k, struct json_writer *w)
{
	auto_json struct json_doc *doc = json_parse(str_of(k->about), NULL);
	const struct json *o = doc ? json_root(doc) : NULL;
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "name", k->name);
	copy_member(w, o, "hosts");
	show_in(w, o);
	copy_member(w, o, "env");
	copy_member(w, o, "header");
	copy_member(w, o, "aws");
	json_member_cstr(w, "createdAt", clock_iso(k->created_ms, iso));
	json_member_cstr(w, "lastUsedAt", k->used_ms ? clock_iso(k->used_ms, iso) : NULL);
	json_object_end(w);
}

bool secrets_show(const struct daemon *d, const char *name, struct json_writer *w)
{
	const struct known_secret *k = map_get(&d->secrets->map, str_of(name));
	if (k)
		show(k, w);
	return k;
}

static int by_name(const void *a, const void *b)
{
	const struct known_secret *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

void secrets_names(const struct daemon *d, void (*each)(void *arg, const char *name), void *arg)
{
	size_t it = 0, n = 0;
	void *v;
	auto_free const struct known_secret **all = xcalloc(d->secrets->map.count + 1, sizeof *all);
	while (map_next(&d->secrets->map, &it, &(struct str){0}, &v))
		all[n++] = v;
	qsort(all, n, sizeof *all, by_name);
	for (size_t i = 0; i < n; i++)
		each(arg, all[i]->name);
}

void secrets_used(struct daemon *d, const char *name, int64_t time_ms)
{
	struct known_secret *k = map_get(&d->secrets->map, str_of(name));
	if (!k || time_ms <= k->used_ms)
		return;
	bool write = time_ms - k->written_ms > SECRET_USE_WRITTEN;
	k->used_ms = time_ms;
	if (!write)
		return;
	k->written_ms = time_ms;
	write_row(d, k);
}
