#include "daemon/network/network.h"

#include "proto/warden.h"

static const char *const members[] = {"mode", "allow", "deny", "rateBps", "maxConnections"};

static int check_known(const struct json *object, struct err *e)
{
	if (!object || object->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "field 'network' must be an object");
	json_each(it, object)
	{
		bool known = false;
		for (size_t i = 0; i < ARRAY_LEN(members); i++)
			known = known || str_eq_c(it->key, members[i]);
		if (!known)
			return err_set(e, ERRC_VALIDATION_FAILED, "field 'network.%.*s' is not known",
				(int)(it->key.n < 40 ? it->key.n : 40), it->key.p);
	}
	return 0;
}

/* The member that counts: the new one where it is given, else the old one. NULL: neither. */
static const struct json *member(const struct json *own, const struct json *object, const char *name)
{
	const struct json *given = json_get(object, name);
	const struct json *j = given ? given : json_get(own, name);
	return json_is_null(j) ? NULL : j;
}

static void write_tree(struct json_writer *w, const char *name, const struct json *j)
{
	auto_buf struct buf text = {0};
	json_put_tree(&text, j);
	json_key(w, name);
	json_raw(w, buf_str(&text));
}

int network_change(const char *own, const struct json *object, char **ret, struct err *e)
{
	auto_json struct json_doc *old = json_parse(str_of(own), NULL);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	struct policy *p = NULL;
	if (check_known(object, e) < 0)
		return err_about(e, "network");
	json_object_begin(&w);
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const struct json *j = member(old ? json_root(old) : NULL, object, members[i]);
		if (j)
			write_tree(&w, members[i], j);
	}
	json_object_end(&w);
	auto_json struct json_doc *all = json_parse(buf_str(&out), e);
	if (!all || policy_read(json_root(all), &p, e) < 0)
		return err_about(e, "network");
	policy_unref(p);
	*ret = str_dup(buf_str(&out));
	return 0;
}

static void write_rules(struct json_writer *w, const char *name, const char *defaults, const struct json *own)
{
	auto_json struct json_doc *d = json_parse(str_of(defaults), NULL);
	size_t n = 0;
	json_key(w, name);
	json_array_begin(w);
	json_each(it, d ? json_root(d) : NULL)
	{
		if (n++ < NET_RULES_MAX)
			json_str(w, it->text);
	}
	json_each(it, own)
	{
		if (n++ < NET_RULES_MAX)
			json_str(w, it->text);
	}
	json_array_end(w);
}

void network_write(struct json_writer *w, const struct network_defaults *d, const char *own)
{
	auto_json struct json_doc *doc = json_parse(str_of(own), NULL);
	const struct json *o = doc ? json_root(doc) : NULL;
	struct str mode = str_of(policy_mode_name(d->mode));
	uint64_t conns = NET_CONNS, rate = 0;
	json_read_str(o, "mode", &mode, NULL);
	json_read_u64(o, "maxConnections", 1, NET_CONNS_MAX, &conns, NULL);
	json_read_u64(o, "rateBps", 0, UINT32_MAX, &rate, NULL);
	json_member_str(w, "mode", mode);
	write_rules(w, "allow", d->allow, json_get(o, "allow"));
	write_rules(w, "deny", d->deny, json_get(o, "deny"));
	json_member_u64(w, "rateBps", rate);
	json_member_u64(w, "maxConnections", conns);
}

uint32_t network_steer(const struct network_defaults *d, const char *own)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	struct policy *p = NULL;
	json_object_begin(&w);
	network_write(&w, d, own);
	json_object_end(&w);
	auto_json struct json_doc *doc = json_parse(buf_str(&text), NULL);
	if (!doc || policy_read(json_root(doc), &p, NULL) < 0)
		return 0;
	uint32_t flags = (policy_has_private(p) ? WARDEN_STEER_PRIVATE : 0) |
			 (policy_has_datagrams(p) ? WARDEN_STEER_DATAGRAMS : 0);
	policy_unref(p);
	return flags;
}
