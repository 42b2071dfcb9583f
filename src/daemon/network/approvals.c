#include "daemon/network/approvals.h"

#include <stdio.h>

#include "base/clock.h"
#include "daemon/core/sandbox.h"
#include "daemon/limits.h"
#include "daemon/network/gate_client.h"
#include "store/item.h"

#define KIND "network-rule"

struct approval {
	struct list node;
	char id[APPROVAL_ID_MAX + 1];
	char sandbox[BOX_ID_MAX + 1];
	char host[NET_NAME_MAX + 1];
	char protocol[8], address[IP_TEXT];
	uint16_t port;
	int64_t since, until; /* wall clock, ms */
	bool taken;	      /* is being answered */
	bool work;	      /* of a box of a build: for the image service alone */
};

/* A rule that counts for all sandboxes. */
struct kept {
	struct list node;
	struct daemon *daemon;
	char id[APPROVAL_ID_MAX + 1];
	char rule[NET_RULE_MAX + 1];
	bool allow;
	bool gone; /* is being deleted */
	approvals_on_kept on_done;
	void *arg;
};

struct approvals {
	struct list list, kept;
	size_t n, kept_n;
	struct followers followers;
};

/* ---- rules for all sandboxes ---- */

static char *merge(const struct daemon *d, const char *config, bool allow)
{
	auto_json struct json_doc *doc = json_parse(str_of(config), NULL);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_array_begin(&w);
	json_each(it, doc ? json_root(doc) : NULL) json_str(&w, it->text);
	list_each(it, &d->approvals->kept)
	{
		const struct kept *k = list_entry(it, struct kept, node);
		if (k->allow == allow)
			json_cstr(&w, k->rule);
	}
	json_array_end(&w);
	return str_dup(buf_str(&out));
}

static void set_defaults(struct daemon *d)
{
	free((char *)d->network.allow);
	free((char *)d->network.deny);
	d->network = (struct network_defaults){.mode = d->config.network.mode,
		.allow = merge(d, d->config.network.allow, true),
		.deny = merge(d, d->config.network.deny, false)};
}

static int on_item(void *arg, const struct store_item *item, struct err *e)
{
	struct daemon *d = arg;
	const char *rule = "", *decision = "";
	struct rule parsed;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), e);
	const struct json *o = doc ? json_root(doc) : NULL;
	if (!o || json_read_cstr(o, "rule", &rule, e) < 0 || json_read_cstr(o, "decision", &decision, e) < 0 ||
		rule_parse(str_of(rule), &parsed, e) < 0)
		return err_wrap(e, "rule '%s' of an approval", item->key);
	struct kept *k = xcalloc(1, sizeof *k);
	k->daemon = d;
	snprintf(k->id, sizeof k->id, "%s", item->key);
	snprintf(k->rule, sizeof k->rule, "%s", rule);
	k->allow = strcmp(decision, "allow") == 0;
	list_push(&d->approvals->kept, &k->node);
	d->approvals->kept_n++;
	return 0;
}

int approvals_load(struct daemon *d, struct err *e)
{
	d->approvals = xcalloc(1, sizeof *d->approvals);
	list_init(&d->approvals->list);
	list_init(&d->approvals->kept);
	followers_init(&d->approvals->followers, NET_FOLLOWERS_MAX);
	int r = store_load_items(d->store, KIND, on_item, d, e);
	set_defaults(d);
	return r;
}

static void on_put(void *arg, const struct err *e)
{
	struct kept *k = arg;
	struct daemon *d = k->daemon;
	approvals_on_kept on_done = k->on_done;
	void *their = k->arg;
	if (e) {
		d->approvals->kept_n--;
		free(k);
	} else {
		list_push(&d->approvals->kept, &k->node);
		set_defaults(d);
		gate_client_all(d->gate);
	}
	on_done(their, e);
}

