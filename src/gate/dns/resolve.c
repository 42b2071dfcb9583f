#include "gate/dns/resolve.h"

#include <ares.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/map.h"

enum { SOCKETS = ARES_GETSOCK_MAXNUM * 2, LOOK_MS = 2000, TRIES = 2, IN_FLIGHT_MAX = 2048 };

struct resolve_entry {
	struct resolver *r;
	struct list node; /* of r->order: used longest ago first */
	struct list due;  /* of r->due */
	struct list waits;
	bool held; /* its answer is being told: it stays */
	struct dns_answer answer;
	uint64_t born, until; /* until 0: under way */
	uint16_t type;
	char name[NET_NAME_MAX + 1];
};

struct resolver {
	struct loop *loop;
	ares_channel channel;
	bool open;
	struct map entries; /* type and name → struct resolve_entry */
	struct list order;
	struct list due; /* entries with an answer that somebody waits for */
	size_t in_flight;
	struct {
		struct loop_io io;
		ares_socket_t fd;
		struct resolver *r;
	} socks[SOCKETS];
	struct loop_timer timer;
	struct loop_task tell, reopen;
	uint64_t looked;
	struct timespec conf_time, hosts_time;
};

/* ---- sockets and time ---- */

static void arm(struct resolver *r);

static void on_timer(struct loop_timer *t)
{
	struct resolver *r = container_of(t, struct resolver, timer);
	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	arm(r);
}

static void arm(struct resolver *r)
{
	struct timeval tv;
	if (!r->in_flight || !ares_timeout(r->channel, NULL, &tv))
		return loop_timer_stop(&r->timer);
	loop_timer_set(r->loop, &r->timer, (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1, on_timer);
}

static void on_socket(struct loop_io *io, uint32_t events)
{
	struct resolver *r = ((__typeof__(((struct resolver *)0)->socks[0]) *)io)->r;
	ares_socket_t fd = io->fd;
	ares_process_fd(r->channel, events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? fd : ARES_SOCKET_BAD,
		events & EPOLLOUT ? fd : ARES_SOCKET_BAD);
	arm(r);
}

static void on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = arg;
	uint32_t events = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0);
	size_t i = 0, empty = SOCKETS;
	for (; i < SOCKETS && !(r->socks[i].io.loop && r->socks[i].fd == fd); i++)
		if (!r->socks[i].io.loop && empty == SOCKETS)
			empty = i;
	if (i < SOCKETS && events)
		return loop_set_events(&r->socks[i].io, events);
	if (i < SOCKETS)
		return loop_del(&r->socks[i].io);
	if (!events || empty == SOCKETS)
		return;
	r->socks[empty].fd = fd;
	r->socks[empty].r = r;
	loop_add(r->loop, &r->socks[empty].io, fd, events, on_socket);
}

