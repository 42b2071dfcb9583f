/*
 * One TCP connection of a box, from accept to the relay. docs/design/011-network.md has the order of the decisions.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "gate/gate.h"

static void set_why(struct passage *c, const char *why)
{
	if (why != c->why)
		snprintf(c->why, sizeof c->why, "%s", why);
}

void passage_deny(struct passage *c, const char *why)
{
	set_why(c, why);
	passage_refuse(c);
}

/* ---- moving ---- */

static void on_relay_end(struct relay *r, enum relay_end how)
{
	static const char *const text[] = {[RELAY_CLOSED] = "closed",
		[RELAY_CLIENT_RESET] = "the client reset",
		[RELAY_SERVER_RESET] = "the server reset",
		[RELAY_IDLE] = "idle too long",
		[RELAY_UNWATCHED] = "cannot be watched"};
	struct passage *c = container_of(r, struct passage, relay);
	if (how != RELAY_CLOSED) {
		relay_reset(&c->client);
		relay_reset(&c->server);
	}
	passage_end(c, "allow", text[how]);
}

static bool client_left(struct relay *r)
{
	const struct passage *c = container_of(r, struct passage, relay);
	return peer_has_closed(c->box->diag, &c->from, &(struct peer_end){c->wanted, c->port});
}

void passage_move(struct passage *c)
{
	if (c->connecting)
		return connect_reached(c);
	peek_stop(c);
	loop_timer_stop(&c->timer);
	loop_del(&c->server_io);
	c->state = PASSAGE_MOVING;
	windows_set(c->box, c->client);
	windows_set(c->box, c->server);
	relay_start(&c->relay, c->gate->loop, c->client, c->server, &c->box->bucket, on_relay_end);
	c->relay.client_left = client_left;
	c->relay.order = &c->box->conns;
	c->relay.place = &c->node;
}

/* ---- dialling ---- */

static void drop_server(struct passage *c)
{
	loop_del(&c->server_io);
	fd_close(&c->server);
	reach_cancel(c->reach);
	c->reach = NULL;
}

static void decide_other(struct passage *c);

/* The server speaks first: what follows is neither TLS nor HTTP. */
static void on_server_first(struct loop_io *io, uint32_t events)
{
	struct passage *c = container_of(io, struct passage, server_io);
	(void)events;
	loop_del(io);
	peek_stop(c);
	c->looked = true;
	c->speech = SPEECH_OTHER;
	decide_other(c);
}

static bool may_be_intercepted(const struct passage *c);

static void on_reached(void *arg, int fd, const struct ip *ip)
{
	struct passage *c = arg;
	c->reach = NULL;
	/* Dialled ahead, and perhaps not needed: what the client says decides. */
	if (fd < 0 && c->state == PASSAGE_PEEKING && may_be_intercepted(c))
		return;
	if (fd == REACH_FORBIDDEN)
		return passage_forbidden(c, reach_why(c->box, ip, c->port));
	if (fd < 0)
		return passage_unreachable(c, -fd);
	c->server = fd;
	c->reached = *ip;
	if (c->state != PASSAGE_PEEKING)
		return passage_move(c);
	if (loop_add(c->gate->loop, &c->server_io, fd, EPOLLIN, on_server_first) < 0)
		passage_cut(c, "cannot be watched");
}

static struct reach_to destination(const struct passage *c)
{
	return (struct reach_to){.name = c->name, .wanted = c->wanted, .port = c->port, .own_only = c->synthetic};
}

/* The i-th name that this box was told for the address; NULL at the end. */
static const char *told_name(const struct passage *c, size_t i)
{
	if (c->synthetic)
		return i ? NULL : synth_name(&c->box->synth, &c->wanted);
	return names_get(&c->box->names, &c->wanted, i, loop_now(c->gate->loop));
}

static void dial_wanted(struct passage *c)
{
	const char *told = told_name(c, 0);
	if (!*c->name && told)
		snprintf(c->name, sizeof c->name, "%s", told);
	struct reach_to to = destination(c);
	c->reach = reach_start(c->box, &to, on_reached, c);
}

