#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "images/build_impl.h"

/* The old form "NAME value": everything behind the name is one value. */
static int read_old_pair(struct build *b, const struct df_step *s, struct words *to, struct err *e)
{
	size_t n = strcspn(s->text, " \t");
	struct str rest = str_trim(str_of(s->text + n));
	auto_buf struct buf name = {0}, value = {0};
	struct err why;
	if (!rest.n)
		return dockerfile_error(s, e, "%s needs NAME=value", dockerfile_name(s->kind));
	if (dockerfile_word(str_n(s->text, n), b->file.escape, build_lookup, b, &name, &why) < 0 ||
		dockerfile_word(rest, b->file.escape, build_lookup, b, &value, &why) < 0)
		return dockerfile_error(s, e, "%s", why.msg);
	env_set(to, buf_str(&name), buf_str(&value));
	return 0;
}

static int read_pairs(struct build *b, const struct df_step *s, struct words *to, struct err *e)
{
	struct words w = {0};
	int r = build_words(b, s, &w, e);
	if (r == 0 && !memchr(s->text, '=', strcspn(s->text, " \t"))) {
		words_free(&w);
		return read_old_pair(b, s, to, e);
	}
	for (size_t i = 0; r == 0 && i < w.n; i++) {
		struct str value, name = str_split(str_of(w.v[i]), '=', &value);
		if (!strchr(w.v[i], '=') || !name.n)
			r = dockerfile_error(s, e, "'%.60s' is not NAME=value", w.v[i]);
		else
			env_set(to, name, value);
	}
	words_free(&w);
	return r;
}

/* ARG NAME[=default]: a value of the request wins, then that of an ARG before the first FROM. */
static int step_arg(struct build *b, const struct df_step *s, struct err *e)
{
	struct words w = {0};
	if (build_words(b, s, &w, e) < 0)
		return -1;
	for (size_t i = 0; i < w.n; i++) {
		struct str value, name = str_split(str_of(w.v[i]), '=', &value);
		const char *given = env_value(&b->given, name);
		const char *global = b->stages_n ? env_value(&b->global, name) : NULL;
		bool has = strchr(w.v[i], '=') != NULL;
		if (given)
			value = str_of(given);
		else if (!has && global)
			value = str_of(global);
		if (given || has || global)
			env_set(b->stages_n ? &b->scope : &b->global, name, value);
	}
	words_free(&w);
	return 0;
}

static void set_command(struct build *b, const struct df_step *s, struct words *to)
{
	const struct image_config *c = build_config(b);
	words_free(to);
	for (size_t i = 0; i < s->json.n; i++)
		words_add(to, str_of(s->json.v[i]));
	if (s->is_json)
		return;
	for (size_t i = 0; i < c->shell.n; i++)
		words_add(to, str_of(c->shell.v[i]));
	if (!c->shell.n) {
		words_add(to, STR("/bin/sh"));
		words_add(to, STR("-c"));
	}
	words_add(to, str_of(s->text));
}

static int step_workdir(struct build *b, const struct df_step *s, struct err *e)
{
	auto_buf struct buf given = {0}, path = {0}, clean = {0};
	struct image_config *c = build_config(b);
	struct err why;
	if (dockerfile_word(str_of(s->text), b->file.escape, build_lookup, b, &given, &why) < 0)
		return dockerfile_error(s, e, "%s", why.msg);
	if (!buf_size(&given))
		return dockerfile_error(s, e, "WORKDIR needs a directory");
	buf_printf(&path, "%s/%s", *buf_cstr(&given) == '/' || !c->workdir ? "" : c->workdir, buf_cstr(&given));
	build_clean_path(buf_cstr(&path), &clean);
	buf_clear(&path);
	buf_printf(&path, "/%s", strcmp(buf_cstr(&clean), ".") == 0 ? "" : buf_cstr(&clean));
	config_set(&c->workdir, buf_str(&path));
	return strcmp(c->workdir, "/") == 0 ? 0 : step_make_workdir(b, s, e);
}

static int step_volume(struct build *b, const struct df_step *s, struct err *e)
{
	struct image_config *c = build_config(b);
	if (s->is_json) {
		for (size_t i = 0; i < s->json.n; i++)
			words_add(&c->volumes, str_of(s->json.v[i]));
		return 0;
	}
	return build_words(b, s, &c->volumes, e);
}

static int set_text(struct build *b, const struct df_step *s, char **to, struct err *e)
{
	struct words w = {0};
	int r = build_words(b, s, &w, e);
	if (r == 0 && w.n != 1)
		r = dockerfile_error(s, e, "%s needs one word", dockerfile_name(s->kind));
	if (r == 0 && s->kind == DF_STOPSIGNAL)
		r = check_signal(s, w.v[0], e);
	if (r == 0)
		config_set(to, str_of(w.v[0]));
	words_free(&w);
	return r;
}

int step_config(struct build *b, const struct df_step *s, struct err *e)
{
	struct image_config *c = b->stages_n ? build_config(b) : NULL;
	switch (s->kind) {
	case DF_ARG:
		return step_arg(b, s, e);
	case DF_ENV:
		return read_pairs(b, s, &c->env, e);
	case DF_LABEL:
		return read_pairs(b, s, &c->labels, e);
	case DF_CMD:
		set_command(b, s, &c->cmd);
		b->stages[b->at].has_cmd = true;
		return 0;
	case DF_ENTRYPOINT:
		set_command(b, s, &c->entrypoint);
		/* As Docker does: the base's CMD was for the base's ENTRYPOINT. */
		if (!b->stages[b->at].has_cmd)
			words_free(&c->cmd);
		return 0;
	case DF_SHELL:
		if (!s->is_json || !s->json.n)
			return dockerfile_error(s, e, "SHELL needs a JSON list: SHELL [\"/bin/bash\", \"-c\"]");
		words_free(&c->shell);
		for (size_t i = 0; i < s->json.n; i++)
			words_add(&c->shell, str_of(s->json.v[i]));
		return 0;
	case DF_WORKDIR:
		return step_workdir(b, s, e);
	case DF_EXPOSE:
		return step_expose(b, s, &c->exposed, e);
	case DF_VOLUME:
		return step_volume(b, s, e);
	case DF_HEALTHCHECK:
		return step_healthcheck(b, s, e);
	case DF_USER:
		return set_text(b, s, &c->user, e);
	case DF_STOPSIGNAL:
		return set_text(b, s, &c->stop_signal, e);
	case DF_MAINTAINER:
		config_set(&c->author, str_of(s->text));
		return 0;
	case DF_ONBUILD:
		words_add(&c->onbuild, str_of(s->text));
		return 0;
	case DF_ADD:
	case DF_COPY:
	case DF_FROM:
	case DF_RUN:
	case DF_KINDS:
		break;
	}
	base_bug(__FILE__, __LINE__, "an instruction without a handler");
}