int approvals_keep(
	struct daemon *d, const struct approval_answer *a, approvals_on_kept on_done, void *arg, struct err *e)
{
	auto_buf struct buf value = {0};
	struct json_writer w = json_writer(&value);
	if (d->approvals->kept_n >= NET_ALWAYS_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "there are %d rules for all sandboxes already; delete some first",
			NET_ALWAYS_MAX);
	struct kept *k = xcalloc(1, sizeof *k);
	k->daemon = d;
	snprintf(k->id, sizeof k->id, "%s", a->id);
	snprintf(k->rule, sizeof k->rule, "%s", a->rule);
	k->allow = a->allow;
	k->on_done = on_done;
	k->arg = arg;
	json_object_begin(&w);
	json_member_cstr(&w, "rule", a->rule);
	json_member_cstr(&w, "decision", a->allow ? "allow" : "deny");
	json_object_end(&w);
	d->approvals->kept_n++;
	struct store_item item = {
		.kind = KIND, .key = k->id, .sandbox = "", .created_ms = clock_wall_ms(), .value = buf_cstr(&value)};
	store_item_put(d->store, &item, on_put, k);
	return 0;
}

static void on_deleted(void *arg, const struct err *e)
{
	struct kept *k = arg;
	struct daemon *d = k->daemon;
	approvals_on_kept on_done = k->on_done;
	void *their = k->arg;
	k->gone = false;
	if (!e) {
		list_del(&k->node);
		d->approvals->kept_n--;
		free(k);
		set_defaults(d);
		gate_client_all(d->gate);
	}
	on_done(their, e);
}

int approvals_forget(struct daemon *d, const char *id, approvals_on_kept on_done, void *arg, struct err *e)
{
	list_each(it, &d->approvals->kept)
	{
		struct kept *k = list_entry(it, struct kept, node);
		if (k->gone || strcmp(k->id, id) != 0)
			continue;
		k->gone = true;
		k->on_done = on_done;
		k->arg = arg;
		store_item_delete(d->store, KIND, k->id, on_deleted, k);
		return 0;
	}
	return err_set(e, ERRC_APPROVAL_NOT_FOUND, "no rule for all sandboxes has the id '%.40s'", id);
}

/* ---- questions ---- */

static struct approval *find(const struct daemon *d, const char *id)
{
	list_each(it, &d->approvals->list)
	{
		struct approval *a = list_entry(it, struct approval, node);
		if (strcmp(a->id, id) == 0)
			return a;
	}
	return NULL;
}

static void drop(struct daemon *d, struct approval *a)
{
	list_del(&a->node);
	d->approvals->n--;
	free(a);
}

static void write_members(struct json_writer *w, const struct approval *a)
{
	char iso[CLOCK_ISO_LEN];
	json_member_cstr(w, "id", a->id);
	json_member_cstr(w, "sandbox", a->sandbox);
	json_member_cstr(w, "host", a->host);
	json_member_u64(w, "port", a->port);
	json_member_cstr(w, "protocol", a->protocol);
	json_member_cstr(w, "address", *a->address ? a->address : NULL);
	json_member_cstr(w, "createdAt", clock_iso(a->since, iso));
	json_member_cstr(w, "expiresAt", clock_iso(a->until, iso));
}

static void write_event(struct buf *out, const struct approval *a)
{
	struct json_writer w = json_writer(out);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "approval");
	write_members(&w, a);
	json_object_end(&w);
}

static void tell_end(struct daemon *d, const struct approval *a, const char *end)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (a->work)
		return;
	json_object_begin(&w);
	json_member_cstr(&w, "type", "ended");
	json_member_cstr(&w, "id", a->id);
	json_member_cstr(&w, "sandbox", a->sandbox);
	json_member_cstr(&w, "host", a->host);
	json_member_u64(&w, "port", a->port);
	json_member_cstr(&w, "end", end);
	json_object_end(&w);
	followers_send(&d->approvals->followers, buf_str(&out));
}

static void copy(char *to, size_t room, const struct json *o, const char *key)
{
	const char *text = "";
	json_read_cstr(o, key, &text, NULL);
	snprintf(to, room, "%s", text);
}