/* The name is decided: only its own addresses count. What was dialled ahead may be one of them. */
static void dial_name(struct passage *c)
{
	struct reach_to to = destination(c);
	c->state = PASSAGE_DIALLING;
	const char *ahead = c->synthetic ? told_name(c, 0) : NULL;
	bool same = ahead && strcmp(ahead, c->name) == 0;
	bool own = (c->server >= 0 || c->reach) && (same || reach_is_own(c->box, &to));
	if (own && c->server >= 0)
		return passage_move(c);
	if (own)
		return;
	drop_server(c);
	to.own_only = true;
	c->reach = reach_start(c->box, &to, on_reached, c);
}

/* ---- deciding ---- */

/* Allowed: use what was dialled ahead, or what is being dialled. */
static void go_ahead(struct passage *c)
{
	c->state = PASSAGE_DIALLING;
	if (c->server >= 0)
		passage_move(c);
	else if (!c->reach)
		dial_wanted(c);
}

struct verdict passage_name_ok(struct passage *c, const char *name, enum policy_speech how)
{
	const struct policy *p = box_policy(c->box);
	struct verdict v = policy_by_name(p, name, c->port, how);
	/* Allowed by its address. */
	if (!c->by_name && v.answer != POLICY_ALLOW && !policy_denies_name(p, name, c->port, how)) {
		struct verdict range = policy_by_address(p, gate_host(c->gate), false, &c->wanted, c->port);
		v = range.answer == POLICY_ALLOW ? range : v;
	}
	if (v.answer == POLICY_ASK && passage_is_approved(c, name))
		v = (struct verdict){.answer = POLICY_ALLOW, .why = "approved once"};
	return v;
}

struct verdict passage_no_name(const struct passage *c, const char *why)
{
	const struct policy *p = box_policy(c->box);
	bool list = p->mode == POLICY_LIST;
	return (struct verdict){.answer = list && p->ask && !c->synthetic ? POLICY_ASK : POLICY_DENY,
		.why = list || c->synthetic ? why : POLICY_WHY_ONLINK};
}

static struct verdict without_name(struct passage *c)
{
	if (!c->by_name)
		return (struct verdict){.answer = POLICY_ALLOW, .why = c->why};
	return passage_no_name(c, "mode list: no name is known for this address");
}

/* By the names that this box was told for the address: in list mode one of them must be allowed, otherwise none of them
 * may be denied. Where none is allowed, the first that somebody could approve counts. */
static struct verdict by_told_names(struct passage *c, enum policy_speech how)
{
	struct verdict last = without_name(c);
	const char *name;
	for (size_t i = 0; (name = told_name(c, i)); i++) {
		struct verdict v = passage_name_ok(c, name, how);
		if (i && v.answer == POLICY_DENY && last.answer == POLICY_ASK)
			continue;
		last = v;
		snprintf(c->name, sizeof c->name, "%s", name);
		if (c->by_name == (v.answer == POLICY_ALLOW))
			return v;
	}
	return last;
}

static void decide_other(struct passage *c)
{
	if (c->settled)
		return go_ahead(c);
	struct verdict v = by_told_names(c, SPEECH_OTHER);
	if (v.answer == POLICY_ASK)
		return passage_hold(c);
	if (v.answer != POLICY_ALLOW)
		return passage_deny(c, v.why);
	set_why(c, v.why);
	go_ahead(c);
}

/* An outbound handler answers for it, whatever the policy says of the name. */
static bool is_hooked(const struct passage *c, const char *name)
{
	const struct gate_sandbox *s = c->box->sandbox;
	return s && hooks_want(s->hooks, true, &(struct hook_dest){name, &c->wanted, c->port});
}

/* TLS to hosts of secrets and outbound handlers ends here; all else passes untouched. */
static bool is_intercepted(const struct passage *c, const char *name)
{
	const struct gate_sandbox *s = c->box->sandbox;
	return s && *name && (secrets_want(s->secrets, name, c->port) || is_hooked(c, name));
}

static void start_web(struct passage *c)
{
	drop_server(c);
	c->state = PASSAGE_MOVING;
	if (web_start(c) < 0)
		passage_cut(c, "cannot be watched");
}

static void intercept(struct passage *c, const char *why)
{
	c->tls = true;
	set_why(c, why);
	start_web(c);
}

