/*
 * What a sandbox has of secrets: placeholders in its variables, an authority that it trusts, and lines for the gate.
 */
#include <stdio.h>

#include "base/log.h"
#include "daemon/core/sandbox.h"
#include "daemon/core/settings.h"
#include "daemon/network/hooks.h"
#include "daemon/network/secrets_impl.h"

/* Where the warden puts the bundle: cage/trust.h. */
#define BUNDLE "/dev/atoll/ca-certificates.crt"

/* ---- the setting ---- */

int secrets_check_setting(const struct json *value, struct err *e)
{
	bool ok = value->type == JSON_T_ARRAY && value->count <= SECRETS_BOX_MAX;
	json_each(it, ok ? value : NULL)
	{
		ok = ok && it->type == JSON_T_STRING && secrets_name_ok(it->text);
		for (const struct json *other = value->first; ok && other != it; other = other->next)
			ok = !str_eq(other->text, it->text);
	}
	return ok ? 0
		  : err_field(e, "secrets", "field 'secrets' must be a list of at most %d different names of secrets",
			    SECRETS_BOX_MAX);
}

int secrets_check_known(const struct daemon *d, const char *settings, struct err *e)
{
	const struct json *names;
	auto_json struct json_doc *doc = settings_get(settings, "secrets", &names);
	json_each(it, names)
	{
		if (!secrets_known(d, it->text)) {
			err_set(e, ERRC_NOT_FOUND, "there is no secret '%.*s'; make it first", STR_ARG(it->text));
			return err_about(e, "secrets");
		}
	}
	return 0;
}

bool secrets_has(const struct sandbox *s, const char *name)
{
	const struct json *names;
	auto_json struct json_doc *doc = settings_get(s->spec.settings, "secrets", &names);
	json_each(it, names)
	{
		if (str_eq_c(it->text, name))
			return true;
	}
	return false;
}

bool secrets_known(const struct daemon *d, struct str name)
{
	return secrets_get(d, name) != NULL;
}

bool secrets_is_aws(const struct daemon *d, const char *name)
{
	const struct known_secret *k = secrets_get(d, str_of(name));
	auto_json struct json_doc *doc = k ? json_parse(str_of(k->about), NULL) : NULL;
	return doc && !json_is_null(json_get(json_root(doc), "aws"));
}

bool secrets_need_trust(const struct sandbox *s, const char *env, const char *settings)
{
	const struct json *names;
	struct str wish = STR_NULL;
	auto_json struct json_doc *doc = settings_get(settings, "secrets", &names);
	auto_json struct json_doc *own = json_parse(str_of(env), NULL);
	(void)s;
	/* The npm package's way to say that HTTPS will be intercepted. */
	if (own && json_read_str(json_root(own), "SANDBOX_INTERCEPT_HTTPS", &wish, NULL) == 0 && str_eq_c(wish, "1"))
		return true;
	return (names && names->count > 0) || hooks_have_https(settings);
}

/* ---- variables ---- */

void secrets_placeholder(const struct sandbox *s, struct str name, char ret[SECRET_PLACEHOLDER + 1])
{
	char text[BOX_ID_MAX + SECRET_NAME_MAX + 64], random[33];
	int n = snprintf(text, sizeof text, "%s/%lld/%.*s", s->id, (long long)s->created_ms, STR_ARG(name));
	vault_derive(s->daemon->secrets->vault, str_n(text, (size_t)n), random);
	snprintf(ret, SECRET_PLACEHOLDER + 1, SECRET_PREFIX "%s", random);
}

static void set(struct map *m, const char *name, const char *value)
{
	free(map_put(m, str_of(name), xstrdup(value)));
}