void approvals_asked(struct daemon *d, const struct json *o)
{
	auto_buf struct buf out = {0};
	uint64_t port = 0, since = 0, until = 0;
	struct approval a = {0};
	copy(a.id, sizeof a.id, o, "ask");
	copy(a.sandbox, sizeof a.sandbox, o, "id");
	copy(a.host, sizeof a.host, o, "host");
	copy(a.protocol, sizeof a.protocol, o, "protocol");
	copy(a.address, sizeof a.address, o, "address");
	json_read_u64(o, "port", 1, 65535, &port, NULL);
	json_read_u64(o, "time", 0, INT64_MAX, &since, NULL);
	json_read_u64(o, "until", 0, INT64_MAX, &until, NULL);
	if (!*a.id || !*a.host || !port || find(d, a.id) || d->approvals->n >= NET_APPROVALS_MAX)
		return;
	a.port = (uint16_t)port;
	a.since = (int64_t)since;
	a.until = (int64_t)until;
	const struct sandbox *s = sandbox_find(d, a.sandbox);
	a.work = s && s->work;
	struct approval *added = xmalloc(sizeof *added);
	*added = a;
	list_init(&added->node);
	list_push(&d->approvals->list, &added->node);
	d->approvals->n++;
	write_event(&out, added);
	if (!added->work)
		followers_send(&d->approvals->followers, buf_str(&out));
}

void approvals_unasked(struct daemon *d, const struct json *o)
{
	char id[APPROVAL_ID_MAX + 1];
	const char *end = "gone";
	copy(id, sizeof id, o, "ask");
	json_read_cstr(o, "end", &end, NULL);
	struct approval *a = find(d, id);
	/* One that is being answered ends with its answer. */
	if (!a || a->taken)
		return;
	tell_end(d, a, end);
	drop(d, a);
}

void approvals_lost(struct daemon *d)
{
	list_each(it, &d->approvals->list)
	{
		struct approval *a = list_entry(it, struct approval, node);
		if (a->taken)
			continue;
		tell_end(d, a, "gone");
		drop(d, a);
	}
}

void approvals_ids(const struct daemon *d, void (*each)(void *arg, const char *id), void *arg)
{
	list_each(it, &d->approvals->list) each(arg, list_entry(it, struct approval, node)->id);
}

void approvals_write(const struct daemon *d, const char *id, bool own, struct json_writer *w)
{
	const struct approval *a = find(d, id);
	if (!a || a->taken || (a->work && !own))
		return;
	json_object_begin(w);
	write_members(w, a);
	json_object_end(w);
}

void approvals_write_always(const struct daemon *d, struct json_writer *w)
{
	json_key(w, "always");
	json_array_begin(w);
	list_each(it, &d->approvals->kept)
	{
		const struct kept *k = list_entry(it, struct kept, node);
		json_object_begin(w);
		json_member_cstr(w, "id", k->id);
		json_member_cstr(w, "rule", k->rule);
		json_member_cstr(w, "decision", k->allow ? "allow" : "deny");
		json_object_end(w);
	}
	json_array_end(w);
}

int approvals_follow(struct daemon *d, const struct follow *how, struct err *e)
{
	struct follower *f = followers_add(&d->approvals->followers, how, e);
	if (!f)
		return -1;
	list_each(it, &d->approvals->list)
	{
		auto_buf struct buf out = {0};
		const struct approval *a = list_entry(it, struct approval, node);
		if (a->taken || a->work)
			continue;
		write_event(&out, a);
		follower_send(f, buf_str(&out));
	}
	return 0;
}

int approvals_take(struct daemon *d, const char *id, bool own, struct approval_answer *ret, struct err *e)
{
	struct approval *a = find(d, id);
	if (!a || a->taken || (a->work && !own))
		return err_set(e, ERRC_APPROVAL_NOT_FOUND,
			"no connection waits for the approval '%.40s': it was answered, came too late, or its client "
			"is gone",
			id);
	a->taken = true;
	bool six = strchr(a->host, ':') != NULL;
	snprintf(ret->id, sizeof ret->id, "%s", a->id);
	snprintf(ret->sandbox, sizeof ret->sandbox, "%s", a->sandbox);
	snprintf(ret->rule, sizeof ret->rule, "%s%s%s:%u", six ? "[" : "", a->host, six ? "]" : "", a->port);
	return 0;
}

void approvals_put_back(struct daemon *d, const char *id)
{
	struct approval *a = find(d, id);
	if (a)
		a->taken = false;
}

void approvals_done(struct daemon *d, const struct approval_answer *answer)
{
	struct approval *a = find(d, answer->id);
	if (!a)
		return;
	tell_end(d, a, answer->allow ? "allow" : "deny");
	drop(d, a);
}
