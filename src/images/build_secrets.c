/*
 * Secrets of a build: {"id": "base64"} of parameter `secrets` bytes, before the context in the body. So they are in no
 * URL, head, log or file; a RUN that mounts one gets it through the stdin of atoll-mover.
 */
#include <string.h>

#include "base/base64.h"
#include "images/build_impl.h"

static int take_one(struct build *b, const struct json *it, struct err *e)
{
	struct base64_decoder d = {0};
	struct secret s = {0};
	if (it->type != JSON_T_STRING || !it->key.n || memchr(it->key.p, 0, it->key.n) ||
		memchr(it->key.p, '/', it->key.n) || !base64_decode(&d, it->text, &s.bytes) || !base64_finish(&d)) {
		buf_free(&s.bytes);
		return err_field(e, "secrets", "the secrets must be a JSON object of texts in base64");
	}
	s.id = str_dup(it->key);
	b->secrets = xrealloc(b->secrets, (b->secrets_n + 1) * sizeof *b->secrets);
	b->secrets[b->secrets_n++] = s;
	return 0;
}

int secrets_take(struct build *b, struct err *e)
{
	auto_buf struct buf given = {0}, text = {0};
	uint64_t n;
	if (order_param(b->order, "secrets", &given, e) < 0)
		return -1;
	if (!buf_size(&given))
		return 0;
	if (!str_to_u64(buf_str(&given), SERVICE_SECRETS_MAX, &n))
		return err_field(
			e, "secrets", "parameter 'secrets' must be a number of bytes, at most %u", SERVICE_SECRETS_MAX);
	if (order_body_begin(b->order, n, &text, e) < 0)
		return -1;
	struct err ignored;
	auto_json struct json_doc *doc = json_parse(buf_str(&text), &ignored);
	if (!doc || json_root(doc)->type != JSON_T_OBJECT)
		return err_field(e, "secrets", "the secrets must be a JSON object of texts in base64");
	json_each(it, json_root(doc))
	{
		if (take_one(b, it, e) < 0)
			return -1;
	}
	return 0;
}

struct str secret_find(const struct build *b, const char *id)
{
	for (size_t i = 0; i < b->secrets_n; i++)
		if (strcmp(b->secrets[i].id, id) == 0)
			return buf_size(&b->secrets[i].bytes) ? buf_str(&b->secrets[i].bytes) : STR("");
	return STR_NULL;
}
