#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "images/build_impl.h"

/* NAME=value words, or the old form "NAME value". */
static int read_pairs(struct build *b, const struct df_step *s, struct words *to, struct err *e)
{
	auto_buf struct buf text = {0};
	struct words w = {0};
	struct err why;
	if (build_text(b, s, &text, e) < 0)
		return -1;
	if (dockerfile_words(buf_str(&text), b->file.escape, &w, &why) < 0)
		return dockerfile_error(s, e, "%s", why.msg);
	int r = 0;
	if (!strchr(w.v[0], '=')) {
		struct str value, name = str_split(buf_str(&text), ' ', &value);
		if (w.n < 2)
			r = dockerfile_error(s, e, "%s needs NAME=value", dockerfile_name(s->kind));
		else
			env_set(to, name, str_trim(value));
	}
	for (size_t i = 0; r == 0 && strchr(w.v[0], '=') && i < w.n; i++) {
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
	auto_buf struct buf text = {0};
	struct words w = {0};
	struct err why;
	if (build_text(b, s, &text, e) < 0 || dockerfile_words(buf_str(&text), b->file.escape, &w, &why) < 0)
		return dockerfile_error(s, e, "a malformed ARG");
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
	auto_buf struct buf text = {0}, path = {0};
	struct image_config *c = build_config(b);
	struct words w = {0};
	struct err why;
	if (build_text(b, s, &text, e) < 0 || dockerfile_words(buf_str(&text), b->file.escape, &w, &why) < 0 || !w.n)
		return dockerfile_error(s, e, "a malformed WORKDIR");
	if (w.v[0][0] != '/')
		buf_printf(&path, "%s/", c->workdir && c->workdir[1] ? c->workdir : "");
	buf_add_c(&path, w.v[0]);
	while (buf_size(&path) > 1 && buf_cstr(&path)[buf_size(&path) - 1] == '/')
		buf_truncate(&path, buf_size(&path) - 1);
	config_set(&c->workdir, buf_str(&path));
	words_free(&w);
	return 0;
}

static int step_expose(struct build *b, const struct df_step *s, struct words *list, struct err *e)
{
	auto_buf struct buf text = {0};
	struct words w = {0};
	struct err why;
	if (build_text(b, s, &text, e) < 0 || dockerfile_words(buf_str(&text), b->file.escape, &w, &why) < 0)
		return dockerfile_error(s, e, "a malformed %s", dockerfile_name(s->kind));
	int r = 0;
	for (size_t i = 0; r == 0 && i < w.n; i++) {
		auto_buf struct buf port = {0};
		struct str kind, number = str_split(str_of(w.v[i]), '/', &kind);
		uint64_t n = 0;
		struct str last, first = str_split(number, '-', &last);
		if (!str_to_u64(first, 65535, &n) || !n || (last.n && !str_to_u64(last, 65535, &n)) ||
			(kind.n && !str_eq_c(kind, "tcp") && !str_eq_c(kind, "udp")))
			r = dockerfile_error(s, e, "'%.40s' is not a port", w.v[i]);
		buf_printf(&port, "%.*s/%.*s", STR_ARG(number), kind.n ? (int)kind.n : 3, kind.n ? kind.p : "tcp");
		words_add(list, buf_str(&port));
	}
	words_free(&w);
	return r;
}

static int step_volume(struct build *b, const struct df_step *s, struct err *e)
{
	struct image_config *c = build_config(b);
	if (s->is_json) {
		for (size_t i = 0; i < s->json.n; i++)
			words_add(&c->volumes, str_of(s->json.v[i]));
		return 0;
	}
	auto_buf struct buf text = {0};
	struct err why;
	if (build_text(b, s, &text, e) < 0)
		return -1;
	return dockerfile_words(buf_str(&text), b->file.escape, &c->volumes, &why) < 0
		       ? dockerfile_error(s, e, "%s", why.msg)
		       : 0;
}

static void put_duration(struct json_writer *w, const struct df_step *s, const char *flag, const char *key)
{
	const char *text = dockerfile_flag(s, flag);
	char *end;
	if (!text)
		return;
	double n = strtod(text, &end);
	double unit = strcmp(end, "ms") == 0 ? 1e6 : *end == 'm' ? 60e9 : *end == 'h' ? 3600e9 : 1e9;
	json_member_u64(w, key, n > 0 && n < 1e6 ? (uint64_t)(n * unit) : 0);
}

static int step_healthcheck(struct build *b, const struct df_step *s, struct err *e)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	bool none = strcasecmp(s->text, "NONE") == 0;
	struct str rest, word = str_split(str_of(s->text), ' ', &rest);
	if (!none && !str_eq_nocase(word, STR("CMD")))
		return dockerfile_error(s, e, "HEALTHCHECK needs CMD and a command, or NONE");
	rest = str_trim(rest);
	auto_json struct json_doc *doc = rest.n && rest.p[0] == '[' ? json_parse(rest, NULL) : NULL;
	json_object_begin(&w);
	json_key(&w, "Test");
	json_array_begin(&w);
	json_cstr(&w, none ? "NONE" : doc ? "CMD" : "CMD-SHELL");
	json_each(it, doc ? json_root(doc) : NULL) json_str(&w, it->text);
	if (!none && !doc)
		json_str(&w, rest);
	json_array_end(&w);
	put_duration(&w, s, "interval", "Interval");
	put_duration(&w, s, "timeout", "Timeout");
	put_duration(&w, s, "start-period", "StartPeriod");
	const char *retries = dockerfile_flag(s, "retries");
	if (retries)
		json_member_u64(&w, "Retries", strtoul(retries, NULL, 10));
	json_object_end(&w);
	config_set(&build_config(b)->healthcheck, buf_str(&out));
	return 0;
}

static int set_text(struct build *b, const struct df_step *s, char **to, struct err *e)
{
	auto_buf struct buf text = {0};
	struct words w = {0};
	struct err why;
	if (build_text(b, s, &text, e) < 0 || dockerfile_words(buf_str(&text), b->file.escape, &w, &why) < 0 ||
		w.n != 1)
		return dockerfile_error(s, e, "%s needs one word", dockerfile_name(s->kind));
	config_set(to, str_of(w.v[0]));
	words_free(&w);
	return 0;
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
		return 0;
	case DF_ENTRYPOINT:
		set_command(b, s, &c->entrypoint);
		words_free(&c->cmd); /* as Docker does: the base's CMD was for the base's ENTRYPOINT */
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
