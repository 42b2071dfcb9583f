#include "daemon/route/view.h"

#include "base/clock.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/network/network.h"
#include "proto/image.h"

static void limits(struct json_writer *w, const struct box_limits *l)
{
	json_key(w, "limits");
	json_object_begin(w);
	json_member_u64(w, "memory", l->mem_bytes);
	json_member_double(w, "cpu", l->cpu_milli / 1000.0);
	json_member_u64(w, "pids", l->pids);
	json_member_u64(w, "disk", l->disk_bytes);
	json_object_end(w);
}

static void usage(struct json_writer *w, const struct box_info *i)
{
	json_key(w, "usage");
	json_object_begin(w);
	json_member_u64(w, "memory", i->mem_used);
	json_member_u64(w, "memoryPeak", i->mem_peak);
	json_member_u64(w, "swap", i->mem_swapped);
	json_member_double(w, "cpuSeconds", (double)i->cpu_usec / 1e6);
	json_member_u64(w, "pids", i->pids_used);
	json_member_u64(w, "oomKills", i->oom_kills);
	if (i->disk_known)
		json_member_u64(w, "disk", i->disk_used);
	json_object_end(w);
}

/* Bytes of the files that differ from the image, with those that snapshots keep. Plain directories are not counted and
 * have no limit. */
static void disk(struct json_writer *w, const struct sandbox *s, const struct box_info *info)
{
	const struct warden_host *host = warden_host(s->daemon->warden);
	if (!host || host->pool == WARDEN_POOL_PLAIN || (info && !info->disk_known))
		return;
	json_key(w, "disk");
	json_object_begin(w);
	if (info)
		json_member_u64(w, "used", info->disk_used);
	json_member_u64(w, "allowed", s->spec.limits.disk_bytes);
	json_object_end(w);
}

/* Values may be secrets, but a client that may read them may also set them. */
static void env_names(struct json_writer *w, const char *env)
{
	auto_json struct json_doc *doc = json_parse(str_of(env), NULL);
	json_key(w, "envNames");
	json_array_begin(w);
	json_each(it, doc ? json_root(doc) : NULL) json_str(w, it->key);
	json_array_end(w);
}

static void network(struct json_writer *w, const struct sandbox *s)
{
	struct net_totals t = net_log_totals(s->net_log);
	json_key(w, "network");
	json_object_begin(w);
	const char *missing = network_missing(s);
	json_member_str(w, "mode", missing ? STR("off") : network_mode(&s->daemon->network, s->spec.network));
	if (missing)
		json_member_cstr(w, "reason", missing);
	json_member_u64(w, "connections", t.connections);
	json_member_u64(w, "denied", t.denied);
	json_member_u64(w, "bytesSent", t.sent);
	json_member_u64(w, "bytesReceived", t.received);
	json_object_end(w);
}

/* The name that the client gave, and the image that it stood for. */
static void image(struct json_writer *w, const struct sandbox *s)
{
	const struct json *name = NULL;
	bool made_here = image_key_made_here(str_of(s->spec.image));
	auto_json struct json_doc *doc = made_here ? settings_get(s->spec.settings, ".image", &name) : NULL;
	json_member_str(w, "image", name ? name->text : str_of(s->spec.image));
	if (made_here)
		json_member_cstr(w, "imageId", s->spec.image);
}

void view_sandbox(struct json_writer *w, const struct sandbox *s, const struct box_info *info)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_cstr(w, "id", s->id);
	json_member_cstr(w, "state", state_name(s->state));
	if (*s->reason)
		json_member_cstr(w, "reason", s->reason);
	image(w, s);
	limits(w, &s->spec.limits);
	if (info && info->state)
		usage(w, info);
	disk(w, s, info);
	json_member_cstr(w, "createdAt", clock_iso(s->created_ms, iso));
	if (s->state == SB_RUNNING || s->state == SB_ASLEEP)
		json_member_cstr(w, "startedAt", clock_iso(s->started_ms, iso));
	json_key(w, "labels");
	json_raw(w, str_of(s->spec.labels));
	env_names(w, s->spec.env);
	json_key(w, "sleepAfter");
	uint64_t after =
		s->spec.sleep_after_ms == SLEEP_DEFAULT ? s->daemon->config.sleep_after_ms : s->spec.sleep_after_ms;
	if (after)
		json_u64(w, after / 1000);
	else
		json_null(w);
	json_member_bool(w, "sleepAfterChosen", s->spec.sleep_after_ms != SLEEP_DEFAULT);
	json_member_bool(w, "keepAlive", s->spec.keep_alive);
	network(w, s);
	settings_write(w, s->spec.settings);
	json_object_end(w);
}

static void pool(struct json_writer *w, const struct warden_host *h)
{
	static const char *const kinds[] = {"plain", "btrfs", "btrfs file"}, *const quotas[] = {
										     "none", "full", "simple"};
	json_key(w, "pool");
	json_object_begin(w);
	json_member_cstr(w, "kind", h->pool < ARRAY_LEN(kinds) ? kinds[h->pool] : "plain");
	if (h->pool == WARDEN_POOL_PLAIN) {
		json_member_cstr(w, "reason", h->pool_why);
	} else {
		json_member_cstr(w, "quota", h->quota < ARRAY_LEN(quotas) ? quotas[h->quota] : "none");
		json_member_bool(w, "inconsistent", h->pool_inconsistent);
		json_member_bool(w, "directIO", h->pool_direct);
		json_member_u64(w, "size", h->pool_size);
		json_member_u64(w, "used", h->pool_used);
		json_member_u64(w, "plainSandboxes", h->plain_layers);
	}
	json_object_end(w);
}

void view_host(struct json_writer *w, const struct warden_host *h)
{
	json_object_begin(w);
	json_member_u64(w, "memory", h->mem_total);
	json_member_double(w, "cpu", h->cpus_milli / 1000.0);
	json_member_u64(w, "pids", h->pids_max);
	json_member_u64(w, "cgroupVersion", h->cgroup_version);
	pool(w, h);
	json_object_end(w);
}
