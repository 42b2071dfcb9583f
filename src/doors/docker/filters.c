/*
 * filters.c - filters={"label":["k=v"]} of a list, also in the older form {"label":{"k=v":true}}.
 *
 * Miniflare removes everything that such a list holds. A filter that is not known, or not understood, is therefore
 * refused, and never ignored: the list would be of everything.
 */
#include "base/json.h"
#include "doors/docker/docker.h"

static bool is_known(struct str name, const char *const *known)
{
	for (; *known; known++)
		if (str_eq_c(name, *known))
			return true;
	return false;
}

static bool is_list(const struct json *f)
{
	if (f->type == JSON_T_OBJECT)
		return true;
	json_each(it, f) if (it->type != JSON_T_STRING) return false;
	return f->type == JSON_T_ARRAY;
}

int docker_filters_read(struct daemon_request *r, const char *const *known, struct json_doc **ret)
{
	auto_buf struct buf text = {0};
	docker_query(r, "filters", &text);
	*ret = buf_size(&text) ? json_parse(buf_str(&text), NULL) : NULL;
	if (!buf_size(&text))
		return 0;
	if (!*ret || json_root(*ret)->type != JSON_T_OBJECT) {
		docker_error(r, 400, "filters must be a JSON object");
		return -1;
	}
	json_each(f, json_root(*ret))
	{
		int n = (int)(f->key.n < 40 ? f->key.n : 40);
		if (is_known(f->key, known) && is_list(f))
			continue;
		docker_error(r, 400, "invalid filter '%.*s'", n, f->key.p);
		return -1;
	}
	return 0;
}

static struct str value_of(const struct json *list, const struct json *it)
{
	return list->type == JSON_T_ARRAY ? it->text : it->key;
}

bool docker_filter_any(const struct json_doc *filters, const char *name, docker_filter_match match, struct str value)
{
	const struct json *list = filters ? json_get(json_root(filters), name) : NULL;
	bool hit = !list;
	json_each(it, list) hit |= match(value_of(list, it), value);
	return hit;
}

static bool has_label(const struct json *labels, struct str wanted)
{
	struct str value, key = str_split(wanted, '=', &value);
	auto_free char *name = str_dup(key);
	const struct json *is = json_get(labels, name);
	return is && (key.n == wanted.n || str_eq(is->text, value));
}

bool docker_filter_labels(const struct json_doc *filters, const char *labels)
{
	const struct json *list = filters ? json_get(json_root(filters), "label") : NULL;
	if (!list)
		return true;
	auto_json struct json_doc *doc = json_parse(str_of(labels), NULL);
	bool hit = doc != NULL;
	json_each(it, list) hit &= doc && has_label(json_root(doc), value_of(list, it));
	return hit;
}

char *docker_labels(const struct json *labels, struct err *e)
{
	auto_buf struct buf out = {0};
	if (json_is_null(labels))
		return xstrdup("{}");
	bool ok = labels->type == JSON_T_OBJECT;
	json_each(it, labels) ok &= it->type == JSON_T_STRING;
	json_put_tree(&out, labels);
	if (!ok || buf_size(&out) > DOCKER_LABELS_MAX) {
		err_set(e, ERRC_VALIDATION_FAILED, "Labels must be an object of texts, at most %u bytes of JSON",
			DOCKER_LABELS_MAX);
		return NULL;
	}
	return str_dup(buf_str(&out));
}
