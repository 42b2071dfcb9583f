#include "daemon/ports/tunnels.h"
#include "daemon/pass/preview.h"

#include <ctype.h>
#include <stdio.h>

#include "base/clock.h"
#include "daemon/ports/cloudflared.h"
#include "store/item.h"

static const char KIND[] = "tunnel";

/* ---- names ---- */

/* One label of a host name, in lower case, that is no preview's. */
static int check_label(struct str name, struct err *e)
{
	struct preview_name preview;
	bool ok = name.n > 0 && name.n <= TUNNEL_LABEL_MAX && name.p[0] != '-' && name.p[name.n - 1] != '-';
	for (size_t i = 0; ok && i < name.n; i++)
		ok = islower((unsigned char)name.p[i]) || isdigit((unsigned char)name.p[i]) || name.p[i] == '-';
	if (!ok)
		return err_field(
			e, "name", "name must be 1-%d lowercase letters, digits and inner hyphens", TUNNEL_LABEL_MAX);
	if (preview_parse(name, &preview))
		return err_field(e, "name", "name must not look like a preview's: 8080-id-token");
	return 0;
}

static int check_id(struct str id, const char *field, struct err *e)
{
	if (id.n > TUNNEL_ID_MAX)
		return err_field(e, field, "%s can have %d characters", field, TUNNEL_ID_MAX);
	for (size_t i = 0; i < id.n; i++)
		if (!isalnum((unsigned char)id.p[i]) && id.p[i] != '-' && id.p[i] != '_')
			return err_field(e, field, "%s must be of letters, digits, '-' and '_'", field);
	return 0;
}

int tunnel_wish_read(const struct json *o, struct tunnel_wish *ret, struct err *e)
{
	struct str name = STR_NULL, id = STR_NULL, run = STR_NULL;
	uint64_t port = 0;
	if (json_read_u64(o, "port", 1, 65535, &port, e) < 0 || json_read_str(o, "name", &name, e) < 0 ||
		json_read_str(o, "id", &id, e) < 0 || json_read_str(o, "runId", &run, e) < 0)
		return -1;
	if (!port)
		return err_field(e, "port", "field 'port' must be a number from 1 to 65535");
	if (port_check_number((uint16_t)port, e) < 0 || (name.p && check_label(name, e) < 0) ||
		check_id(id, "id", e) < 0 || check_id(run, "runId", e) < 0)
		return -1;
	*ret = (struct tunnel_wish){.port = (uint16_t)port};
	snprintf(ret->name, sizeof ret->name, "%.*s", STR_ARG(name));
	snprintf(ret->id, sizeof ret->id, "%.*s", STR_ARG(id));
	snprintf(ret->run, sizeof ret->run, "%.*s", STR_ARG(run));
	return 0;
}

/* ---- finding ---- */

struct tunnel *tunnel_find(struct sandbox *s, struct str id)
{
	list_each(it, &s->tunnel_hosts)
	{
		struct tunnel *t = list_entry(it, struct tunnel, node);
		if (str_eq_c(id, t->id) || str_eq_c(id, t->label))
			return t;
	}
	return NULL;
}

struct tunnel *tunnel_find_port(struct sandbox *s, uint16_t port)
{
	list_each(it, &s->tunnel_hosts)
	{
		struct tunnel *t = list_entry(it, struct tunnel, node);
		if (t->port->number == port)
			return t;
	}
	return NULL;
}

struct tunnel *tunnel_of_label(struct daemon *d, struct str label)
{
	char low[TUNNEL_LABEL_MAX + 1];
	if (!label.n || label.n > TUNNEL_LABEL_MAX)
		return NULL;
	for (size_t i = 0; i < label.n; i++)
		low[i] = (char)tolower((unsigned char)label.p[i]);
	return map_get(&d->tunnels, str_n(low, label.n));
}

bool tunnel_is_open(const struct tunnel *t)
{
	return !t->through_cloudflare || *t->url;
}

