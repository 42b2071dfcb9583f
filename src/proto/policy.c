#include "proto/policy.h"

#define WHY_OFF	     "mode off"
#define WHY_OPEN     "mode open"
#define WHY_NOT_LIST "mode list: no rule in allow matches"
#define WHY_ASK	     "ask: somebody has to approve it"
#define WHY_UDP	     "UDP needs a udp:// rule"
#define WHY_HOST     "never reachable: an address of the host"

static const char *const modes[] = {[POLICY_OPEN] = "open", [POLICY_LIST] = "list", [POLICY_OFF] = "off"};

const char *policy_mode_name(enum policy_mode m)
{
	return modes[m];
}

bool policy_mode_parse(struct str text, enum policy_mode *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		if (str_eq_c(text, modes[i])) {
			*ret = (enum policy_mode)i;
			return true;
		}
	return false;
}

static int read_rules(const struct json *object, const char *key, struct rule **ret, size_t *ret_n, struct err *e)
{
	const struct json *list = json_get(object, key);
	if (json_is_null(list))
		return 0;
	if (list->type != JSON_T_ARRAY || list->count > NET_RULES_ALL)
		return err_field(e, key, "field '%s' must be a list of at most %d rules", key, NET_RULES_MAX);
	*ret = list->count ? xcalloc(list->count, sizeof **ret) : NULL;
	json_each(it, list)
	{
		if (it->type != JSON_T_STRING)
			return err_field(e, key, "field '%s' must be a list of texts", key);
		if (rule_parse(it->text, &(*ret)[(*ret_n)], e) < 0) {
			err_wrap(e, "field '%s'", key);
			return err_about(e, key);
		}
		(*ret_n)++;
	}
	return 0;
}

/* Whole seconds, or a text like "30s", "5m" or "1h". */
static int read_patience(const struct json *object, uint64_t *ret_ms, struct err *e)
{
	const struct json *j = json_get(object, "askTimeout");
	uint64_t n = 0, unit = 1;
	if (json_is_null(j))
		return 0;
	struct str digits = j->text;
	if (j->type == JSON_T_STRING && digits.n) {
		char c = digits.p[--digits.n];
		unit = c == 's' ? 1 : c == 'm' ? 60 : c == 'h' ? 3600 : 0;
	}
	bool text = j->type == JSON_T_STRING || j->type == JSON_T_NUMBER;
	if (!text || !unit || !str_to_u64(digits, NET_ASK_MAX, &n) || !n || n * unit * 1000 > NET_ASK_MAX)
		return err_field(e, "askTimeout",
			"field 'askTimeout' must be 1 to %u seconds, or a text like \"30s\" or \"5m\"",
			NET_ASK_MAX / 1000);
	*ret_ms = n * unit * 1000;
	return 0;
}

static bool any_names(const struct rule *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].kind == RULE_NAME)
			return true;
	return false;
}

static int read_mode(const struct json *o, enum policy_mode *ret, struct err *e)
{
	struct str mode = STR("open");
	if (json_read_str(o, "mode", &mode, e) < 0)
		return err_about(e, "mode");
	if (!policy_mode_parse(mode, ret))
		return err_field(e, "mode", "field 'mode' must be 'open', 'list' or 'off'");
	return 0;
}

static int read_numbers(const struct json *o, struct policy *p, struct err *e)
{
	uint64_t conns = NET_CONNS;
	if (json_read_u64(o, "maxConnections", 1, NET_CONNS_MAX, &conns, e) < 0)
		return err_about(e, "maxConnections");
	if (json_read_u64(o, "rateBps", 0, UINT32_MAX, &p->rate, e) < 0)
		return err_about(e, "rateBps");
	if (p->rate && p->rate < NET_RATE_MIN)
		return err_field(e, "rateBps", "field 'rateBps' must be 0 or at least %u", NET_RATE_MIN);
	p->conns = (uint32_t)conns;
	return 0;
}

static int read_all(const struct json *o, struct policy *p, struct err *e)
{
	if (!o || o->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "a network policy must be an object");
	p->ask_ms = NET_ASK;
	if (read_mode(o, &p->mode, e) < 0 || read_numbers(o, p, e) < 0 ||
		read_rules(o, "allow", &p->allow, &p->allow_n, e) < 0 ||
		read_rules(o, "deny", &p->deny, &p->deny_n, e) < 0 || read_patience(o, &p->ask_ms, e) < 0)
		return -1;
	if (json_read_bool(o, "ask", &p->ask, e) < 0)
		return err_about(e, "ask");
	p->deny_names = any_names(p->deny, p->deny_n);
	p->allow_names = any_names(p->allow, p->allow_n);
	return 0;
}

