#include "daemon/network/network.h"

#include <stdio.h>

#include "daemon/core/sandbox.h"

static const char *const members[] = {
	"mode", "allow", "deny", "ask", "askTimeout", "rateBps", "maxConnections", "defaults"};

static int unknown(struct str key, struct err *e)
{
	char name[40];
	snprintf(name, sizeof name, "%.*s", STR_ARG(key));
	return err_field(e, name,
		"field '%s' is not known; a network has mode, allow, deny, ask, askTimeout, rateBps, "
		"maxConnections, defaults",
		name);
}

static int check_known(const struct json *object, struct err *e)
{
	if (!object || object->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "a network policy must be an object");
	json_each(it, object)
	{
		bool known = false;
		for (size_t i = 0; i < ARRAY_LEN(members); i++)
			known = known || str_eq_c(it->key, members[i]);
		if (!known)
			return unknown(it->key, e);
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

static int check_defaults(const struct json *own, struct err *e)
{
	bool on = true;
	return json_read_bool(own, "defaults", &on, e) < 0 ? err_about(e, "defaults") : 0;
}

int network_change(const char *own, const struct json *object, char **ret, struct err *e)
{
	auto_json struct json_doc *old = json_parse(str_of(network_is_unknown(own) ? "{}" : own), NULL);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	struct policy *p = NULL;
	if (check_known(object, e) < 0)
		return -1;
	if (network_is_unknown(own) && !json_get(object, "mode"))
		return err_field(e, "mode",
			"field 'mode' is needed: the record of this sandbox was lost, and its policy with it");
	json_object_begin(&w);
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const struct json *j = member(old ? json_root(old) : NULL, object, members[i]);
		if (j)
			write_tree(&w, members[i], j);
	}
	json_object_end(&w);
	auto_json struct json_doc *all = json_parse(buf_str(&out), e);
	if (!all || policy_read(json_root(all), &p, e) < 0 || check_defaults(json_root(all), e) < 0) {
		policy_unref(p);
		return -1;
	}
	const char *most = p->allow_n > NET_RULES_MAX ? "allow" : p->deny_n > NET_RULES_MAX ? "deny" : NULL;
	policy_unref(p);
	if (most)
		return err_field(e, most, "field '%s' must be a list of at most %d rules", most, NET_RULES_MAX);
	*ret = str_dup(buf_str(&out));
	return 0;
}

int network_add_rule(const char *own, const char *key, const char *rule, char **ret, struct err *e)
{
	auto_json struct json_doc *old = json_parse(str_of(own), e);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	bool there = false;
	if (!old)
		return -1;
	json_object_begin(&w);
	json_key(&w, key);
	json_array_begin(&w);
	json_each(it, json_get(json_root(old), key))
	{
		there = there || str_eq_c(it->text, rule);
		json_str(&w, it->text);
	}
	if (!there)
		json_cstr(&w, rule);
	json_array_end(&w);
	json_object_end(&w);
	auto_json struct json_doc *change = json_parse(buf_str(&out), e);
	return change ? network_change(own, json_root(change), ret, e) : -1;
}

/* The daemon's rules stand first. config.c and approvals.c keep them few, so that the sandbox's own all fit. */
static void write_rules(struct json_writer *w, const char *name, const char *defaults, const struct json *own)
{
	auto_json struct json_doc *d = json_parse(str_of(defaults), NULL);
	json_key(w, name);
	json_array_begin(w);
	json_each(it, d ? json_root(d) : NULL) json_str(w, it->text);
	json_each(it, own) json_str(w, it->text);
	json_array_end(w);
}

void network_write(struct json_writer *w, const struct network_defaults *d, const char *own, const char *missing)
{
	auto_json struct json_doc *doc = json_parse(str_of(own), NULL);
	const struct json *o = doc ? json_root(doc) : NULL;
	uint64_t conns = NET_CONNS, rate = 0;
	const struct json *patience = json_get(o, "askTimeout");
	bool ask = false, defaults = true;
	json_read_bool(o, "defaults", &defaults, NULL);
	json_read_u64(o, "maxConnections", 1, NET_CONNS_MAX, &conns, NULL);
	json_read_u64(o, "rateBps", 0, UINT32_MAX, &rate, NULL);
	json_member_str(w, "mode", missing ? STR("off") : network_mode(d, own));
	if (missing)
		json_member_cstr(w, "reason", missing);
	write_rules(w, "allow", defaults ? d->allow : "[]", json_get(o, "allow"));
	write_rules(w, "deny", d->deny, json_get(o, "deny"));
	json_read_bool(o, "ask", &ask, NULL);
	json_member_bool(w, "ask", ask);
	if (json_is_null(patience))
		json_member_u64(w, "askTimeout", NET_ASK / 1000);
	else
		write_tree(w, "askTimeout", patience);
	json_member_u64(w, "rateBps", rate);
	json_member_u64(w, "maxConnections", conns);
}

struct str network_mode(const struct network_defaults *d, const char *own)
{
	auto_json struct json_doc *doc = json_parse(str_of(own), NULL);
	struct str mode = STR_NULL;
	enum policy_mode m = d->mode;
	json_read_str(doc ? json_root(doc) : NULL, "mode", &mode, NULL);
	if (mode.n)
		policy_mode_parse(mode, &m);
	return str_of(policy_mode_name(m));
}

bool network_is_unknown(const char *own)
{
	return strcmp(own, NETWORK_UNKNOWN) == 0;
}

const char *network_missing(const struct sandbox *s)
{
	const struct warden_host *host = warden_host(s->daemon->warden);
	bool lives = s->state == SB_RUNNING || s->state == SB_ASLEEP;
	if (host && !host->network)
		return "the host cannot steer connections of sandboxes; see atoll doctor";
	if (lives && s->no_network)
		return "it was started without a network; stop it, and start it again to give it one";
	return lives && network_is_unknown(s->spec.network)
		       ? "its record was lost, and its policy with it; set one, or stop it and start it again"
		       : NULL;
}

uint32_t network_steer(const struct network_defaults *d, const char *own)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	struct policy *p = NULL;
	json_object_begin(&w);
	network_write(&w, d, own, NULL);
	json_object_end(&w);
	auto_json struct json_doc *doc = json_parse(buf_str(&text), NULL);
	if (!doc || policy_read(json_root(doc), &p, NULL) < 0)
		return 0;
	uint32_t flags = (policy_has_private(p) ? WARDEN_STEER_PRIVATE : 0) |
			 (policy_has_datagrams(p) ? WARDEN_STEER_DATAGRAMS : 0);
	policy_unref(p);
	return flags;
}
