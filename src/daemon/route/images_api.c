/*
 * The image of a sandbox: a reference becomes the key of an image here, so that a sandbox keeps its image when the name
 * moves on.
 */
#include <stdio.h>

#include "base/fd.h"
#include "base/json.h"
#include "daemon/core/settings.h"
#include "daemon/route/images_api.h"
#include "proto/id.h"
#include "proto/image.h"

/* Names of Atoll's own images ("default") are directories that the warden looks up. */
static int own_image(struct api_change *c, const struct image_ref *ref, int meta, struct err *e)
{
	struct str tag, name = str_split(str_of(ref->name), ':', &tag);
	auto_buf struct buf near = {0};
	if (image_is_sandbox(ref->name)) {
		snprintf(c->spec.image, sizeof c->spec.image, "default");
		return 0;
	}
	if (str_eq_c(tag, "latest") && box_image_name_ok(name)) {
		snprintf(c->spec.image, sizeof c->spec.image, "%.*s", STR_ARG(name));
		return 0;
	}
	if (meta >= 0)
		image_near(meta, ref->name, &near);
	return err_set(e, ERRC_IMAGE_NOT_FOUND, "there is no image '%s'.%s", c->image_ref, buf_cstr(&near));
}

/* The name is for people: GET shows it. */
static void note_name(char **settings, const char *name)
{
	auto_buf struct buf value = {0};
	json_put_cstr(&value, name);
	settings_note(settings, ".image", buf_str(&value));
}

int images_resolve(struct daemon *d, struct api_change *c, struct err *e)
{
	struct image_ref ref;
	char key[BOX_IMAGE_NAME_MAX + 1];
	if (!c->has_image)
		return 0;
	if (image_ref_parse(str_of(c->image_ref), &ref, e) < 0)
		return -1;
	int r = d->images_meta < 0 ? 1 : image_lookup(d->images_meta, &ref, key, e);
	if (r < 0)
		return -1;
	if (r > 0)
		return own_image(c, &ref, d->images_meta, e);
	memcpy(c->spec.image, key, sizeof key);
	note_name(&c->settings_changes, c->image_ref);
	return 0;
}

/* An image that is not here is the warden's to refuse. */
void images_default(struct daemon *d, struct api_spec *spec)
{
	struct api_change c = {.has_image = true};
	struct err e;
	if (!d->config.image)
		return;
	snprintf(c.image_ref, sizeof c.image_ref, "%s", d->config.image);
	if (images_resolve(d, &c, &e) == 0) {
		memcpy(spec->image, c.spec.image, sizeof spec->image);
		if (c.settings_changes)
			note_name(&spec->settings, d->config.image);
	} else {
		snprintf(spec->image, sizeof spec->image, "%.*s", BOX_IMAGE_NAME_MAX, d->config.image);
	}
	free(c.settings_changes);
}

void images_explain(struct daemon *d, const char *image, struct err *e)
{
	auto_buf struct buf near = {0};
	if (e->code != ERRC_IMAGE_NOT_FOUND || d->images_meta < 0)
		return;
	image_near(d->images_meta, image, &near);
	if (buf_size(&near))
		err_set(e, ERRC_IMAGE_NOT_FOUND, "there is no image '%s'.%s", image, buf_cstr(&near));
}

/* ---- what the image says about commands ---- */

/* The image's variables that the sandbox does not set itself. */
static void put_env(struct json_writer *w, const struct json *list, const struct json *own)
{
	json_each(it, list)
	{
		struct str value, name = it->type == JSON_T_STRING ? str_split(it->text, '=', &value) : STR_NULL;
		if (!name.n || memchr(it->text.p, 0, it->text.n))
			continue;
		auto_free char *text = str_dup(name);
		if (!json_get(own, text))
			json_member_str(w, text, value);
	}
	json_each(it, own)
	{
		auto_free char *text = str_dup(it->key);
		json_member_str(w, text, it->text);
	}
}

/* Upstream's server: the agent stands in its place, and the words after it are the user's program. */
static bool is_server(struct str word)
{
	return str_eq_c(word, "/sandbox") || str_eq_c(word, "/container-server/sandbox");
}

static void put_words(struct json_writer *w, const struct json *words, bool *first)
{
	json_each(it, words)
	{
		if (it->type == JSON_T_STRING && !(*first && is_server(it->text)))
			json_str(w, it->text);
		*first = false;
	}
}

/* As in Docker: the words of ENTRYPOINT, then those of CMD. */
static void put_entrypoint(struct json_writer *w, const struct json *config, const struct json *own)
{
	bool first = true;
	json_key(w, "entrypoint");
	json_array_begin(w);
	if (!json_is_null(own)) {
		put_words(w, own, &first);
	} else {
		put_words(w, json_get(config, "Entrypoint"), &first);
		put_words(w, json_get(config, "Cmd"), &first);
	}
	json_array_end(w);
}

static bool read_config(struct daemon *d, const char *key, struct buf *ret)
{
	char name[BOX_IMAGE_NAME_MAX + 16];
	if (d->images_meta < 0 || !image_key_made_here(str_of(key)))
		return false;
	snprintf(name, sizeof name, "%s.json", key);
	return fd_read_file(d->images_meta, name, IMAGE_CONFIG_MAX, ret) == 0;
}

bool images_says(const struct api_spec *spec)
{
	const struct json *user, *command;
	if (image_key_made_here(str_of(spec->image)))
		return true;
	auto_json struct json_doc *with_user = settings_get(spec->settings, "user", &user);
	auto_json struct json_doc *with_command = settings_get(spec->settings, "command", &command);
	return !json_is_null(user) || !json_is_null(command);
}

bool images_settings(struct daemon *d, const struct api_spec *spec, const char *env, struct buf *ret)
{
	auto_buf struct buf text = {0};
	const char *workdir = NULL, *user = NULL;
	const struct json *own_user, *command;
	auto_json struct json_doc *with_user = settings_get(spec->settings, "user", &own_user);
	auto_json struct json_doc *with_command = settings_get(spec->settings, "command", &command);
	if (!read_config(d, spec->image, &text) && json_is_null(own_user) && json_is_null(command))
		return false;
	auto_json struct json_doc *doc = json_parse(buf_str(&text), NULL), *own = json_parse(str_of(env), NULL);
	const struct json *config = doc ? json_get(json_root(doc), "config") : NULL;
	struct json_writer w = json_writer(ret);
	json_object_begin(&w);
	json_key(&w, "env");
	json_object_begin(&w);
	put_env(&w, json_get(config, "Env"), own ? json_root(own) : NULL);
	json_object_end(&w);
	if (json_read_cstr(config, "WorkingDir", &workdir, NULL) == 0 && workdir && *workdir == '/')
		json_member_cstr(&w, "workdir", workdir);
	if (!json_is_null(own_user))
		json_member_str(&w, "user", own_user->text);
	else if (json_read_cstr(config, "User", &user, NULL) == 0 && user && *user)
		json_member_cstr(&w, "user", user);
	put_entrypoint(&w, config, command);
	json_member_bool(&w, "customImage", buf_size(&text) > 0);
	return true;
}
