#include "daemon/core/spec.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "daemon/core/instance.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/network/network.h"
#include "proto/image.h"
#include "proto/limits.h"

void api_spec_default(struct api_spec *ret)
{
	*ret = (struct api_spec){
		.limits = {BOX_MEM_DEFAULT, BOX_CPU_DEFAULT, BOX_PIDS_DEFAULT, BOX_DISK_DEFAULT},
		.image = "default",
		.sleep_after_ms = SLEEP_DEFAULT,
		.env = xstrdup("{}"),
		.labels = xstrdup("{}"),
		.network = xstrdup("{}"),
		.settings = xstrdup("{}"),
	};
}

void api_spec_copy(struct api_spec *to, const struct api_spec *from)
{
	*to = *from;
	to->env = from->env ? xstrdup(from->env) : NULL;
	to->labels = from->labels ? xstrdup(from->labels) : NULL;
	to->network = from->network ? xstrdup(from->network) : NULL;
	to->settings = from->settings ? xstrdup(from->settings) : NULL;
}

bool api_spec_equal(const struct api_spec *a, const struct api_spec *b)
{
	return memcmp(&a->limits, &b->limits, sizeof a->limits) == 0 && strcmp(a->image, b->image) == 0 &&
	       a->sleep_after_ms == b->sleep_after_ms && a->keep_alive == b->keep_alive &&
	       strcmp(a->env, b->env) == 0 && strcmp(a->labels, b->labels) == 0 &&
	       strcmp(a->network, b->network) == 0 && strcmp(a->settings, b->settings) == 0;
}

bool api_spec_is_default(const struct api_spec *s)
{
	struct api_spec usual;
	api_spec_default(&usual);
	bool same = api_spec_equal(s, &usual);
	api_spec_free(&usual);
	return same;
}

void api_spec_free(struct api_spec *s)
{
	free(s->env);
	free(s->labels);
	free(s->network);
	free(s->settings);
	*s = (struct api_spec){0};
}

void api_change_free(struct api_change *c)
{
	api_spec_free(&c->spec);
	free(c->env_changes);
	free(c->settings_changes);
	*c = (struct api_change){0};
}

static int check_known(const struct json *object, const char *prefix, const char *const *known, struct err *e)
{
	json_each(it, object)
	{
		bool ok = !*prefix && settings_knows(it->key);
		for (size_t i = 0; known[i]; i++)
			ok = ok || str_eq_c(it->key, known[i]);
		if (ok)
			continue;
		auto_free char *name = str_dup(str_n(it->key.p, it->key.n < 40 ? it->key.n : 40));
		char field[ERR_FIELD_MAX + 1];
		snprintf(field, sizeof field, "%s%s", prefix, name);
		return err_field(e, field, "field '%s' is not known", field);
	}
	return 0;
}

static int read_limits(const struct json *limits, struct api_change *c, struct err *e)
{
	static const char *const known[] = {"memory", "cpu", "pids", "disk", NULL};
	if (json_is_null(limits))
		return 0;
	if (limits->type != JSON_T_OBJECT)
		return err_field(e, "limits", "field 'limits' must be an object");
	if (check_known(limits, "limits.", known, e) < 0)
		return -1;
	uint64_t pids = 0;
	double cpu = 0;
	if (json_read_u64(limits, "memory", 0, INT64_MAX, &c->spec.limits.mem_bytes, e) < 0)
		return err_about(e, "limits.memory");
	if (json_read_double(limits, "cpu", &cpu, e) < 0)
		return err_about(e, "limits.cpu");
	if (json_read_u64(limits, "pids", 0, UINT32_MAX, &pids, e) < 0)
		return err_about(e, "limits.pids");
	if (json_read_u64(limits, "disk", 0, INT64_MAX, &c->spec.limits.disk_bytes, e) < 0)
		return err_about(e, "limits.disk");
	c->has_disk = !json_is_null(json_get(limits, "disk"));
	c->has_memory = !json_is_null(json_get(limits, "memory"));
	c->has_cpu = !json_is_null(json_get(limits, "cpu"));
	c->has_pids = !json_is_null(json_get(limits, "pids"));
	if (c->has_cpu && !(cpu >= 0 && cpu <= 1e6)) {
		err_set(e, ERRC_INVALID_LIMITS, "limits.cpu must be a number of CPUs from %.2f on",
			BOX_CPU_MIN / 1000.0);
		return err_about(e, "limits.cpu");
	}
	c->spec.limits.cpu_milli = (uint32_t)lround(cpu * 1000);
	c->spec.limits.pids = (uint32_t)pids;
	return 0;
}