void tunnel_address(struct json_writer *w, const struct tunnel *t)
{
	auto_buf struct buf url = {0};
	const struct config *c = &t->sandbox->daemon->config;
	const char *scheme = t->through_cloudflare ? "https" : c->preview_scheme;
	if (t->through_cloudflare)
		buf_add_c(&url, t->url);
	else
		buf_printf(&url, "%s://%s.%s", scheme, t->label, c->preview_domain);
	struct str host = str_skip(buf_str(&url), strlen(scheme) + 3), port;
	json_member_str(w, "url", buf_str(&url));
	json_member_str(w, "hostname", str_split(host, ':', &port));
}

void tunnel_view(struct json_writer *w, const struct tunnel *t)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "id", t->id);
	json_member_u64(w, "port", t->port->number);
	tunnel_address(w, t);
	if (t->named)
		json_member_cstr(w, "name", t->label);
	json_member_cstr(w, "createdAt", clock_iso(t->created_ms, iso));
	json_object_end(w);
}

size_t tunnels_view(struct json_writer *w, const struct sandbox *s)
{
	size_t n = 0;
	json_array_begin(w);
	list_each(it, &s->tunnel_hosts)
	{
		const struct tunnel *t = list_entry(it, struct tunnel, node);
		if (!tunnel_is_open(t))
			continue;
		tunnel_view(w, t);
		n++;
	}
	json_array_end(w);
	return n;
}

/* ---- making and ending ---- */

struct opening {
	struct list node;	 /* of tunnel->waiting, while it waits for the URL */
	struct sandbox *sandbox; /* referenced */
	char label[TUNNEL_LABEL_MAX + 1];
	tunnel_on_open on_open;
	void *arg;
};

static struct opening *opening_new(struct tunnel *t, tunnel_on_open on_open, void *arg)
{
	struct opening *o = xcalloc(1, sizeof *o);
	*o = (struct opening){.sandbox = t->sandbox, .on_open = on_open, .arg = arg};
	memcpy(o->label, t->label, sizeof o->label);
	sandbox_ref(t->sandbox);
	return o;
}

static void opening_done(struct opening *o, const struct tunnel *t, bool made, const struct err *e)
{
	o->on_open(o->arg, t, made, e);
	sandbox_unref(o->sandbox);
	free(o);
}

static void answer_waiting(struct tunnel *t, const struct err *e)
{
	list_each(it, &t->waiting)
	{
		list_del(it);
		opening_done(list_entry(it, struct opening, node), e ? NULL : t, false, e);
	}
}

static struct tunnel *tunnel_add(struct sandbox *s, const struct tunnel_wish *wish, const char *label)
{
	struct tunnel *t = xcalloc(1, sizeof *t);
	*t = (struct tunnel){.sandbox = s, .created_ms = clock_wall_ms(), .named = *wish->name != '\0'};
	snprintf(t->label, sizeof t->label, "%s", label);
	snprintf(t->id, sizeof t->id, "%s", *wish->id ? wish->id : label);
	snprintf(t->run, sizeof t->run, "%s", wish->run);
	t->port = port_alone(wish->port);
	list_init(&t->waiting);
	list_push(&s->tunnel_hosts, &t->node);
	s->tunnel_hosts_n++;
	map_put(&s->daemon->tunnels, str_of(t->label), t);
	return t;
}

/* Takes it out of the tables; the store is the caller's. Clients that wait for the URL get the error. */
static void tunnel_remove(struct tunnel *t, const struct err *why)
{
	struct sandbox *s = t->sandbox;
	map_del(&s->daemon->tunnels, str_of(t->label));
	list_del(&t->node);
	s->tunnel_hosts_n--;
	t->port->gone = true;
	s->daemon->metrics.ports_counted -= t->port->counted;
	t->port->counted = false;
	port_cut(t->port);
	port_unref(t->port);
	if (t->cloudflared)
		cloudflared_end(t->cloudflared);
	answer_waiting(t, why);
	free(t);
}