int policy_read(const struct json *object, struct policy **ret, struct err *e)
{
	struct policy *p = xcalloc(1, sizeof *p);
	p->refs = 1;
	if (read_all(object, p, e) < 0) {
		policy_unref(p);
		return -1;
	}
	*ret = p;
	return 0;
}

struct policy *policy_ref(struct policy *p)
{
	p->refs++;
	return p;
}

void policy_unref(struct policy *p)
{
	if (!p || --p->refs)
		return;
	free(p->allow);
	free(p->deny);
	free(p);
}

static struct verdict say(enum policy_answer answer, const char *why)
{
	return (struct verdict){.answer = answer, .why = why};
}

/* A deny rule without a port or protocol means all of them. */
static bool deny_covers(const struct rule *r, bool udp, uint16_t port)
{
	return (!r->udp || udp) && (!r->port || r->port == port);
}

/* The address itself, or the IPv4 address in it. */
static bool deny_matches(const struct rule *r, const struct ip *ip)
{
	struct ip four;
	return rule_matches_ip(r, ip) || (ip_embedded4(ip, &four) && rule_matches_ip(r, &four));
}

static const struct rule *denied_range(const struct policy *p, bool udp, const struct ip *ip, uint16_t port)
{
	for (size_t i = 0; i < p->deny_n; i++)
		if (deny_covers(&p->deny[i], udp, port) && deny_matches(&p->deny[i], ip))
			return &p->deny[i];
	return NULL;
}

static const struct rule *allowed_range(const struct policy *p, bool udp, const struct ip *ip, uint16_t port)
{
	for (size_t i = 0; i < p->allow_n; i++) {
		const struct rule *r = &p->allow[i];
		if (r->udp == udp && (!r->port || r->port == port) && rule_matches_ip(r, ip))
			return r;
	}
	return NULL;
}

static const char *never(enum ip_kind k)
{
	static const char *const why[] = {[IP_UNSPECIFIED] = "never reachable: an unspecified address",
		[IP_LOOPBACK] = "never reachable: a loopback address",
		[IP_PRIVATE] = "never reachable: a private address",
		[IP_LINK_LOCAL] = "never reachable: a link-local address",
		[IP_CARRIER] = "never reachable: an address of carrier-grade NAT",
		[IP_MULTICAST] = "never reachable: a multicast address",
		[IP_RESERVED] = "never reachable: a reserved address"};
	return why[k];
}

/* What deny rules, ranges and the host's own addresses say; NEEDS_NAME when nothing of them does. */
static struct verdict by_range(
	const struct policy *p, struct ip_host *host, bool udp, const struct ip *ip, uint16_t port)
{
	const struct rule *r = denied_range(p, udp, ip, port);
	if (r)
		return say(POLICY_DENY, r->text);
	r = allowed_range(p, udp, ip, port);
	if (r)
		return say(POLICY_ALLOW, r->text);
	enum ip_kind k = ip_kind(ip);
	if (k != IP_PUBLIC)
		return say(POLICY_DENY, never(k));
	return ip_host_is_local(host, ip) ? say(POLICY_DENY, WHY_HOST) : say(POLICY_NEEDS_NAME, "");
}

static bool needs_rule(struct ip_host *host, const struct ip *ip)
{
	return host->deny_onlink && ip_host_is_onlink(host, ip);
}

struct verdict policy_by_address(
	const struct policy *p, struct ip_host *host, bool udp, const struct ip *ip, uint16_t port)
{
	if (p->mode == POLICY_OFF)
		return say(POLICY_DENY, WHY_OFF);
	struct verdict v = by_range(p, host, udp, ip, port);
	/* Datagrams need a rule anyway: whether it names them is seen when the name is known. */
	bool neighbour = v.answer == POLICY_NEEDS_NAME && p->mode == POLICY_OPEN && !udp && needs_rule(host, ip);
	if (neighbour && !p->allow_names)
		v = say(POLICY_DENY, POLICY_WHY_ONLINK);
	if (v.answer == POLICY_NEEDS_NAME && p->mode == POLICY_OPEN && !udp && !neighbour)
		v = say(POLICY_ALLOW, WHY_OPEN);
	if (v.answer == POLICY_NEEDS_NAME && !p->allow_names && !(p->ask && !udp))
		v = say(POLICY_DENY, udp ? WHY_UDP : WHY_NOT_LIST);
	v.look = v.answer == POLICY_ALLOW && p->deny_names;
	return v;
}