/* The limits of the instance type, where the request gives none itself. The setting's own check refuses other names. */
static void read_instance(const struct json *root, struct api_change *c)
{
	const struct json *j = json_get(root, "instance");
	const struct instance *i = j && j->type == JSON_T_STRING ? instance_find(j->text) : NULL;
	if (!i)
		return;
	if (!c->has_memory)
		c->spec.limits.mem_bytes = i->limits.mem_bytes;
	if (!c->has_cpu)
		c->spec.limits.cpu_milli = i->limits.cpu_milli;
	c->has_memory = c->has_cpu = true;
	if (!c->has_disk)
		c->spec.limits.disk_bytes = i->disk_bytes;
	c->has_disk = true;
	c->instance = i->name;
}

static int check_minima(const struct api_change *c, struct err *e)
{
	const struct box_limits *l = &c->spec.limits;
	if (c->has_memory && l->mem_bytes < BOX_MEM_MIN) {
		err_set(e, ERRC_INVALID_LIMITS, "limits.memory must be at least %llu bytes", BOX_MEM_MIN);
		return err_about(e, "limits.memory");
	}
	if (c->has_cpu && l->cpu_milli < BOX_CPU_MIN) {
		err_set(e, ERRC_INVALID_LIMITS, "limits.cpu must be at least %.2f", BOX_CPU_MIN / 1000.0);
		return err_about(e, "limits.cpu");
	}
	if (c->has_pids && (l->pids < BOX_PIDS_MIN || l->pids > BOX_PIDS_MAX)) {
		err_set(e, ERRC_INVALID_LIMITS, "limits.pids must be %u to %u", BOX_PIDS_MIN, BOX_PIDS_MAX);
		return err_about(e, "limits.pids");
	}
	if (c->has_disk && (l->disk_bytes < BOX_DISK_MIN || l->disk_bytes > BOX_DISK_MAX)) {
		err_set(e, ERRC_INVALID_LIMITS, "limits.disk must be %llu to %llu bytes",
			(unsigned long long)BOX_DISK_MIN, (unsigned long long)BOX_DISK_MAX);
		return err_about(e, "limits.disk");
	}
	return 0;
}

static bool env_name_ok(struct str s)
{
	if (s.n == 0 || s.n > 255 || isdigit((unsigned char)s.p[0]))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '_')
			return false;
	return true;
}

static bool label_name_ok(struct str s)
{
	if (s.n == 0 || s.n > 63)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!isalnum((unsigned char)s.p[i]) && !memchr("._-/", s.p[i], 4))
			return false;
	return true;
}

/* A field that is an object of texts. */
struct texts_field {
	const char *key;
	bool (*name_ok)(struct str);
	const char *rule; /* what name_ok accepts, in words */
	size_t max;	  /* bytes of the JSON text */
	bool nulls;	  /* a value may be null */
};

static const char env_rule[] = "a variable name ([A-Za-z_][A-Za-z0-9_]*)";
static const struct texts_field env_field = {"env", env_name_ok, env_rule, BOX_ENV_MAX, false};
static const struct texts_field env_changes_field = {"envChanges", env_name_ok, env_rule, BOX_ENV_MAX, true};
static const struct texts_field labels_field = {
	"labels", label_name_ok, "1 to 63 letters, digits, '.', '_', '-', '/'", BOX_LABELS_MAX, false};

/* Writes the object anew into *ret, which the caller owns. A missing field leaves *ret alone. */
static int read_texts(const struct json *root, const struct texts_field *f, char **ret, struct err *e)
{
	const struct json *object = json_get(root, f->key);
	if (json_is_null(object))
		return 0;
	if (object->type != JSON_T_OBJECT)
		return err_field(e, f->key, "field '%s' must be an object of texts", f->key);
	auto_buf struct buf out = {.max = f->max};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_each(it, object)
	{
		if (!f->name_ok(it->key))
			return err_field(e, f->key, "a name in field '%s' is not %s", f->key, f->rule);
		auto_free char *name = str_dup(it->key);
		if (f->nulls && it->type == JSON_T_NULL) {
			json_member_cstr(&w, name, NULL);
			continue;
		}
		if (it->type != JSON_T_STRING || memchr(it->text.p, 0, it->text.n))
			return err_field(e, f->key, "'%.*s' in field '%s' must be a text without NUL",
				(int)(it->key.n < 64 ? it->key.n : 64), it->key.p, f->key);
		json_member_str(&w, name, it->text);
	}
	json_object_end(&w);
	if (out.failed)
		return err_field(e, f->key, "field '%s' is larger than %zu bytes", f->key, f->max);
	*ret = str_dup(buf_str(&out));
	return 0;
}

