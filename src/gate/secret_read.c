/* Secrets as the daemon tells them, and their end. */
#include <openssl/crypto.h>
#include <stdio.h>

#include "gate/secret.h"

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERRC_VALIDATION_FAILED, "a secret of the daemon: %s", what);
}

static bool placeholder_ok(struct str s)
{
	if (s.n != SECRET_PLACEHOLDER || !str_starts(s, STR(SECRET_PREFIX)))
		return false;
	for (size_t i = sizeof SECRET_PREFIX - 1; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return true;
}

static int read_hosts(const struct json *o, struct secret *s, struct err *e)
{
	const struct json *hosts = json_get(o, "hosts");
	if (!hosts || hosts->type != JSON_T_ARRAY || hosts->count > SECRET_HOSTS_MAX)
		return bad(e, "hosts");
	s->hosts = xcalloc(hosts->count + 1, sizeof *s->hosts);
	json_each(it, hosts)
	{
		struct rule r;
		if (rule_parse(it->text, &r, e) < 0)
			return -1;
		s->hosts[s->hosts_n++] = r;
	}
	return 0;
}

/* Without it: it was set before there was `in`. */
static int read_in(const struct json *o, struct secret *s, struct err *e)
{
	const struct json *in = json_get(o, "in");
	s->anywhere = json_is_null(in);
	if (s->anywhere)
		return 0;
	if (in->type != JSON_T_ARRAY || in->count > SECRET_IN_MAX)
		return bad(e, "in");
	s->in = xcalloc(in->count + 1, sizeof *s->in);
	json_each(it, in)
	{
		struct secret_in one;
		if (it->type != JSON_T_STRING || !secret_in_parse(it->text, &one))
			return bad(e, "in");
		s->in[s->in_n++] = (struct secret_in){one.kind, str_n(str_dup(one.name), one.name.n)};
	}
	return 0;
}

static int read_header(const struct json *o, struct secret *s, struct err *e)
{
	struct str text = STR_NULL, value;
	if (json_read_str(o, "header", &text, e) < 0)
		return -1;
	if (!text.p)
		return 0;
	struct str name = str_split(text, ':', &value);
	value = str_trim(value);
	if (text.n > SECRET_HEADER_MAX || !http_name_ok(name) || !http_value_ok(value))
		return bad(e, "header");
	s->header = str_dup(name);
	s->header_value = str_dup(value);
	return 0;
}

static int read_aws(const struct json *o, struct secret *s, struct err *e)
{
	const struct json *aws = json_get(o, "aws");
	const char *id = "", *region = "", *service = "", *token = "";
	if (json_is_null(aws))
		return 0;
	if (json_read_cstr(aws, "accessKeyId", &id, e) < 0 || json_read_cstr(aws, "region", &region, e) < 0 ||
		json_read_cstr(aws, "service", &service, e) < 0 || json_read_cstr(aws, "sessionToken", &token, e) < 0)
		return -1;
	s->is_aws = true;
	s->aws = (struct secret_aws){xstrdup(id), xstrdup(region), xstrdup(service), xstrdup(token)};
	return 0;
}

static int read_one(const struct json *o, struct secret *s, struct err *e)
{
	struct str name = STR_NULL, placeholder = STR_NULL, value = STR_NULL;
	if (json_read_str(o, "name", &name, e) < 0 || json_read_str(o, "placeholder", &placeholder, e) < 0 ||
		json_read_str(o, "value", &value, e) < 0)
		return -1;
	if (!name.n || name.n > SECRET_NAME_MAX || !placeholder_ok(placeholder) || !value.n ||
		value.n > SECRET_VALUE_MAX || !http_value_ok(value))
		return bad(e, "name, placeholder or value");
	snprintf(s->name, sizeof s->name, "%.*s", STR_ARG(name));
	snprintf(s->placeholder, sizeof s->placeholder, "%.*s", STR_ARG(placeholder));
	s->value = str_dup(value);
	s->value_n = value.n;
	return read_hosts(o, s, e) < 0 || read_in(o, s, e) < 0 || read_header(o, s, e) < 0 || read_aws(o, s, e) < 0 ? -1
														    : 0;
}

int secrets_read(const struct json *object, struct secrets **ret, struct err *e)
{
	const struct json *list = json_get(object, "secrets");
	if (json_is_null(list) || (list->type == JSON_T_ARRAY && !list->count)) {
		*ret = NULL;
		return 0;
	}
	if (list->type != JSON_T_ARRAY || list->count > SECRETS_BOX_MAX)
		return bad(e, "the list");
	struct secrets *s = xcalloc(1, sizeof *s);
	s->v = xcalloc(list->count, sizeof *s->v);
	json_each(it, list)
	{
		if (read_one(it, &s->v[s->n++], e) < 0) {
			secrets_free(s);
			return -1;
		}
	}
	*ret = s;
	return 0;
}

static void free_aws(struct secret_aws *a)
{
	if (a->token)
		OPENSSL_cleanse(a->token, strlen(a->token));
	free(a->id);
	free(a->region);
	free(a->service);
	free(a->token);
}

void secrets_free(struct secrets *s)
{
	for (size_t i = 0; s && i < s->n; i++) {
		struct secret *one = &s->v[i];
		if (one->value)
			OPENSSL_cleanse(one->value, one->value_n);
		free(one->value);
		free(one->hosts);
		for (size_t k = 0; k < one->in_n; k++)
			free((char *)one->in[k].name.p);
		free(one->in);
		free(one->header);
		free(one->header_value);
		free_aws(&one->aws);
	}
	if (s)
		free(s->v);
	free(s);
}