static void on_stored(void *arg, const struct err *e)
{
	struct opening *o = arg;
	struct sandbox *s = o->sandbox;
	struct tunnel *t = tunnel_of_label(s->daemon, str_of(o->label));
	struct err gone;
	if (t && t->sandbox != s)
		t = NULL;
	if (e && t) {
		tunnel_remove(t, e);
		t = NULL;
	} else if (!e && !t) {
		err_set(&gone, ERRC_TUNNEL_NOT_FOUND, "the tunnel ended meanwhile");
		e = &gone;
	}
	if (t)
		answer_waiting(t, NULL);
	opening_done(o, t, true, e);
}

static void write_tunnel(struct tunnel *t, struct opening *o)
{
	auto_buf struct buf value = {0};
	struct json_writer w = json_writer(&value);
	json_object_begin(&w);
	json_member_u64(&w, "port", t->port->number);
	json_member_cstr(&w, "id", t->id);
	json_member_cstr(&w, "runId", t->run);
	json_member_bool(&w, "named", t->named);
	if (t->through_cloudflare)
		json_member_cstr(&w, "cloudflare", t->url);
	json_member_i64(&w, "box", t->sandbox->created_ms);
	json_object_end(&w);
	struct store_item item = {.kind = KIND,
		.key = t->label,
		.sandbox = t->sandbox->id,
		.created_ms = t->created_ms,
		.value = buf_cstr(&value)};
	store_item_put(t->sandbox->daemon->store, &item, on_stored, o);
}

/* 0: *ret is the same one or NULL. -1: another one is in the way. */
static int find_same(struct sandbox *s, const struct tunnel_wish *wish, struct tunnel **ret, struct err *e)
{
	struct tunnel *of_port = tunnel_find_port(s, wish->port);
	struct tunnel *of_id = *wish->id ? tunnel_find(s, str_of(wish->id)) : NULL;
	struct tunnel *of_name = *wish->name ? tunnel_of_label(s->daemon, str_of(wish->name)) : NULL;
	struct tunnel *t = of_port;
	bool same = t && strcmp(wish->name, t->named ? t->label : "") == 0 && (!*wish->id || of_id == t) &&
		    (!*wish->run || strcmp(wish->run, t->run) == 0);
	*ret = same ? t : NULL;
	if (same || (!of_port && !of_id && !of_name))
		return 0;
	return err_set(e, ERRC_TUNNEL_RUN_CONFLICT, "%s is in use by another tunnel; destroy that one first",
		of_port ? "this port"
		: of_id ? "this id"
			: "this name");
}

/* ---- through Cloudflare ---- */

static void on_url(void *arg, struct str url)
{
	struct tunnel *t = arg;
	struct opening *o = list_entry(t->waiting.next, struct opening, node);
	snprintf(t->url, sizeof t->url, "%.*s", STR_ARG(url));
	list_del(&o->node); /* the first is answered last, by the store */
	write_tunnel(t, o);
}

static void on_cloudflared_end(void *arg, int code, const struct err *e)
{
	struct tunnel *t = arg;
	t->exit_code = code;
	if (tunnel_is_open(t))
		return tunnel_close(t);
	tunnel_remove(t, e);
}

static const struct cloudflared_ops cloudflared_ops = {.on_url = on_url, .on_end = on_cloudflared_end};

static void open_through_cloudflare(struct tunnel *t, struct opening *o)
{
	struct err e;
	t->through_cloudflare = true;
	list_push(&t->waiting, &o->node);
	t->cloudflared = cloudflared_start(t->sandbox, t->label, t->port->number, &cloudflared_ops, t, &e);
	if (!t->cloudflared)
		on_cloudflared_end(t, CLOUDFLARED_LOST, &e);
}

