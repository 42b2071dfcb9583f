#include "gate/secret.h"

#include <openssl/crypto.h>
#include <stdio.h>

#include "base/base64.h"

/* ---- reading ---- */

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
	return read_hosts(o, s, e) < 0 || read_header(o, s, e) < 0 || read_aws(o, s, e) < 0 ? -1 : 0;
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
		free(one->header);
		free(one->header_value);
		free_aws(&one->aws);
	}
	if (s)
		free(s->v);
	free(s);
}

/* ---- where ---- */

/* A host without a port means TLS on 443. */
bool secret_goes_to(const struct secret *s, const char *name, uint16_t port)
{
	for (size_t i = 0; i < s->hosts_n; i++) {
		const struct rule *r = &s->hosts[i];
		if (rule_matches_name(r, name) && (r->any_port || port == (r->port ? r->port : 443)))
			return true;
	}
	return false;
}

bool secrets_want(const struct secrets *s, const char *name, uint16_t port)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (secret_goes_to(&s->v[i], name, port))
			return true;
	return false;
}

/* ---- finding ---- */

/* A placeholder in a text. */
struct place {
	struct secret *secret;
	size_t at, n;
};

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *p = c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 32 : c) : NULL;
	return p ? (int)(p - digits) : -1;
}

/* One character, also as %XX. How many bytes it takes, or 0. */
static size_t read_escaped(struct str text, char *ret)
{
	int high, low;
	if (!text.n)
		return 0;
	*ret = *text.p;
	if (*text.p != '%')
		return 1;
	if (text.n < 3 || (high = hex_digit(text.p[1])) < 0 || (low = hex_digit(text.p[2])) < 0)
		return 0;
	*ret = (char)(high << 4 | low);
	return 3;
}

/* What begins like a placeholder, without its escapes. How many bytes it takes, or 0. */
static size_t read_place(struct str text, char ret[SECRET_PLACEHOLDER])
{
	static const char prefix[] = SECRET_PREFIX;
	size_t n = 0;
	for (size_t i = 0; i < SECRET_PLACEHOLDER; i++) {
		size_t took = read_escaped(str_skip(text, n), &ret[i]);
		if (!took || (i < sizeof prefix - 1 && ret[i] != prefix[i]))
			return 0;
		n += took;
	}
	return n;
}

/* The next placeholder of a secret at or behind `at`. `target`: as servers read targets, where %5f is an underscore. */
static bool next_place(const struct secrets *s, struct str text, bool target, size_t at, struct place *ret)
{
	for (; s && at + SECRET_PLACEHOLDER <= text.n; at++) {
		char read[SECRET_PLACEHOLDER];
		if (!target) {
			const char *p = memmem(text.p + at, text.n - at, SECRET_PREFIX, sizeof SECRET_PREFIX - 1);
			at = p ? (size_t)(p - text.p) : text.n;
		}
		size_t n = read_place(str_skip(text, at), read);
		for (size_t i = 0; n && (target || n == sizeof read) && i < s->n; i++)
			if (memcmp(read, s->v[i].placeholder, sizeof read) == 0) {
				*ret = (struct place){&s->v[i], at, n};
				return true;
			}
	}
	return false;
}

struct secret *secrets_find(const struct secrets *s, struct str text)
{
	struct place found;
	return next_place(s, text, false, 0, &found) ? found.secret : NULL;
}

struct secret *secrets_in_target(const struct secrets *s, struct str target)
{
	struct place found;
	return next_place(s, target, true, 0, &found) ? found.secret : NULL;
}

/* The credentials of "Basic …", decoded, as lenient as servers are: any case, blanks and tabs, padding or none. False:
 * it is something else. */
static bool decode_basic(struct str value, struct buf *out)
{
	static const struct str scheme = STR("basic");
	struct base64_decoder d = {0};
	struct str rest = str_skip(value, scheme.n), text = str_trim(rest);
	if (rest.p == text.p || !str_eq_nocase(str_n(value.p, scheme.n), scheme) || !base64_decode(&d, text, out))
		return false;
	return base64_finish(&d) || base64_decode(&d, d.have == 2 ? STR("==") : STR("="), out);
}