/* `name` is NULL when the hello cannot be read: it may hold a name that is denied. */
static void decide_tls(struct passage *c, const char *name)
{
	if (!name && !c->by_name && !c->settled)
		return passage_deny(c, "deny has names, and the TLS hello cannot be read");
	c->unread = !name;
	name = name ? name : "";
	c->named = *name;
	struct verdict v = passage_no_name(c, "mode list: the TLS hello names no server (SNI)");
	if (!*name && c->by_name && v.answer == POLICY_DENY)
		return passage_deny(c, v.why);
	if (!*name)
		return c->by_name ? passage_hold(c) : decide_other(c);
	snprintf(c->name, sizeof c->name, "%s", name);
	if (is_hooked(c, name))
		return intercept(c, "outbound handler");
	v = c->settled ? (struct verdict){.answer = POLICY_ALLOW, .why = c->why} : passage_name_ok(c, name, SPEECH_TLS);
	if (v.answer == POLICY_ASK)
		return passage_hold(c);
	if (v.answer != POLICY_ALLOW)
		return passage_deny(c, v.why);
	if (is_intercepted(c, name))
		return intercept(c, v.why);
	if (!c->by_name)
		return go_ahead(c);
	set_why(c, v.why);
	dial_name(c);
}

/* A proxy of the box's own: it must be allowed with its port, and so must the name that it is asked for. */
static void decide_connect(struct passage *c)
{
	struct verdict v = connect_decide(c);
	if (v.answer != POLICY_ALLOW)
		return passage_deny(c, v.why);
	v = c->settled ? v : by_told_names(c, SPEECH_OTHER);
	if (v.answer == POLICY_ASK)
		return passage_hold(c);
	if (v.answer != POLICY_ALLOW)
		return passage_deny(c, v.why);
	set_why(c, v.why);
	c->connecting = true;
	if (c->by_name && *c->name)
		return dial_name(c);
	go_ahead(c);
}

void passage_spoke(struct passage *c, enum policy_speech how, const char *name)
{
	peek_stop(c);
	loop_del(&c->server_io);
	c->looked = true;
	bool rtsp = how == SPEECH_RTSP;
	c->speech = how = rtsp ? SPEECH_OTHER : how;
	if (c->refuse)
		return passage_refuse(c);
	/* Some servers of HTTP take RTSP as well, and another host in the requests that follow. */
	if (rtsp && !c->settled)
		return passage_deny(c, "RTSP is not decided by names: allow its address range");
	if (worker_of(c))
		return worker_spoke(c, how, name);
	if (how == SPEECH_TLS)
		return decide_tls(c, name);
	if (how != SPEECH_HTTP)
		return decide_other(c);
	if (connect_is(c))
		return decide_connect(c);
	start_web(c);
}

void passage_silent(struct passage *c, const char *end, bool late)
{
	const struct policy *p = box_policy(c->box);
	peek_stop(c);
	if (c->refuse)
		return passage_refuse(c);
	if (late && p && worker_of(c))
		return worker_spoke(c, SPEECH_OTHER, "");
	/* Nobody has decided yet. What was dialled ahead, or may be intercepted, waits for the client's words. */
	if (late && p && p->ask && !c->reach && c->server < 0) {
		struct verdict v = by_told_names(c, SPEECH_OTHER);
		if (v.answer == POLICY_ASK)
			return passage_hold(c);
		if (v.answer == POLICY_DENY)
			return passage_deny(c, v.why);
	}
	relay_reset(&c->client);
	if (late)
		return passage_end(c, "deny", end);
	/* Opened and closed, and nothing was asked for: what it might have been decides. */
	struct verdict v = p ? by_told_names(c, SPEECH_TLS) : (struct verdict){.answer = POLICY_DENY, .why = c->why};
	set_why(c, v.why);
	passage_end(c, v.answer == POLICY_ALLOW ? "allow" : "deny", end);
}

/* A name that the box was told for this address and a rule with that very port: any protocol may follow. */
static bool may_dial_ahead(struct passage *c)
{
	return by_told_names(c, SPEECH_OTHER).answer == POLICY_ALLOW;
}

/* What follows may well end here, and need no server: a secret or an outbound handler wants a name of the address. */
static bool may_be_intercepted(const struct passage *c)
{
	const struct gate_sandbox *s = c->box->sandbox;
	const char *name;
	for (size_t i = 0; s && (name = told_name(c, i)); i++)
		if (is_intercepted(c, name) ||
			hooks_want(s->hooks, false, &(struct hook_dest){name, &c->wanted, c->port}))
			return true;
	return s && hooks_any(s->hooks);
}

