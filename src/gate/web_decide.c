/*
 * What the policy says about one request. Its Host decides; where that is an address, or there is none, the address
 * does, together with the names that the box was told for it. A Host that is neither name nor address decides nothing:
 * a lenient server might still take it for a name that is denied.
 */
#include "gate/web.h"

#define WHY_NO_NAME  "mode list: the request has no Host name"
#define WHY_BAD_HOST "the Host of the request is neither a name nor an address"

struct host {
	char name[NET_NAME_MAX + 1]; /* in lower case, "" when it is none */
	bool bad;		     /* neither a name nor an address, though there is something */
	bool same_port;
};

/* Cuts the port off. False: it is no number, or a bracket is missing. */
static bool split_port(struct str *host, uint16_t usual, uint64_t *ret_port)
{
	struct str rest, whole = *host;
	bool brackets = str_starts(whole, STR("["));
	*ret_port = usual;
	*host = str_split(brackets ? str_skip(whole, 1) : whole, brackets ? ']' : ':', &rest);
	if (brackets && host->n + 2 > whole.n)
		return false;
	if (brackets && rest.n && rest.p[0] != ':')
		return false;
	if (brackets && rest.n)
		rest = str_skip(rest, 1);
	else if (brackets || host->n == whole.n)
		return true;
	return rest.n && str_to_u64(rest, 65535, ret_port);
}

static void read_host(struct str host, uint16_t port, struct host *ret)
{
	bool brackets = str_starts(host, STR("["));
	struct ip ip;
	uint64_t given;
	*ret = (struct host){.same_port = true};
	if (!host.n)
		return;
	bool good_port = split_port(&host, port, &given);
	ret->same_port = good_port && given == port;
	if (brackets || !rule_name(host, ret->name))
		*ret->name = 0;
	/* Only IPv6 stands in brackets. */
	bool address = ip_parse(host, &ip) && brackets == (str_index(host, ':') >= 0);
	ret->bad = !*ret->name && !(address && good_port);
}

/* A name that the box was told for the address, and that is denied. */
static struct verdict by_told_names(struct passage *c)
{
	const char *name;
	for (size_t i = 0; (name = names_get(&c->box->names, &c->wanted, i, loop_now(c->gate->loop))); i++) {
		struct verdict v = passage_name_ok(c, name, SPEECH_HTTP);
		if (v.answer == POLICY_DENY)
			return v;
	}
	return (struct verdict){.answer = POLICY_ALLOW, .why = ""};
}

/* The address alone decides; c->why may be about an earlier request. */
static struct verdict decide_settled(struct passage *c)
{
	char text[IP_TEXT];
	struct verdict v = policy_by_address(box_policy(c->box), gate_host(c->gate), false, &c->wanted, c->port);
	if (v.answer == POLICY_ALLOW)
		return v;
	if (v.answer != POLICY_DENY && passage_is_approved(c, ip_format(&c->wanted, text)))
		return (struct verdict){.answer = POLICY_ALLOW, .why = "approved once"};
	return (struct verdict){.answer = POLICY_DENY, .why = *v.why ? v.why : WHY_NO_NAME};
}

struct verdict web_decide_address(struct passage *c)
{
	char text[IP_TEXT];
	if (!c->by_name) {
		struct verdict told = by_told_names(c);
		return told.answer == POLICY_DENY ? told : decide_settled(c);
	}
	if (passage_is_approved(c, ip_format(&c->wanted, text)))
		return (struct verdict){.answer = POLICY_ALLOW, .why = "approved once"};
	return passage_no_name(c, WHY_NO_NAME);
}

static struct verdict refuse(const char *why)
{
	return (struct verdict){.answer = POLICY_DENY, .why = why};
}

struct verdict web_decide(struct web *w, const struct http_request *rq, char name[NET_NAME_MAX + 1])
{
	struct passage *c = w->conn;
	struct host host;
	read_host(rq->host, c->port, &host);
	memcpy(name, host.name, sizeof host.name);
	if (!box_policy(c->box))
		return refuse("the sandbox is gone");
	if (c->tls && (strcmp(name, c->name) != 0 || !host.same_port))
		return refuse("Host is not the name of the TLS connection (SNI)");
	if (c->settled)
		return decide_settled(c);
	if (c->tls)
		return passage_name_ok(c, name, SPEECH_TLS);
	if (rq->method == HTTP_M_CONNECT)
		return refuse("CONNECT is not passed on where names are decided");
	if (rq->absolute)
		return refuse("plain HTTP through a proxy is not passed on where names are decided");
	if (host.bad)
		return refuse(WHY_BAD_HOST);
	if (*name && (host.same_port || !c->by_name))
		return passage_name_ok(c, name, SPEECH_HTTP);
	if (*name)
		return refuse("mode list: Host names another port");
	return web_decide_address(c);
}
