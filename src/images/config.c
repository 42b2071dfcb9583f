#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "images/images.h"

void words_add(struct words *w, struct str word)
{
	if (w->n >= SERVICE_LIST_MAX)
		return;
	w->v = xrealloc(w->v, (w->n + 2) * sizeof *w->v);
	w->v[w->n++] = str_dup(word);
	w->v[w->n] = NULL;
}

void words_add_once(struct words *w, struct str word)
{
	for (size_t i = 0; i < w->n; i++)
		if (str_eq_c(word, w->v[i]))
			return;
	words_add(w, word);
}

void words_free(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	*w = (struct words){0};
}

static void words_copy(struct words *to, const struct words *from)
{
	*to = (struct words){0};
	for (size_t i = 0; i < from->n; i++)
		words_add(to, str_of(from->v[i]));
}

void config_set(char **to, struct str value)
{
	char *copy = str_dup(value);
	free(*to);
	*to = copy;
}

void config_free(struct image_config *c)
{
	struct words *lists[] = {&c->env, &c->entrypoint, &c->cmd, &c->exposed, &c->volumes, &c->labels, &c->shell,
		&c->layers, &c->history, &c->onbuild};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		words_free(lists[i]);
	free(c->workdir);
	free(c->user);
	free(c->stop_signal);
	free(c->healthcheck);
	free(c->author);
	*c = (struct image_config){0};
}

void config_copy(struct image_config *to, const struct image_config *from)
{
	*to = (struct image_config){0};
	words_copy(&to->env, &from->env);
	words_copy(&to->entrypoint, &from->entrypoint);
	words_copy(&to->cmd, &from->cmd);
	words_copy(&to->exposed, &from->exposed);
	words_copy(&to->volumes, &from->volumes);
	words_copy(&to->labels, &from->labels);
	words_copy(&to->shell, &from->shell);
	words_copy(&to->layers, &from->layers);
	words_copy(&to->history, &from->history);
	words_copy(&to->onbuild, &from->onbuild);
	to->workdir = from->workdir ? xstrdup(from->workdir) : NULL;
	to->user = from->user ? xstrdup(from->user) : NULL;
	to->stop_signal = from->stop_signal ? xstrdup(from->stop_signal) : NULL;
	to->healthcheck = from->healthcheck ? xstrdup(from->healthcheck) : NULL;
	to->author = from->author ? xstrdup(from->author) : NULL;
}

void env_set(struct words *env, struct str name, struct str value)
{
	auto_buf struct buf text = {0};
	buf_printf(&text, "%.*s=", STR_ARG(name));
	size_t n = buf_size(&text);
	buf_add_str(&text, value);
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], buf_cstr(&text), n) == 0)
			return config_set(&env->v[i], buf_str(&text));
	words_add(env, buf_str(&text));
}

const char *env_value(const struct words *env, struct str name)
{
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name.p, name.n) == 0 && env->v[i][name.n] == '=')
			return env->v[i] + name.n + 1;
	return NULL;
}

/* ---- reading ---- */

static int bad(struct err *e, const char *field)
{
	return err_set(e, ERRC_INVALID_REQUEST, "the image's configuration is malformed at '%s'", field);
}

static int read_list(const struct json *object, const char *key, struct words *ret, struct err *e)
{
	const struct json *list = json_get(object, key);
	if (json_is_null(list))
		return 0;
	if (list->type != JSON_T_ARRAY || list->count > SERVICE_LIST_MAX)
		return bad(e, key);
	json_each(it, list)
	{
		if (it->type != JSON_T_STRING || memchr(it->text.p, 0, it->text.n))
			return bad(e, key);
		words_add(ret, it->text);
	}
	return 0;
}

/* {"80/tcp": {}} as a list of its names; {"a": "b"} as NAME=value. */
static int read_names(const struct json *object, const char *key, bool values, struct words *ret, struct err *e)
{
	const struct json *map = json_get(object, key);
	if (json_is_null(map))
		return 0;
	if (map->type != JSON_T_OBJECT || map->count > SERVICE_LIST_MAX)
		return bad(e, key);
	json_each(it, map)
	{
		if (memchr(it->key.p, 0, it->key.n) || (values && it->type != JSON_T_STRING))
			return bad(e, key);
		if (values)
			env_set(ret, it->key, it->text);
		else
			words_add(ret, it->key);
	}
	return 0;
}

static int read_text(const struct json *object, const char *key, char **ret, struct err *e)
{
	const char *text = NULL;
	if (json_read_cstr(object, key, &text, e) < 0)
		return bad(e, key);
	if (text && *text)
		config_set(ret, str_of(text));
	return 0;
}

static int read_raw(const struct json *object, const char *key, char **ret)
{
	const struct json *j = json_get(object, key);
	auto_buf struct buf text = {0};
	if (json_is_null(j))
		return 0;
	json_put_tree(&text, j);
	config_set(ret, buf_str(&text));
	return 0;
}