static bool is_web_port(const struct passage *c)
{
	return c->synthetic || c->port == 80 || c->port == 443;
}

/* Placeholders and interceptions are in the first bytes. */
static bool must_look(const struct passage *c)
{
	return c->box->sandbox->secrets || c->box->sandbox->hooks;
}

/* A synthetic address stands for its name, which decides. */
static struct verdict by_address(struct passage *c)
{
	char text[IP_TEXT];
	const struct policy *p = box_policy(c->box);
	c->synthetic = synth_is(&c->wanted) && synth_name(&c->box->synth, &c->wanted);
	if (c->synthetic && p->mode != POLICY_OFF)
		return (struct verdict){.answer = POLICY_NEEDS_NAME, .why = ""};
	struct verdict v = policy_by_address(p, gate_host(c->gate), false, &c->wanted, c->port);
	/* A handler may answer for an address that no rule allows; one that is forbidden stays so. */
	if (v.answer == POLICY_DENY && worker_of(c) && p->mode == POLICY_LIST &&
		policy_address_ok(p, gate_host(c->gate), false, &c->wanted, c->port, NULL).answer == POLICY_ALLOW)
		return (struct verdict){.answer = POLICY_NEEDS_NAME, .why = v.why};
	if (v.answer == POLICY_NEEDS_NAME && passage_is_approved(c, ip_format(&c->wanted, text)))
		v = (struct verdict){.answer = POLICY_ALLOW, .why = "approved once"};
	return v;
}

static uint64_t patience(const struct passage *c)
{
	/* A server may take its time to speak first: then there is no limit on the client's silence but the idle one.
	 */
	if (c->reach)
		return GATE_IDLE;
	return box_policy(c->box)->ask ? GATE_ASK_SILENT : GATE_FIRST_BYTES;
}

void passage_decide(struct passage *c)
{
	struct verdict v = by_address(c);
	set_why(c, v.why);
	c->by_name = v.answer == POLICY_NEEDS_NAME;
	if (v.answer == POLICY_DENY) {
		c->refuse = true;
		return peek_start(c, GATE_REFUSAL_WAIT);
	}
	c->settled = v.answer == POLICY_ALLOW && !v.look;
	if (worker_of(c))
		return peek_start(c, GATE_ASK_SILENT);
	if (c->settled && !must_look(c)) {
		c->state = PASSAGE_DIALLING;
		return dial_wanted(c);
	}
	bool ends_here = is_web_port(c) && may_be_intercepted(c);
	if (!ends_here && (v.look || c->settled || may_dial_ahead(c))) {
		c->state = PASSAGE_PEEKING;
		dial_wanted(c);
	}
	peek_start(c, patience(c));
}

/* ---- a changed policy ---- */

/* A tunnel through the box's own proxy needs both names, as long as it is open. */
static bool target_ok(const struct passage *c)
{
	return c->settled || !*c->target || connect_target(c).answer == POLICY_ALLOW;
}

/* It was never looked at, and has to be now. What is still to say its first byte is peeked at from here on. False: it
 * has said something already. */
static bool look_now(struct passage *c)
{
	if (c->state == PASSAGE_PEEKING)
		return true;
	if (c->state == PASSAGE_MOVING) {
		if (!relay_is_untouched(&c->relay))
			return false;
		relay_stop(&c->relay);
		c->relay = (struct relay){0};
		if (loop_add(c->gate->loop, &c->server_io, c->server, EPOLLIN, on_server_first) < 0)
			return false;
	}
	peek_start(c, GATE_IDLE);
	return true;
}

/* The server that was reached is one of the name's own, as far as we know. */
static bool is_own(const struct passage *c, const char *name)
{
	struct reach_to to = {.name = name, .wanted = c->reached, .port = c->port};
	const char *told;
	for (size_t i = 0; (told = names_get(&c->box->names, &c->reached, i, loop_now(c->gate->loop))); i++)
		if (strcmp(told, name) == 0)
			return true;
	return reach_is_own(c->box, &to);
}

/* The name that decided, which may be told no longer, and all that are. */
static bool told_ok(struct passage *c, enum policy_speech how)
{
	char kept[sizeof c->name];
	snprintf(kept, sizeof kept, "%s", c->name);
	if (*kept && c->by_name == (passage_name_ok(c, kept, how).answer == POLICY_ALLOW))
		return c->by_name;
	bool ok = by_told_names(c, how).answer == POLICY_ALLOW;
	snprintf(c->name, sizeof c->name, "%s", kept);
	return ok;
}

