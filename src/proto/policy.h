/*
 * policy.h - what a box may reach, and which rule says so.
 *
 * A decision has two steps, because an address is known before a name. policy_by_address() decides what it can; when it
 * answers POLICY_NEEDS_NAME the caller finds out the name (SNI, Host, the names that our resolver gave for the address)
 * and asks policy_by_name(). Addresses that a name leads to are checked with policy_address_ok() before they are
 * dialled.
 *
 *	deny beats allow · a range that is never reachable needs an address rule in `allow` · open: everything public
 *	list: only `allow`; with `ask`, POLICY_ASK for the rest · off: nothing
 *
 * Each verdict names the rule, or the reason where no rule decided; the text lives as long as the policy. Immutable
 * after policy_read; shared by counting.
 */
#pragma once

#include "base/json.h"
#include "proto/rule.h"

enum policy_mode { POLICY_OPEN, POLICY_LIST, POLICY_OFF };

struct policy {
	int refs;
	enum policy_mode mode;
	struct rule *allow, *deny;
	size_t allow_n, deny_n;
	bool deny_names, allow_names; /* there are such rules */
	bool ask;		      /* what no rule decides in mode list is held until somebody does */
	uint64_t ask_ms;	      /* so long at most */
	uint64_t rate;		      /* bytes a second, 0: no limit */
	uint32_t conns;
};

/* How a connection speaks. */
enum policy_speech { SPEECH_OTHER, SPEECH_HTTP, SPEECH_TLS, SPEECH_DATAGRAM, SPEECH_RTSP };

enum policy_answer { POLICY_DENY, POLICY_ALLOW, POLICY_NEEDS_NAME, POLICY_ASK };

struct verdict {
	enum policy_answer answer;
	bool look; /* ALLOW by address, but a name could still deny it */
	const char *why;
};

/* The reason where ip_host.deny_onlink decides. */
#define POLICY_WHY_ONLINK "a neighbour of the host: a rule has to name it"

/* Reads mode, allow, deny, ask, askTimeout, rateBps, maxConnections. VALIDATION_FAILED, about the member. */
int policy_read(const struct json *object, struct policy **ret, struct err *e);
struct policy *policy_ref(struct policy *p);
void policy_unref(struct policy *p); /* NULL is fine */
const char *policy_mode_name(enum policy_mode m);
bool policy_mode_parse(struct str text, enum policy_mode *ret);

struct verdict policy_by_address(
	const struct policy *p, struct ip_host *host, bool udp, const struct ip *ip, uint16_t port);
struct verdict policy_by_name(const struct policy *p, const char *name, uint16_t port, enum policy_speech how);
/* A rule in `deny` says so. For what is allowed by its address nothing else counts about a name. */
bool policy_denies_name(const struct policy *p, const char *name, uint16_t port, enum policy_speech how);
/* An address that the decided name has; NULL or "": no name decided. */
struct verdict policy_address_ok(
	const struct policy *p, struct ip_host *host, bool udp, const struct ip *ip, uint16_t port, const char *name);
/* Whether an address may stand in an answer: some port of it can be reached. */
bool policy_may_show(const struct policy *p, struct ip_host *host, const struct ip *ip);
/* Whether questions about this name may be asked. */
struct verdict policy_may_resolve(const struct policy *p, const char *name);

/* For the steering (box/steer.h): whether a rule can allow datagrams, or addresses that are never reachable without. */
bool policy_has_datagrams(const struct policy *p);
bool policy_has_private(const struct policy *p);