int config_read(struct image_config *c, struct str text, struct err *e)
{
	auto_json struct json_doc *doc = json_parse(text, e);
	const struct json *root = doc ? json_root(doc) : NULL, *config = json_get(root, "config");
	if (!doc || root->type != JSON_T_OBJECT)
		return bad(e, "the whole");
	if (!json_is_null(config) && config->type != JSON_T_OBJECT)
		return bad(e, "config");
	if (read_list(config, "Env", &c->env, e) < 0 || read_list(config, "Entrypoint", &c->entrypoint, e) < 0 ||
		read_list(config, "Cmd", &c->cmd, e) < 0 || read_list(config, "Shell", &c->shell, e) < 0 ||
		read_list(config, "OnBuild", &c->onbuild, e) < 0 ||
		read_names(config, "ExposedPorts", false, &c->exposed, e) < 0 ||
		read_names(config, "Volumes", false, &c->volumes, e) < 0 ||
		read_names(config, "Labels", true, &c->labels, e) < 0 ||
		read_text(config, "WorkingDir", &c->workdir, e) < 0 || read_text(config, "User", &c->user, e) < 0 ||
		read_text(config, "StopSignal", &c->stop_signal, e) < 0 || read_text(root, "author", &c->author, e) < 0)
		return -1;
	read_raw(config, "Healthcheck", &c->healthcheck);
	json_each(it, json_get(root, "history"))
	{
		auto_buf struct buf one = {0};
		json_put_tree(&one, it);
		words_add(&c->history, buf_str(&one));
	}
	return 0;
}

/* ---- writing ---- */

static void put_list(struct json_writer *w, const char *key, const struct words *list)
{
	if (!list->n)
		return;
	json_key(w, key);
	json_array_begin(w);
	for (size_t i = 0; i < list->n; i++)
		json_cstr(w, list->v[i]);
	json_array_end(w);
}

static void put_names(struct json_writer *w, const char *key, const struct words *list, bool values)
{
	if (!list->n)
		return;
	json_key(w, key);
	json_object_begin(w);
	for (size_t i = 0; i < list->n; i++) {
		struct str value, name = str_split(str_of(list->v[i]), '=', &value);
		auto_free char *text = str_dup(values ? name : str_of(list->v[i]));
		if (values) {
			json_member_str(w, text, value);
		} else {
			json_key(w, text);
			json_raw(w, STR("{}"));
		}
	}
	json_object_end(w);
}

static void put_config(struct json_writer *w, const struct image_config *c)
{
	json_key(w, "config");
	json_object_begin(w);
	put_list(w, "Env", &c->env);
	put_list(w, "Entrypoint", &c->entrypoint);
	put_list(w, "Cmd", &c->cmd);
	put_list(w, "Shell", &c->shell);
	put_list(w, "OnBuild", &c->onbuild);
	put_names(w, "ExposedPorts", &c->exposed, false);
	put_names(w, "Volumes", &c->volumes, false);
	put_names(w, "Labels", &c->labels, true);
	if (c->workdir)
		json_member_cstr(w, "WorkingDir", c->workdir);
	if (c->user)
		json_member_cstr(w, "User", c->user);
	if (c->stop_signal)
		json_member_cstr(w, "StopSignal", c->stop_signal);
	if (c->healthcheck) {
		json_key(w, "Healthcheck");
		json_raw(w, str_of(c->healthcheck));
	}
	json_object_end(w);
}

void config_write(const struct image_config *c, struct buf *ret)
{
	struct json_writer w = json_writer(ret);
	json_object_begin(&w);
	json_member_cstr(&w, "architecture", IMAGE_PROCESSOR);
	json_member_cstr(&w, "os", "linux");
	if (c->author)
		json_member_cstr(&w, "author", c->author);
	put_config(&w, c);
	json_key(&w, "rootfs");
	json_object_begin(&w);
	json_member_cstr(&w, "type", "layers");
	put_list(&w, "diff_ids", &c->layers);
	json_object_end(&w);
	json_key(&w, "history");
	json_array_begin(&w);
	for (size_t i = 0; i < c->history.n; i++)
		json_raw(&w, str_of(c->history.v[i]));
	json_array_end(&w);
	json_object_end(&w);
}

int config_load(const struct store *s, const char *key, struct image_config *ret, struct err *e)
{
	auto_buf struct buf text = {0}, layers = {0};
	char name[BOX_IMAGE_NAME_MAX + 16];
	if (!image_key_made_here(str_of(key))) {
		/* An image of Atoll's own: its environment is every box's. */
		words_add(&ret->layers, str_of(key));
		return 0;
	}
	snprintf(name, sizeof name, "%s.json", key);
	int r = fd_read_file(s->meta, name, IMAGE_CONFIG_MAX, &text);
	snprintf(name, sizeof name, "%s.layers", key);
	r = r < 0 ? r : fd_read_file(s->meta, name, IMAGE_CONFIG_MAX, &layers);
	if (r < 0)
		return err_os(e, ERRC_IMAGE_NOT_FOUND, -r, "read image '%s'", key);
	struct str rest = buf_str(&layers), line;
	for (bool ok = true; image_layer_next(&rest, &line, &ok);)
		words_add(&ret->layers, line);
	return config_read(ret, buf_str(&text), e);
}

int config_save(struct store *s, const struct image_config *c, char ret_key[BOX_IMAGE_NAME_MAX + 1],
	char ret_digest[IMAGE_HEX + 1], struct err *e)
{
	auto_buf struct buf text = {0}, layers = {0};
	char digest[IMAGE_HEX + 1], key[BOX_IMAGE_NAME_MAX + 1];
	config_write(c, &text);
	for (size_t i = 0; i < c->layers.n; i++)
		buf_printf(&layers, "%s\n", c->layers.v[i]);
	digest_of(buf_str(&text), digest);
	image_key_of(digest, key);
	if (store_put(s, key, buf_str(&layers), buf_str(&text), e) < 0)
		return -1;
	memcpy(ret_key, key, sizeof key);
	if (ret_digest)
		memcpy(ret_digest, digest, sizeof digest);
	return 0;
}