struct secret *secrets_in_value(const struct secrets *s, struct str value)
{
	auto_buf struct buf plain = {0};
	struct secret *found = secrets_find(s, value);
	return !found && decode_basic(value, &plain) ? secrets_find(s, buf_str(&plain)) : found;
}

struct secret *secrets_in_head(const struct secrets *s, struct str head)
{
	struct secret *found = secrets_in_target(s, head);
	while (head.n && !found) {
		struct str value, line = str_split(head, '\n', &head);
		if (line.n && line.p[line.n - 1] == '\r')
			line.n--;
		str_split(line, ':', &value);
		found = secrets_in_value(s, str_trim(value));
	}
	return found;
}

static struct secret *misplaced_in(const struct secrets *s, struct str text, bool target, const struct secret_way *way)
{
	struct place found = {0};
	for (size_t at = 0; next_place(s, text, target, at, &found); at = found.at + found.n)
		if (!way->name || !secret_goes_to(found.secret, way->name, way->port))
			return found.secret;
	return NULL;
}

static struct secret *misplaced_in_header(
	const struct secrets *s, const struct http_header *h, const struct secret_way *way)
{
	auto_buf struct buf plain = {0};
	/* A name is nowhere to put a value. */
	struct secret *bad_one = secrets_find(s, h->name);
	if (!bad_one)
		bad_one = misplaced_in(s, h->value, false, way);
	if (!bad_one && decode_basic(h->value, &plain))
		bad_one = misplaced_in(s, buf_str(&plain), false, way);
	return bad_one;
}

struct secret *secrets_misplaced(const struct secrets *s, const struct http_request *rq, const struct secret_way *way)
{
	if (!s)
		return NULL;
	struct secret *bad_one = misplaced_in(s, rq->target, true, way);
	if (!bad_one)
		bad_one = secrets_find(s, rq->host);
	for (size_t i = 0; i < rq->headers.n && !bad_one; i++)
		bad_one = misplaced_in_header(s, &rq->headers.v[i], way);
	return bad_one;
}

/* ---- replacing ---- */

static void put_escaped(struct buf *out, struct str value)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t i = 0; i < value.n; i++) {
		unsigned char c = (unsigned char)value.p[i];
		bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("-_.~", c));
		if (plain) {
			buf_add_byte(out, (char)c);
			continue;
		}
		buf_add_byte(out, '%');
		buf_add_byte(out, digits[c >> 4]);
		buf_add_byte(out, digits[c & 15]);
	}
}

static bool put_replaced(const struct secret_writer *w, struct str text, bool target, struct buf *out)
{
	size_t from = 0, at = 0;
	struct place found = {0};
	for (; next_place(w->secrets, text, target, at, &found); at = found.at + found.n) {
		const struct secret *s = found.secret;
		if (!w->way.name || !secret_goes_to(s, w->way.name, w->way.port))
			continue;
		buf_add(out, text.p + from, found.at - from);
		if (target)
			put_escaped(out, str_n(s->value, s->value_n));
		else
			buf_add(out, s->value, s->value_n);
		from = found.at + found.n;
		w->used(w->arg, found.secret);
	}
	buf_add(out, text.p + from, text.n - from);
	return from > 0;
}

bool secret_put_target(const struct secret_writer *w, struct str target, struct buf *out)
{
	return put_replaced(w, target, true, out);
}

bool secret_put_value(const struct secret_writer *w, struct str value, struct buf *out)
{
	auto_buf struct buf plain = {0}, changed = {.wipe = true};
	bool basic = decode_basic(value, &plain) && put_replaced(w, buf_str(&plain), false, &changed);
	if (basic) {
		buf_add_c(out, "Basic ");
		base64_append(out, buf_str(&changed));
	}
	return basic || put_replaced(w, value, false, out);
}

void secret_put_header(const struct secret *s, struct buf *out)
{
	const char *place = strstr(s->header_value, "{}");
	if (!place) {
		buf_add(out, s->value, s->value_n);
		return;
	}
	buf_add(out, s->header_value, (size_t)(place - s->header_value));
	buf_add(out, s->value, s->value_n);
	buf_add_c(out, place + 2);
}