static bool allow_covers(const struct rule *r, uint16_t port, enum policy_speech how)
{
	if (r->udp != (how == SPEECH_DATAGRAM))
		return false;
	if (r->port || r->any_port)
		return r->any_port || r->port == port;
	return (how == SPEECH_HTTP || how == SPEECH_TLS) && (port == 80 || port == 443);
}

static const struct rule *denied_name(const struct policy *p, const char *name, uint16_t port, enum policy_speech how)
{
	for (size_t i = 0; i < p->deny_n; i++)
		if (deny_covers(&p->deny[i], how == SPEECH_DATAGRAM, port) && rule_matches_name(&p->deny[i], name))
			return &p->deny[i];
	return NULL;
}

bool policy_denies_name(const struct policy *p, const char *name, uint16_t port, enum policy_speech how)
{
	return denied_name(p, name, port, how) != NULL;
}

struct verdict policy_by_name(const struct policy *p, const char *name, uint16_t port, enum policy_speech how)
{
	if (p->mode == POLICY_OFF)
		return say(POLICY_DENY, WHY_OFF);
	const struct rule *r = denied_name(p, name, port, how);
	if (r)
		return say(POLICY_DENY, r->text);
	for (size_t i = 0; i < p->allow_n; i++)
		if (allow_covers(&p->allow[i], port, how) && rule_matches_name(&p->allow[i], name))
			return say(POLICY_ALLOW, p->allow[i].text);
	if (p->mode == POLICY_OPEN && how != SPEECH_DATAGRAM)
		return say(POLICY_ALLOW, WHY_OPEN);
	if (how == SPEECH_DATAGRAM)
		return say(POLICY_DENY, WHY_UDP);
	return p->ask ? say(POLICY_ASK, WHY_ASK) : say(POLICY_DENY, WHY_NOT_LIST);
}

/* "*" names nothing. */
static bool has_rule_for(const struct policy *p, const char *name, uint16_t port, bool udp)
{
	for (size_t i = 0; name && *name && i < p->allow_n; i++) {
		const struct rule *r = &p->allow[i];
		bool fits = r->port ? r->port == port : r->any_port || (!udp && (port == 80 || port == 443));
		if (r->kind == RULE_NAME && r->udp == udp && *r->name && fits && rule_matches_name(r, name))
			return true;
	}
	return false;
}

struct verdict policy_address_ok(
	const struct policy *p, struct ip_host *host, bool udp, const struct ip *ip, uint16_t port, const char *name)
{
	struct verdict v = by_range(p, host, udp, ip, port);
	if (v.answer == POLICY_NEEDS_NAME && needs_rule(host, ip) && !has_rule_for(p, name, port, udp))
		return say(POLICY_DENY, POLICY_WHY_ONLINK);
	return v.answer == POLICY_NEEDS_NAME ? say(POLICY_ALLOW, "public") : v;
}

bool policy_may_show(const struct policy *p, struct ip_host *host, const struct ip *ip)
{
	for (size_t i = 0; i < p->deny_n; i++)
		if (!p->deny[i].udp && !p->deny[i].port && deny_matches(&p->deny[i], ip))
			return false;
	for (size_t i = 0; i < p->allow_n; i++)
		if (rule_matches_ip(&p->allow[i], ip))
			return true;
	return ip_kind(ip) == IP_PUBLIC && !ip_host_has(host, ip);
}

struct verdict policy_may_resolve(const struct policy *p, const char *name)
{
	if (p->mode == POLICY_OFF)
		return say(POLICY_DENY, WHY_OFF);
	for (size_t i = 0; i < p->deny_n; i++)
		if (!p->deny[i].udp && !p->deny[i].port && rule_matches_name(&p->deny[i], name))
			return say(POLICY_DENY, p->deny[i].text);
	if (p->mode == POLICY_OPEN)
		return say(POLICY_ALLOW, WHY_OPEN);
	for (size_t i = 0; i < p->allow_n; i++)
		if (rule_matches_name(&p->allow[i], name))
			return say(POLICY_ALLOW, p->allow[i].text);
	return p->ask ? say(POLICY_ASK, WHY_ASK) : say(POLICY_DENY, WHY_NOT_LIST);
}

bool policy_has_datagrams(const struct policy *p)
{
	for (size_t i = 0; i < p->allow_n; i++)
		if (p->allow[i].udp)
			return p->mode != POLICY_OFF;
	return false;
}

bool policy_has_private(const struct policy *p)
{
	for (size_t i = 0; i < p->allow_n; i++)
		if (p->allow[i].kind == RULE_RANGE &&
			(ip_kind(&p->allow[i].range) != IP_PUBLIC || p->allow[i].bits < 104))
			return p->mode != POLICY_OFF;
	return false;
}
