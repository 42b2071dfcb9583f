#include "daemon/core/settings.h"

#include "daemon/core/instance.h"
#include "daemon/limits.h"
#include "daemon/network/hooks.h"
#include "daemon/network/secrets.h"
#include "daemon/storage/backups.h"
#include "daemon/storage/volumes.h"

struct setting {
	const char *name;
	/* -1 with *e (err_field with the name) when the value is not one for this setting. It is never null. */
	int (*check)(const struct json *value, struct err *e);
};

static int check_bool(const struct json *value, struct err *e)
{
	if (value->type == JSON_T_BOOL)
		return 0;
	auto_free char *name = str_dup(value->key);
	return err_field(e, name, "field '%s' must be true or false", name);
}

static int check_user(const struct json *value, struct err *e)
{
	if (value->type == JSON_T_STRING && value->text.n <= BOX_USER_MAX && !memchr(value->text.p, 0, value->text.n))
		return 0;
	return err_field(e, "user", "field 'user' must be a name or a number, with ':' and a group if you like");
}

static int check_command(const struct json *value, struct err *e)
{
	bool ok = value->type == JSON_T_ARRAY && value->count <= BOX_COMMAND_WORDS_MAX;
	json_each(it, value) ok = ok && it->type == JSON_T_STRING && !memchr(it->text.p, 0, it->text.n);
	return ok ? 0
		  : err_field(
			    e, "command", "field 'command' must be a list of at most %d words", BOX_COMMAND_WORDS_MAX);
}

static const struct setting table[] = {
	{"outbound", hooks_check_setting},
	{"secrets", secrets_check_setting},
	{"durable", check_bool}, /* false: fsync in the box does not wait for the disk */
	{"fuse", check_bool},	 /* FUSE mounts; true when it is missing */
	{"instance", instance_check},
	{"volumes", volumes_check_setting},
	{"backup", backups_check_setting}, /* backups by the clock */
	{"user", check_user},		   /* in place of the image's USER, from the next start on */
	{"command", check_command},	   /* in place of ENTRYPOINT and CMD; [] starts nothing */
	{NULL, NULL},
};

static const struct setting *find(struct str name)
{
	for (const struct setting *s = table; s->name; s++)
		if (str_eq_c(name, s->name))
			return s;
	return NULL;
}

bool settings_knows(struct str name)
{
	return find(name) != NULL;
}

static void member(struct json_writer *w, const struct json *j)
{
	auto_buf struct buf text = {0};
	auto_free char *name = str_dup(j->key);
	json_put_tree(&text, j);
	json_key(w, name);
	json_raw(w, buf_str(&text));
}

int settings_changes(const struct json *request, char **ret, struct err *e)
{
	auto_buf struct buf out = {.max = BOX_SETTINGS_MAX};
	struct json_writer w = json_writer(&out);
	bool any = false;
	json_object_begin(&w);
	json_each(it, request)
	{
		const struct setting *s = find(it->key);
		if (!s)
			continue;
		if (it->type != JSON_T_NULL && s->check(it, e) < 0)
			return -1;
		member(&w, it);
		any = true;
	}
	json_object_end(&w);
	if (out.failed)
		return err_set(e, ERRC_VALIDATION_FAILED, "the settings are larger than %d bytes", BOX_SETTINGS_MAX);
	*ret = any ? str_dup(buf_str(&out)) : NULL;
	return 0;
}

char *settings_merge(const char *own, const char *changes)
{
	auto_json struct json_doc *old = json_parse(str_of(own), NULL), *changed = json_parse(str_of(changes), NULL);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_each(it, old ? json_root(old) : NULL)
	{
		auto_free char *name = str_dup(it->key);
		if (!changed || !json_get(json_root(changed), name))
			member(&w, it);
	}
	json_each(it, changed ? json_root(changed) : NULL)
	{
		if (it->type != JSON_T_NULL)
			member(&w, it);
	}
	json_object_end(&w);
	return str_dup(buf_str(&out));
}

struct json_doc *settings_get(const char *settings, const char *name, const struct json **ret_value)
{
	struct json_doc *doc = json_parse(str_of(settings), NULL);
	*ret_value = doc ? json_get(json_root(doc), name) : NULL;
	return doc;
}

bool settings_bool(const char *settings, const char *name, bool otherwise)
{
	const struct json *j = NULL;
	auto_json struct json_doc *doc = settings_get(settings, name, &j);
	return doc && j && j->type == JSON_T_BOOL ? j->boolean : otherwise;
}

void settings_write(struct json_writer *w, const char *settings)
{
	auto_json struct json_doc *doc = json_parse(str_of(settings), NULL);
	json_each(it, doc ? json_root(doc) : NULL) if (it->key.n && it->key.p[0] != '.') member(w, it);
}

void settings_note(char **settings, const char *name, struct str json)
{
	auto_buf struct buf note = {0};
	struct json_writer w = json_writer(&note);
	json_object_begin(&w);
	json_key(&w, name);
	json_raw(&w, json);
	json_object_end(&w);
	char *changed = settings_merge(*settings ? *settings : "{}", buf_cstr(&note));
	free(*settings);
	*settings = changed;
}