/* By what its first bytes said. `any`: it was dialled when no name decided, so any server may have been reached. */
static bool words_ok(struct passage *c, bool any)
{
	struct passage_leg leg = {.name = ""};
	if (c->web) {
		web_leg(c->web, &leg);
		return web_policy(c->web) && (!any || c->tls || !*leg.name || is_own(c, leg.name));
	}
	if (c->speech != SPEECH_TLS)
		return told_ok(c, SPEECH_OTHER);
	if (c->named)
		return passage_name_ok(c, c->name, SPEECH_TLS).answer == POLICY_ALLOW && (!any || is_own(c, c->name));
	return !c->by_name && !c->unread && told_ok(c, SPEECH_TLS);
}

static bool still_allowed(struct passage *c)
{
	bool any = !c->by_name, secrets = c->box->sandbox->secrets;
	struct verdict v = by_address(c);
	c->settled = v.answer == POLICY_ALLOW && !v.look;
	c->by_name = v.answer == POLICY_NEEDS_NAME;
	if (!target_ok(c))
		return false;
	/* What the Worker allowed stays, unless its address is forbidden now. */
	if (c->by_worker)
		return v.answer != POLICY_DENY;
	if (c->web && web_is_held(c->web))
		return web_policy(c->web);
	if (v.answer == POLICY_DENY)
		return false;
	if (!c->looked && !c->relay.server_first && (!c->settled || secrets))
		return look_now(c);
	return c->settled || words_ok(c, any && c->by_name);
}

void passage_policy(struct passage *c)
{
	if (c->state == PASSAGE_WAITING) {
		loop_timer_stop(&c->timer);
		passage_decide(c);
	} else if (c->state == PASSAGE_HELD) {
		passage_held_policy(c);
	} else if (c->state == PASSAGE_PEEKING && !c->refuse && !c->reach && c->server < 0) {
		peek_stop(c);
		passage_decide(c);
	} else if (c->state != PASSAGE_REFUSING && c->state != PASSAGE_DEAD && !c->refuse && !still_allowed(c)) {
		set_why(c, "the policy was changed");
		passage_cut(c, "cut by a changed policy");
	}
}

static void on_no_policy(struct loop_timer *t)
{
	passage_cut(container_of(t, struct passage, timer), "no policy came");
}

/* ---- life ---- */

/* Somebody in the box found the port that our listener is bound to. */
static bool is_inside(const struct ip *ip)
{
	static const struct ip own6 = {{0xfd, 0x61, 0x74, 0x6f, 0x6c, 0x6c, [15] = 2}};
	struct ip own4 = ip_v4(0xc0000002);
	return ip_kind(ip) == IP_LOOPBACK || ip_eq(ip, &own4) || ip_eq(ip, &own6);
}

void passage_new(struct gate_box *b, int fd, const struct peer_end *from)
{
	union ip_sockaddr sa;
	socklen_t n = sizeof sa;
	struct ip wanted;
	uint16_t port;
	if (getsockname(fd, &sa.sa, &n) < 0 || !ip_from_sockaddr(&sa, &wanted, &port) || is_inside(&wanted))
		return relay_reset(&fd);
	if (port == 53)
		return dnsd_stream(b, fd);
	struct passage *c = xcalloc(1, sizeof *c);
	c->gate = b->gate;
	c->box = b;
	c->client = fd;
	c->from = *from;
	c->server = -1;
	c->wanted = c->reached = wanted;
	c->port = port;
	c->started = loop_now(b->gate->loop);
	c->wall = clock_wall_ms();
	list_push(&b->conns, &c->node);
	box_conn_begins(b);
	if (box_policy(b))
		return passage_decide(c);
	c->state = PASSAGE_WAITING;
	loop_timer_set(b->gate->loop, &c->timer, GATE_POLICY_WAIT, on_no_policy);
}

void passage_shed(struct passage *c, const char *end)
{
	relay_reset(&c->client);
	passage_end(c, c->state == PASSAGE_MOVING ? "allow" : "deny", end);
}

void passage_cut(struct passage *c, const char *end)
{
	if (c->state == PASSAGE_DEAD)
		return;
	relay_reset(&c->client);
	passage_end(c, "deny", end);
}