/* "30s", "3m", "1h", or a number of seconds; 0 is never. */
bool api_duration(struct str text, uint64_t *ret_ms)
{
	uint64_t n = 0, unit = 1;
	char last = text.n ? text.p[text.n - 1] : 0;
	if (last == 's' || last == 'm' || last == 'h') {
		unit = last == 's' ? 1 : last == 'm' ? 60 : 3600;
		text.n--;
	}
	if (!str_to_u64(text, BOX_SLEEP_MAX, &n) || n * unit * 1000 > BOX_SLEEP_MAX)
		return false;
	*ret_ms = n * unit * 1000;
	return true;
}

static bool read_duration(const struct json *j, uint64_t *ret_ms)
{
	if (j->type == JSON_T_STRING && str_eq_c(j->text, "default")) {
		*ret_ms = SLEEP_DEFAULT;
		return true;
	}
	/* A text without a unit is more likely a mistake than a number. */
	if (j->type == JSON_T_STRING && (!j->text.n || isdigit((unsigned char)j->text.p[j->text.n - 1])))
		return false;
	return (j->type == JSON_T_STRING || j->type == JSON_T_NUMBER) && api_duration(j->text, ret_ms);
}

static int read_sleep(const struct json *root, struct api_change *c, struct err *e)
{
	const struct json *j = json_get(root, "sleepAfter");
	if (json_is_null(j))
		return 0;
	if (!read_duration(j, &c->spec.sleep_after_ms))
		return err_field(e, "sleepAfter",
			"field 'sleepAfter' must be a text like \"30s\", \"10m\" or \"1h\", or a number of seconds, at "
			"most %llu h; 0 is never, \"default\" the daemon's default",
			BOX_SLEEP_MAX / 3600000);
	c->has_sleep_after = true;
	return 0;
}

static int read_image(const struct json *root, struct api_change *c, struct err *e)
{
	struct str image = STR_NULL;
	if (json_read_str(root, "image", &image, e) < 0)
		return -1;
	if (!image.p)
		return 0;
	struct image_ref ref;
	if (memchr(image.p, 0, image.n) || image_ref_parse(image, &ref, e) < 0)
		return err_field(e, "image",
			"field 'image' must be a name from a-z, 0-9, '.', '_', '-' and '/', with a tag after ':', or a "
			"digest; at most %d characters",
			IMAGE_REF_MAX);
	snprintf(c->image_ref, sizeof c->image_ref, "%.*s", STR_ARG(image));
	snprintf(c->spec.image, sizeof c->spec.image, "%.*s", STR_ARG(image));
	c->has_image = true;
	return 0;
}

static int read_from_text(const struct json *from, const char *key, char *ret, size_t cap, struct err *e)
{
	struct str text = STR_NULL;
	if (json_read_str(from, key, &text, e) < 0)
		return -1;
	if (text.p && (!text.n || text.n >= cap || memchr(text.p, 0, text.n)))
		return err_field(e, "from", "'%s' in field 'from' is not an id", key);
	snprintf(ret, cap, "%.*s", STR_ARG(text));
	return 0;
}

int api_from_read(const struct json *from, struct api_from *ret, struct err *e)
{
	static const char *const known[] = {"snapshot", "sandbox", "backup", NULL};
	*ret = (struct api_from){0};
	if (json_is_null(from) || from->type != JSON_T_OBJECT)
		return err_field(
			e, "from", "field 'from' must be {\"snapshot\": id}, {\"sandbox\": id} or {\"backup\": id}");
	if (check_known(from, "from.", known, e) < 0 ||
		read_from_text(from, "snapshot", ret->snapshot, sizeof ret->snapshot, e) < 0 ||
		read_from_text(from, "sandbox", ret->sandbox, sizeof ret->sandbox, e) < 0 ||
		read_from_text(from, "backup", ret->backup, sizeof ret->backup, e) < 0)
		return -1;
	if (!!*ret->snapshot + !!*ret->sandbox + !!*ret->backup != 1)
		return err_field(e, "from", "field 'from' must name one of 'snapshot', 'sandbox' and 'backup'");
	return 0;
}

/* "allow" of a policy is "network.allow" of the body. */
static int below_network(struct err *e)
{
	char field[ERR_FIELD_MAX + 1];
	snprintf(field, sizeof field, "network%s%.*s", *e->field ? "." : "", ERR_FIELD_MAX - 8, e->field);
	return err_about(e, field);
}

