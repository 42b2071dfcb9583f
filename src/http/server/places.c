#include "http/server/places.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "http/limits.h"
#include "http/server/conn.h"

static size_t share(size_t of, size_t parts)
{
	return of > parts ? of / parts : 1;
}

static size_t strangers_max(const struct http_server *s)
{
	return share(s->config.conns_max, HTTP_STRANGERS_SHARE);
}

size_t http_server_guests_max(const struct http_server *s)
{
	return share(s->config.conns_max, HTTP_GUESTS_SHARE);
}

/* Of all ranks but the local one. */
static size_t public_max(const struct http_server *s)
{
	size_t all = s->config.conns_max, local = share(all, HTTP_LOCAL_SHARE);
	return all > local ? all - local : 1;
}

static size_t public_count(const struct http_server *s)
{
	return s->stats.conns - s->stats.by_rank[HTTP_LOCAL];
}

/* ---- addresses ---- */

/* A client with one IPv6 address usually has its whole /64. */
static bool address_key(const struct sockaddr *sa, unsigned char ret[16])
{
	memset(ret, 0, 16);
	if (sa->sa_family == AF_INET) {
		ret[10] = ret[11] = 0xff;
		memcpy(ret + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
		return true;
	}
	if (sa->sa_family != AF_INET6)
		return false;
	const struct in6_addr *a = &((const struct sockaddr_in6 *)sa)->sin6_addr;
	memcpy(ret, a, IN6_IS_ADDR_V4MAPPED(a) ? 16 : 8);
	return true;
}

static void address_join(struct http_conn *c)
{
	struct http_server *s = c->s;
	struct sockaddr_in6 six = {0};
	struct sockaddr *sa = (struct sockaddr *)&six;
	socklen_t len = sizeof six;
	unsigned char key[16];
	if (getpeername(c->w.fd, sa, &len) < 0 || !address_key(sa, key))
		return;
	c->proxied = s->exempt && s->exempt(s->exempt_arg, sa);
	if (c->proxied)
		return;
	struct place_address *a = map_get(&s->addresses, str_n(key, sizeof key));
	if (!a) {
		a = xcalloc(1, sizeof *a);
		memcpy(a->key, key, sizeof key);
		list_init(&a->list);
		map_put(&s->addresses, str_n(key, sizeof key), a);
	}
	a->conns++;
	c->address = a;
}

static void address_part(struct http_conn *c)
{
	struct place_address *a = c->address;
	c->address = NULL;
	if (!a || --a->conns)
		return;
	map_del(&c->s->addresses, str_n(a->key, sizeof a->key));
	free(a);
}

/* ---- ranks ---- */

static struct http_conn *first(const struct list *l)
{
	return list_empty(l) ? NULL : list_entry(l->next, struct http_conn, place);
}

static struct http_conn *first_idle(const struct http_server *s, enum http_rank rank)
{
	const struct list *l = &s->idle[rank];
	return list_empty(l) ? NULL : list_entry(l->next, struct http_conn, idle);
}

static struct http_conn *slowest(const struct http_server *s)
{
	struct http_conn *c = first(&s->lingering);
	return c ? c : first(&s->strangers);
}

static void shed(struct http_conn *c, enum http_shed why)
{
	c->s->stats.shed[why]++;
	conn_gone(c);
}

/* A guest that still sends its request may be closed for one that has sent it. */
static void note_sender(struct http_conn *c)
{
	list_del(&c->place);
	if (c->rank == HTTP_GUEST && !exchange_body_ended(&c->x))
		list_push(&c->s->senders, &c->place);
}

/* Called from inside the handler of another request, so a living exchange ends at the end of the turn. */
static bool shed_sender(struct http_server *s)
{
	struct http_conn *c = first(&s->senders);
	if (!c)
		return false;
	list_del(&c->place);
	s->stats.shed[HTTP_SHED_GUEST]++;
	if (c->state == CONN_OPEN)
		http_abort(&c->x);
	else
		conn_gone(c);
	return true;
}

static void enter(struct http_conn *c)
{
	struct http_server *s = c->s;
	if (c->rank == HTTP_STRANGER) {
		if (c->address && c->address->strangers >= s->config.address_max)
			shed(list_entry(c->address->list.next, struct http_conn, same_address), HTTP_SHED_ADDRESS);
		if (s->stats.by_rank[HTTP_STRANGER] >= strangers_max(s))
			shed(slowest(s), HTTP_SHED_STRANGER);
		list_push(&s->strangers, &c->place);
		if (c->address) {
			list_push(&c->address->list, &c->same_address);
			c->address->strangers++;
		}
	}
	s->stats.by_rank[c->rank]++;
	if (c->rank == HTTP_GUEST)
		note_sender(c);
}

static void leave(struct http_conn *c)
{
	c->s->stats.by_rank[c->rank]--;
	list_del(&c->place);
	if (c->rank != HTTP_STRANGER)
		return;
	if (c->lingers)
		c->s->lingering_n--;
	c->lingers = false;
	list_del(&c->same_address);
	if (c->address)
		c->address->strangers--;
}

void place_take(struct http_conn *c)
{
	struct http_server *s = c->s;
	bool is_public = s->has_public && c->tag == s->public_tag;
	c->rank = is_public ? HTTP_STRANGER : HTTP_LOCAL;
	if (is_public)
		address_join(c);
	enter(c);
	conn_turn_choose(c);
}

void place_leave(struct http_conn *c)
{
	leave(c);
	address_part(c);
}

/* It has completed a request, and so is not the slowest any more. */
static void renew(struct http_conn *c)
{
	list_del(&c->place);
	list_push(&c->s->strangers, &c->place);
	if (!c->address)
		return;
	list_del(&c->same_address);
	list_push(&c->address->list, &c->same_address);
}

static bool guest_fits(struct http_server *s)
{
	if (s->stats.by_rank[HTTP_GUEST] < http_server_guests_max(s))
		return true;
	struct http_conn *idle = first_idle(s, HTTP_GUEST);
	if (!idle)
		return shed_sender(s);
	shed(idle, HTTP_SHED_GUEST);
	return true;
}

bool place_set_rank(struct http_conn *c, enum http_rank rank)
{
	if (c->rank == HTTP_LOCAL)
		return true;
	if (c->rank == rank) {
		if (rank == HTTP_STRANGER)
			renew(c);
		else
			note_sender(c);
		return true;
	}
	if (rank == HTTP_GUEST && !guest_fits(c->s))
		return false;
	leave(c);
	c->rank = rank;
	enter(c);
	conn_turn_choose(c);
	return true;
}

void place_body_ended(struct http_conn *c)
{
	if (c->rank == HTTP_GUEST)
		list_del(&c->place);
}

void place_linger(struct http_conn *c)
{
	struct http_server *s = c->s;
	if (c->rank != HTTP_STRANGER || c->lingers)
		return;
	if (s->lingering_n >= s->config.lingering_max)
		shed(first(&s->lingering), HTTP_SHED_LINGERING);
	c->lingers = true;
	s->lingering_n++;
	list_del(&c->place);
	list_push(&s->lingering, &c->place);
}

/* ---- newcomers ---- */

bool place_is_full(const struct http_server *s, bool is_public)
{
	return s->stats.conns >= s->config.conns_max || (is_public && public_count(s) >= public_max(s));
}

struct http_conn *place_victim(struct http_server *s, bool is_public)
{
	bool local_helps = !is_public || public_count(s) < public_max(s);
	struct http_conn *c = first(&s->lingering);
	/* Some strangers stay as long as idle connections can go: a client that has just come is one of them. */
	if (!c && s->stats.by_rank[HTTP_STRANGER] > share(strangers_max(s), HTTP_STRANGERS_KEPT_SHARE))
		c = first(&s->strangers);
	if (!c)
		c = first_idle(s, HTTP_GUEST);
	if (!c)
		c = first_idle(s, HTTP_KNOWN);
	if (!c && local_helps)
		c = first_idle(s, HTTP_LOCAL);
	return c ? c : first(&s->strangers);
}