static void wait_for_url(struct tunnel *t, tunnel_on_open on_open, void *arg)
{
	struct err e;
	if (t->waiting_n >= TUNNEL_WAITING_MAX) {
		err_set(&e, ERRC_LIMIT_REACHED, "%d clients wait for this tunnel", TUNNEL_WAITING_MAX);
		return on_open(arg, NULL, false, &e);
	}
	t->waiting_n++;
	list_push(&t->waiting, &opening_new(t, on_open, arg)->node);
}

void tunnels_recover(struct daemon *d)
{
	size_t it = 0;
	struct str label;
	void *value;
	struct err e;
	while (map_next(&d->tunnels, &it, &label, &value)) {
		struct tunnel *t = value;
		if (t->through_cloudflare && !t->cloudflared)
			t->cloudflared = cloudflared_find(t->sandbox, t->label, &cloudflared_ops, t, &e);
	}
}

void tunnel_open(struct sandbox *s, const struct tunnel_wish *wish, tunnel_on_open on_open, void *arg)
{
	char token[PORT_TOKEN_MAX + 1];
	struct tunnel *t = NULL;
	struct err e;
	if (find_same(s, wish, &t, &e) < 0)
		return on_open(arg, NULL, false, &e);
	if (t && !tunnel_is_open(t))
		return wait_for_url(t, on_open, arg);
	if (t)
		return on_open(arg, t, false, NULL);
	if (s->tunnel_hosts_n >= TUNNELS_MAX) {
		err_set(&e, ERRC_LIMIT_REACHED, "sandbox '%s' has %d tunnels, more are not kept", s->id, TUNNELS_MAX);
		return on_open(arg, NULL, false, &e);
	}
	if (port_make_token(token, &e) < 0)
		return on_open(arg, NULL, false, &e);
	t = tunnel_add(s, wish, *wish->name ? wish->name : token);
	struct opening *o = opening_new(t, on_open, arg);
	if (s->daemon->config.tunnels_cloudflared && !t->named)
		open_through_cloudflare(t, o);
	else
		write_tunnel(t, o);
}

void tunnel_close(struct tunnel *t)
{
	struct err gone;
	store_item_delete(t->sandbox->daemon->store, KIND, t->label, NULL, NULL);
	tunnels_tell_end(t->sandbox, t);
	err_set(&gone, ERRC_TUNNEL_NOT_FOUND, "the tunnel ended meanwhile");
	tunnel_remove(t, &gone);
}

void tunnels_clear(struct sandbox *s)
{
	list_each(it, &s->tunnel_hosts) tunnel_close(list_entry(it, struct tunnel, node));
	tunnels_ignore(s);
}

/* ---- after a restart ---- */

static int take_item(void *arg, const struct store_item *item, struct err *e)
{
	struct daemon *d = arg;
	struct tunnel_wish wish = {0};
	struct err bad;
	struct str url = STR_NULL;
	bool named = false;
	double box = 0;
	(void)e;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), NULL);
	struct sandbox *s = sandbox_find(d, item->sandbox);
	const struct json *o = doc ? json_root(doc) : NULL;
	/* Of a sandbox that is gone, or has the id of one that was: the next tunnel of that name replaces it. */
	if (!s || !o || json_read_double(o, "box", &box, NULL) < 0 || (int64_t)box != s->created_ms ||
		tunnel_wish_read(o, &wish, &bad) < 0 || json_read_bool(o, "named", &named, NULL) < 0 ||
		json_read_str(o, "cloudflare", &url, NULL) < 0)
		return 0;
	if (named)
		snprintf(wish.name, sizeof wish.name, "%.*s", TUNNEL_LABEL_MAX, item->key);
	struct tunnel *t = tunnel_add(s, &wish, item->key);
	t->created_ms = item->created_ms;
	t->through_cloudflare = url.p != NULL;
	snprintf(t->url, sizeof t->url, "%.*s", STR_ARG(url));
	return 0;
}

int tunnels_load(struct daemon *d, struct err *e)
{
	return store_load_items(d->store, KIND, take_item, d, e);
}