static int change_read(const struct json *root, struct api_change *c, struct err *e)
{
	static const char *const known[] = {
		"limits", "image", "env", "envChanges", "labels", "sleepAfter", "keepAlive", "network", "from", NULL};
	if (root->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
	if (check_known(root, "", known, e) < 0 || read_limits(json_get(root, "limits"), c, e) < 0 ||
		check_minima(c, e) < 0 || read_image(root, c, e) < 0)
		return -1;
	if (read_texts(root, &env_field, &c->spec.env, e) < 0 ||
		read_texts(root, &env_changes_field, &c->env_changes, e) < 0 ||
		read_texts(root, &labels_field, &c->spec.labels, e) < 0)
		return -1;
	c->has_from = !json_is_null(json_get(root, "from"));
	if (c->has_from && api_from_read(json_get(root, "from"), &c->from, e) < 0)
		return -1;
	const struct json *network = json_get(root, "network");
	if (!json_is_null(network) && network_change("{}", network, &c->spec.network, e) < 0)
		return below_network(e);
	read_instance(root, c);
	if (settings_changes(root, &c->settings_changes, e) < 0)
		return -1;
	c->has_keep_alive = !json_is_null(json_get(root, "keepAlive"));
	return read_sleep(root, c, e) < 0 ? -1 : json_read_bool(root, "keepAlive", &c->spec.keep_alive, e);
}

int api_change_parse(struct str body, struct api_change *ret, struct err *e)
{
	auto_change struct api_change c = {0};
	if (body.n) {
		auto_json struct json_doc *doc = json_parse(body, e);
		if (!doc || change_read(json_root(doc), &c, e) < 0)
			return -1;
	}
	*ret = c;
	c = (struct api_change){0};
	return 0;
}

static void replace_text(char **to, const char *from)
{
	if (!from)
		return;
	free(*to);
	*to = xstrdup(from);
}

/* The variables of `env` that `changes` does not name, then those that it sets. Both are of our own making. */
static char *merge_env(const char *env, const char *changes)
{
	auto_json struct json_doc *old = json_parse(str_of(env), NULL), *changed = json_parse(str_of(changes), NULL);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_each(it, old ? json_root(old) : NULL)
	{
		auto_free char *name = str_dup(it->key);
		if (!changed || !json_get(json_root(changed), name))
			json_member_str(&w, name, it->text);
	}
	json_each(it, changed ? json_root(changed) : NULL)
	{
		auto_free char *name = str_dup(it->key);
		if (it->type == JSON_T_STRING)
			json_member_str(&w, name, it->text);
	}
	json_object_end(&w);
	return str_dup(buf_str(&out));
}

void api_change_apply(const struct api_change *c, struct api_spec *s)
{
	if (c->has_memory)
		s->limits.mem_bytes = c->spec.limits.mem_bytes;
	if (c->has_cpu)
		s->limits.cpu_milli = c->spec.limits.cpu_milli;
	if (c->has_pids)
		s->limits.pids = c->spec.limits.pids;
	if (c->has_disk)
		s->limits.disk_bytes = c->spec.limits.disk_bytes;
	if (c->has_image)
		memcpy(s->image, c->spec.image, sizeof s->image);
	if (c->has_sleep_after)
		s->sleep_after_ms = c->spec.sleep_after_ms;
	if (c->has_keep_alive)
		s->keep_alive = c->spec.keep_alive;
	replace_text(&s->env, c->spec.env);
	if (c->env_changes) {
		char *merged = merge_env(s->env, c->env_changes);
		free(s->env);
		s->env = merged;
	}
	replace_text(&s->labels, c->spec.labels);
	replace_text(&s->network, c->spec.network);
	if (c->settings_changes) {
		char *merged = settings_merge(s->settings, c->settings_changes);
		free(s->settings);
		s->settings = merged;
	}
}

static int check_host_limits(const struct box_limits *l, const struct warden_host *host, struct err *e)
{
	if (l->mem_bytes > host->mem_total)
		return err_set(e, ERRC_INVALID_LIMITS, "limits.memory is %llu bytes, the host has %llu",
			(unsigned long long)l->mem_bytes, (unsigned long long)host->mem_total);
	if (l->cpu_milli > host->cpus_milli)
		return err_set(e, ERRC_INVALID_LIMITS, "limits.cpu is %.3g, the host has %.3g", l->cpu_milli / 1000.0,
			host->cpus_milli / 1000.0);
	if (l->pids > host->pids_max)
		return err_set(
			e, ERRC_INVALID_LIMITS, "limits.pids is %u, the host allows %u", l->pids, host->pids_max);
	return 0;
}

int api_limits_check(const struct box_limits *l, const struct warden_host *host, struct err *e)
{
	return check_host_limits(l, host, e) < 0 ? err_about(e, "limits") : 0;
}
