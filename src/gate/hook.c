#include "gate/hook.h"

#include <stdio.h>

/* '*' stands for any characters. */
static bool glob(const char *pattern, const char *text)
{
	const char *star = NULL, *again = NULL;
	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			again = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++again;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool read_pattern(struct str text, struct hook_pattern *p)
{
	uint64_t port = 0;
	struct str rest, host;
	if (!text.n || text.n > NET_RULE_MAX)
		return false;
	bool six = text.p[0] == '[';
	if (six) {
		host = str_split(str_skip(text, 1), ']', &rest);
		if (rest.n && rest.p[0] != ':')
			return false;
		rest = str_skip(rest, 1);
	} else {
		host = str_split(text, ':', &rest);
	}
	if (rest.n && !str_to_u64(rest, 65535, &port))
		return false;
	p->port = (uint16_t)port;
	auto_free char *name = str_dup(host);
	if (ip_parse(host, &p->ip)) {
		p->text = xstrdup("");
		return true;
	}
	for (char *c = name; *c; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 32 : *c);
	p->any = strcmp(name, "*") == 0 && !p->port;
	p->text = xstrdup(name);
	return !six;
}

static int read_list(const struct json *list, struct hook_pattern **ret, size_t *ret_n, struct err *e)
{
	if (json_is_null(list))
		return 0;
	if (list->type != JSON_T_ARRAY || list->count > GATE_HOOKS_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "a list of hooks is not one, or too long");
	*ret = xcalloc(list->count + 1, sizeof **ret);
	json_each(it, list)
	{
		if (it->type != JSON_T_STRING || !read_pattern(it->text, &(*ret)[(*ret_n)++]))
			return err_set(e, ERRC_VALIDATION_FAILED, "a hook is not a host, a pattern or an address");
	}
	return 0;
}

int hooks_read(const struct json *object, struct hooks **ret, struct err *e)
{
	struct hooks *h = xcalloc(1, sizeof *h);
	if (read_list(json_get(object, "http"), &h->http, &h->http_n, e) < 0 ||
		read_list(json_get(object, "https"), &h->https, &h->https_n, e) < 0) {
		hooks_free(h);
		return -1;
	}
	if (!h->http_n && !h->https_n) {
		hooks_free(h);
		h = NULL;
	}
	*ret = h;
	return 0;
}

static void free_list(struct hook_pattern *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].text);
	free(v);
}

void hooks_free(struct hooks *h)
{
	if (!h)
		return;
	free_list(h->http, h->http_n);
	free_list(h->https, h->https_n);
	free(h);
}

static bool matches(const struct hook_pattern *p, const struct hook_dest *to)
{
	if (p->port && p->port != to->port)
		return false;
	if (!*p->text)
		return to->ip && ip_eq(&p->ip, to->ip);
	return p->any || (*to->name && glob(p->text, to->name));
}

bool hooks_want(const struct hooks *h, bool https, const struct hook_dest *to)
{
	const struct hook_pattern *v = h ? https ? h->https : h->http : NULL;
	size_t n = h ? https ? h->https_n : h->http_n : 0;
	for (size_t i = 0; i < n; i++)
		if (matches(&v[i], to))
			return true;
	return false;
}

static bool names(const struct hook_pattern *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!v[i].any && *v[i].text && glob(v[i].text, name))
			return true;
	return false;
}

bool hooks_name(const struct hooks *h, const char *name)
{
	return h && (names(h->http, h->http_n, name) || names(h->https, h->https_n, name));
}

bool hooks_any(const struct hooks *h)
{
	for (size_t i = 0; h && i < h->http_n; i++)
		if (h->http[i].any)
			return true;
	for (size_t i = 0; h && i < h->https_n; i++)
		if (h->https[i].any)
			return true;
	return false;
}
