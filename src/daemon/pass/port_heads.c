#include "daemon/pass/port_heads.h"

#include <string.h>
#include <strings.h>

/* Part of the name of a header whose value may open something. */
static const char *const secret[] = {"auth", "cookie", "token", "secret", "session", "key", "password", "signature"};

static bool name_has(struct str name, const char *part)
{
	size_t n = strlen(part);
	for (size_t i = 0; i + n <= name.n; i++)
		if (strncasecmp(name.p + i, part, n) == 0)
			return true;
	return false;
}

static struct str shown(struct str name, struct str value)
{
	for (size_t i = 0; i < ARRAY_LEN(secret); i++)
		if (name_has(name, secret[i]))
			return STR("…");
	bool address = name_has(name, "referer") || name_has(name, "location");
	ssize_t query = address ? str_index(value, '?') : -1;
	return query < 0 ? value : str_n(value.p, (size_t)query);
}

void port_heads_add(struct buf *to, struct str name, struct str value)
{
	struct str text = shown(name, value);
	if (buf_size(to) + name.n + text.n + 3 > PORT_HEADS_MAX)
		return;
	buf_add_str(to, name);
	buf_add_c(to, ": ");
	buf_add_str(to, text);
	buf_add_byte(to, '\n');
}

static void write_one(struct json_writer *w, const char *key, const struct buf *text)
{
	struct str rest = buf_str(text);
	if (!rest.n)
		return;
	json_key(w, key);
	json_array_begin(w);
	while (rest.n) {
		struct str line = str_split(rest, '\n', &rest), value, name = str_split(line, ':', &value);
		json_object_begin(w);
		json_member_str(w, "name", name);
		json_member_str(w, "value", str_trim(value));
		json_object_end(w);
	}
	json_array_end(w);
}

void port_heads_write(struct json_writer *w, const struct port_heads *h)
{
	write_one(w, "requestHeaders", &h->request);
	write_one(w, "responseHeaders", &h->response);
}

void port_heads_clear(struct port_heads *h)
{
	buf_free(&h->request);
	buf_free(&h->response);
	*h = (struct port_heads){0};
}