static void set_trust(struct map *m)
{
	static const char *const names[] = {"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
		"CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT",
		"NPM_CONFIG_CAFILE", "NIX_SSL_CERT_FILE", "PERL_LWP_SSL_CA_FILE", "HTTPLIB2_CA_CERTS",
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		set(m, names[i], BUNDLE);
}

static void set_aws(struct map *m, const struct json *aws, const char *place)
{
	const char *region = "";
	set(m, "AWS_ACCESS_KEY_ID", place);
	set(m, "AWS_SECRET_ACCESS_KEY", place);
	json_read_cstr(aws, "region", &region, NULL);
	if (!*region)
		return;
	set(m, "AWS_REGION", region);
	set(m, "AWS_DEFAULT_REGION", region);
}

static void set_secret(const struct sandbox *s, struct map *m, struct str name)
{
	const struct known_secret *k = secrets_get(s->daemon, name);
	char place[SECRET_PLACEHOLDER + 1];
	const char *env = "";
	auto_json struct json_doc *doc = k ? json_parse(str_of(k->about), NULL) : NULL;
	const struct json *o = doc ? json_root(doc) : NULL, *aws = json_get(o, "aws");
	if (!o)
		return;
	secrets_placeholder(s, name, place);
	if (!json_is_null(aws))
		set_aws(m, aws, place);
	json_read_cstr(o, "env", &env, NULL);
	if (*env)
		set(m, env, place);
}

/* The authority's variables, then the sandbox's own, then those of its secrets: the last word counts. */
static void gather(const struct sandbox *s, const char *env, const char *settings, struct map *m)
{
	const struct json *names;
	auto_json struct json_doc *doc = settings_get(settings, "secrets", &names);
	auto_json struct json_doc *own = json_parse(str_of(env), NULL);
	if (secrets_need_trust(s, env, settings))
		set_trust(m);
	json_each(it, own ? json_root(own) : NULL)
	{
		auto_free char *name = str_dup(it->key);
		set(m, name, it->text.p);
	}
	json_each(it, names) set_secret(s, m, it->text);
}

static void free_texts(struct map *m)
{
	size_t it = 0;
	void *v;
	while (map_next(m, &it, &(struct str){0}, &v))
		free(v);
	map_free(m);
}

static void write_text(struct json_writer *w, struct str key, const char *value)
{
	auto_free char *name = str_dup(key);
	json_member_cstr(w, name, value);
}

char *secrets_env(const struct sandbox *s, const char *env, const char *settings)
{
	struct map m = {0};
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	size_t it = 0;
	struct str key;
	void *v;
	gather(s, env, settings, &m);
	json_object_begin(&w);
	while (map_next(&m, &it, &key, &v))
		write_text(&w, key, v);
	json_object_end(&w);
	free_texts(&m);
	return str_dup(buf_str(&out));
}

/* Members of `to` that `from` does not have so; with `gone`, those that only `from` has, as null. */
static void write_difference(struct json_writer *w, const struct map *from, const struct map *to, bool gone)
{
	size_t it = 0;
	struct str key;
	void *v;
	while (map_next(gone ? from : to, &it, &key, &v)) {
		const char *other = map_get(gone ? to : from, key);
		if (gone ? !other : !other || strcmp(other, v) != 0)
			write_text(w, key, gone ? NULL : v);
	}
}

char *secrets_env_changes(
	const struct sandbox *s, const char *env, const char *before, const char *after, const char *changes)
{
	struct map from = {0}, to = {0};
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	gather(s, env, before, &from);
	gather(s, env, after, &to);
	json_object_begin(&w);
	write_difference(&w, &from, &to, false);
	write_difference(&w, &from, &to, true);
	json_object_end(&w);
	free_texts(&from);
	free_texts(&to);
	bool none = str_eq_c(buf_str(&out), "{}");
	if (!changes)
		return none ? NULL : str_dup(buf_str(&out));
	auto_json struct json_doc *given = json_parse(str_of(changes), NULL), *made = json_parse(buf_str(&out), NULL);
	auto_buf struct buf all = {0};
	w = json_writer(&all);
	json_object_begin(&w);
	json_each(it, given ? json_root(given) : NULL)
	{
		auto_free char *name = str_dup(it->key);
		if (!json_get(json_root(made), name))
			json_member_cstr(&w, name, it->type == JSON_T_STRING ? it->text.p : NULL);
	}
	json_each(it, json_root(made)) write_text(&w, it->key, it->type == JSON_T_STRING ? it->text.p : NULL);
	json_object_end(&w);
	return str_dup(buf_str(&all));
}

/* ---- for the gate ---- */

static void write_member(struct json_writer *w, const struct json *o, const char *name)
{
	auto_buf struct buf text = {.wipe = true};
	const struct json *j = json_get(o, name);
	if (json_is_null(j))
		return;
	json_put_tree(&text, j);
	json_key(w, name);
	json_raw(w, buf_str(&text));
}

static void write_aws(struct json_writer *w, const struct json *about, const struct json *clear)
{
	const struct json *aws = json_get(about, "aws");
	if (json_is_null(aws))
		return;
	json_key(w, "aws");
	json_object_begin(w);
	write_member(w, aws, "accessKeyId");
	write_member(w, aws, "region");
	write_member(w, aws, "service");
	write_member(w, clear, "sessionToken");
	json_object_end(w);
}

static void write_secret(const struct sandbox *s, const struct known_secret *k, struct json_writer *w)
{
	struct err e;
	char place[SECRET_PLACEHOLDER + 1];
	auto_buf struct buf text = {.wipe = true};
	auto_json struct json_doc *about = json_parse(str_of(k->about), NULL);
	if (vault_unseal(s->daemon->secrets->vault, k->name, str_of(k->sealed), &text, &e) < 0) {
		log_limited(LOG_ERROR, "a secret is not used", "error=%s", LOG_Q(e.msg));
		return;
	}
	auto_json struct json_doc *clear = json_parse(buf_str(&text), NULL);
	if (!clear || !about)
		return;
	secrets_placeholder(s, str_of(k->name), place);
	json_object_begin(w);
	json_member_cstr(w, "name", k->name);
	json_member_cstr(w, "placeholder", place);
	write_member(w, json_root(clear), "value");
	write_member(w, json_root(about), "hosts");
	write_member(w, json_root(about), "in");
	write_member(w, json_root(about), "header");
	write_aws(w, json_root(about), json_root(clear));
	json_object_end(w);
	json_wipe(clear);
}

void secrets_write(const struct sandbox *s, struct json_writer *w)
{
	const struct json *names;
	auto_json struct json_doc *doc = settings_get(s->spec.settings, "secrets", &names);
	json_key(w, "secrets");
	json_array_begin(w);
	json_each(it, names)
	{
		const struct known_secret *k = secrets_get(s->daemon, it->text);
		if (k)
			write_secret(s, k, w);
	}
	json_array_end(w);
}