static int open_channel(struct resolver *r)
{
	struct ares_options o = {.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOCHECKRESP,
		.timeout = GATE_DNS_TIMEOUT / TRIES,
		.tries = TRIES,
		.sock_state_cb = on_state,
		.sock_state_cb_data = r};
	int s = ares_init_options(
		&r->channel, &o, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
	r->open = s == ARES_SUCCESS;
	return s;
}

/* ---- entries ---- */

static struct str key_of(char room[NET_NAME_MAX + 8], const char *name, uint16_t type)
{
	int n = snprintf(room, NET_NAME_MAX + 8, "%u %s", type, name);
	return str_n(room, (size_t)n);
}

static void drop(struct resolve_entry *t)
{
	char room[NET_NAME_MAX + 8];
	map_del(&t->r->entries, key_of(room, t->name, t->type));
	list_del(&t->node);
	list_del(&t->due);
	dns_answer_free(&t->answer);
	free(t);
}

/* Answered, and nobody waits for it. */
static bool may_go(const struct resolve_entry *t)
{
	return t->until && list_empty(&t->waits) && !t->held;
}

static void make_room(struct resolver *r)
{
	list_each(it, &r->order)
	{
		struct resolve_entry *t = list_entry(it, struct resolve_entry, node);
		if (r->entries.count < GATE_DNS_CACHE_MAX)
			return;
		if (may_go(t))
			drop(t);
	}
}

static struct resolve_entry *find(struct resolver *r, const char *name, uint16_t type)
{
	char room[NET_NAME_MAX + 8];
	struct resolve_entry *t = map_get(&r->entries, key_of(room, name, type));
	if (t && t->until && t->until <= loop_now(r->loop)) {
		if (!may_go(t))
			return t; /* it is being told right now */
		drop(t);
		return NULL;
	}
	if (t) {
		list_del(&t->node);
		list_push(&r->order, &t->node);
	}
	return t;
}

static struct resolve_entry *new_entry(struct resolver *r, const char *name, uint16_t type)
{
	char room[NET_NAME_MAX + 8];
	make_room(r);
	struct resolve_entry *t = xcalloc(1, sizeof *t);
	t->r = r;
	t->type = type;
	snprintf(t->name, sizeof t->name, "%s", name);
	list_init(&t->waits);
	list_push(&r->order, &t->node);
	map_put(&r->entries, key_of(room, name, type), t);
	return t;
}

static uint32_t age_of(const struct resolve_entry *t)
{
	return (uint32_t)((loop_now(t->r->loop) - t->born) / 1000);
}

/* Tells all who wait. They may ask on, which moves entries about and drops some: none but the held one is kept in hand.
 */
static void tell(struct loop_task *task)
{
	struct resolver *r = container_of(task, struct resolver, tell);
	while (!list_empty(&r->due)) {
		struct resolve_entry *t = list_entry(list_pop(&r->due), struct resolve_entry, due);
		t->held = true;
		while (!list_empty(&t->waits)) {
			struct resolve_wait *w = list_entry(list_pop(&t->waits), struct resolve_wait, node);
			w->waiting = false;
			w->on_answer(w, &t->answer, age_of(t));
		}
		t->held = false;
	}
}

static void tell_later(struct resolve_entry *t)
{
	list_del(&t->due);
	list_push(&t->r->due, &t->due);
	loop_defer(t->r->loop, &t->r->tell, tell);
}

static void settle(struct resolve_entry *t)
{
	struct resolver *r = t->r;
	uint64_t life = GATE_DNS_TTL_MAX;
	for (size_t i = 0; i < t->answer.n; i++)
		if ((uint64_t)t->answer.v[i].ttl * 1000 < life)
			life = (uint64_t)t->answer.v[i].ttl * 1000;
	if (!t->answer.n)
		life = GATE_DNS_NEGATIVE;
	if (t->answer.rcode == DNS_SERVFAIL || life < GATE_DNS_TTL_MIN)
		life = GATE_DNS_TTL_MIN;
	t->born = loop_now(r->loop);
	t->until = t->born + life;
	r->in_flight--;
	tell_later(t);
}

static enum dns_rcode rcode_of(int status)
{
	switch (status) {
	case ARES_SUCCESS:
	case ARES_ENODATA:
		return DNS_OK;
	case ARES_ENOTFOUND:
		return DNS_NXDOMAIN;
	default:
		return DNS_SERVFAIL;
	}
}

static void on_addresses(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct resolve_entry *t = arg;
	(void)timeouts;
	t->answer.rcode = rcode_of(status);
	const char *owner = t->name;
	for (struct ares_addrinfo_cname *c = info ? info->cnames : NULL; c; c = c->next) {
		if (!c->name || !dns_answer_add_name(&t->answer, owner, DNS_CNAME, (uint32_t)c->ttl, c->name))
			break;
		owner = c->name;
	}
	for (struct ares_addrinfo_node *n = info ? info->nodes : NULL; n; n = n->ai_next) {
		struct ip ip;
		uint16_t port;
		if (ip_from_sockaddr((union ip_sockaddr *)n->ai_addr, &ip, &port))
			dns_answer_add_ip(&t->answer, owner, &ip, n->ai_ttl > 0 ? (uint32_t)n->ai_ttl : 0);
	}
	if (info)
		ares_freeaddrinfo(info);
	settle(t);
}

static void on_message(void *arg, int status, int timeouts, unsigned char *p, int n)
{
	struct resolve_entry *t = arg;
	(void)timeouts;
	if (!p || n <= 0 || !dns_read_answer(str_n(p, (size_t)n), &t->answer))
		t->answer.rcode = rcode_of(p && n > 0 && status == ARES_SUCCESS ? ARES_EBADRESP : status);
	settle(t);
}

static void start(struct resolve_entry *t)
{
	struct resolver *r = t->r;
	r->in_flight++;
	if (!r->open || r->in_flight > IN_FLIGHT_MAX) {
		t->answer.rcode = DNS_SERVFAIL;
		return settle(t);
	}
	if (t->type == DNS_A || t->type == DNS_AAAA) {
		struct ares_addrinfo_hints h = {.ai_family = t->type == DNS_A ? AF_INET : AF_INET6,
			.ai_socktype = SOCK_STREAM,
			.ai_flags = ARES_AI_NOSORT};
		ares_getaddrinfo(r->channel, t->name, NULL, &h, on_addresses, t);
	} else {
		ares_query(r->channel, t->name, 1, t->type, on_message, t);
	}
	arm(r);
}

/* ---- the host's files ---- */

static bool changed(const char *path, struct timespec *known)
{
	struct stat st = {0};
	stat(path, &st);
	bool other = st.st_mtim.tv_sec != known->tv_sec || st.st_mtim.tv_nsec != known->tv_nsec;
	*known = st.st_mtim;
	return other;
}

static void reopen(struct loop_task *task)
{
	struct resolver *r = container_of(task, struct resolver, reopen);
	if (r->open)
		ares_destroy(r->channel);
	if (open_channel(r) != ARES_SUCCESS)
		log_event(LOG_ERROR, "cannot read the host's resolver settings", "file=/etc/resolv.conf");
	list_each(it, &r->order)
	{
		struct resolve_entry *t = list_entry(it, struct resolve_entry, node);
		if (may_go(t))
			drop(t);
	}
}

static void look(struct resolver *r)
{
	uint64_t now = loop_now(r->loop);
	if (now - r->looked < LOOK_MS)
		return;
	r->looked = now;
	bool conf = changed("/etc/resolv.conf", &r->conf_time), hosts = changed("/etc/hosts", &r->hosts_time);
	if (conf || hosts)
		loop_defer(r->loop, &r->reopen, reopen);
}

/* ---- the interface ---- */

struct resolver *resolver_new(struct loop *l, struct err *e)
{
	int s = ares_library_init(ARES_LIB_INIT_ALL);
	struct resolver *r = xcalloc(1, sizeof *r);
	r->loop = l;
	list_init(&r->order);
	list_init(&r->due);
	changed("/etc/resolv.conf", &r->conf_time);
	changed("/etc/hosts", &r->hosts_time);
	r->looked = loop_now(l);
	if (s == ARES_SUCCESS)
		s = open_channel(r);
	if (s == ARES_SUCCESS)
		return r;
	err_set(e, ERRC_HOST_UNSUPPORTED, "start the resolver: %s", ares_strerror(s));
	free(r);
	return NULL;
}

void resolver_free(struct resolver *r)
{
	if (r->open)
		ares_destroy(r->channel);
	loop_timer_stop(&r->timer);
	while (!list_empty(&r->order))
		drop(list_entry(list_pop(&r->order), struct resolve_entry, node));
	list_del(&r->tell.node);
	list_del(&r->reopen.node);
	map_free(&r->entries);
	free(r);
	ares_library_cleanup();
}

const struct dns_answer *resolver_get(struct resolver *r, const char *name, uint16_t type, uint32_t *ret_age)
{
	look(r);
	struct resolve_entry *t = find(r, name, type);
	if (!t || !t->until)
		return NULL;
	*ret_age = age_of(t);
	return &t->answer;
}

void resolver_ask(struct resolver *r, const char *name, uint16_t type, struct resolve_wait *w,
	void (*on_answer)(struct resolve_wait *, const struct dns_answer *, uint32_t))
{
	struct resolve_entry *t = find(r, name, type);
	bool fresh = !t;
	t = t ? t : new_entry(r, name, type);
	w->on_answer = on_answer;
	w->waiting = true;
	list_push(&t->waits, &w->node);
	if (fresh)
		start(t);
	else if (t->until)
		tell_later(t);
}

void resolver_cancel(struct resolve_wait *w)
{
	if (!w->waiting)
		return;
	list_del(&w->node);
	w->waiting = false;
}
