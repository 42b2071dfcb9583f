#include "agent/watch/watch_request.h"

#include <stdio.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/file/path.h"
#include "agent/limits.h"
#include "base/clock.h"

static const struct str default_exclude[] = {STR(".git"), STR("node_modules"), STR(".DS_Store")};

static void list_free(struct str *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)v[i].p);
	free(v);
}

void watch_filter_free(struct watch_filter *f)
{
	list_free(f->include, f->include_n);
	list_free(f->exclude, f->exclude_n);
	*f = (struct watch_filter){0};
}

void watch_target_free(struct watch_target *t)
{
	free(t->root);
	free(t->shown);
	free(t->named);
	free(t->only);
	*t = (struct watch_target){0};
}

static int read_patterns(const struct json *body, const char *key, struct str **ret, size_t *ret_n, struct err *e)
{
	const struct json *j = json_get(body, key);
	if (json_is_null(j))
		return 0;
	if (j->type != JSON_T_ARRAY || j->count > WATCH_PATTERNS_MAX)
		return err_field(e, key, "field '%s' must be a list of at most %d patterns", key, WATCH_PATTERNS_MAX);
	*ret = xcalloc(j->count ? j->count : 1, sizeof **ret);
	json_each(p, j)
	{
		if (p->type != JSON_T_STRING || !p->text.n || p->text.n > WATCH_PATTERN_LEN_MAX)
			return err_field(
				e, key, "field '%s' must hold patterns of 1 to %d bytes", key, WATCH_PATTERN_LEN_MAX);
		if (memchr(p->text.p, '[', p->text.n) || memchr(p->text.p, '{', p->text.n))
			return err_field(e, key, "field '%s': patterns know only * ** and ?", key);
		(*ret)[(*ret_n)++] = str_n(str_dup(p->text), p->text.n);
	}
	return 0;
}

static int read_kinds(const struct json *body, unsigned *ret, struct err *e)
{
	const struct json *j = json_get(body, "events");
	*ret = (1u << WATCH_KINDS) - 1;
	if (json_is_null(j) || (j->type == JSON_T_ARRAY && !j->count))
		return 0;
	if (j->type != JSON_T_ARRAY)
		return err_field(e, "events", "field 'events' must be a list of event types");
	*ret = 0;
	json_each(name, j)
	{
		int kind = 0;
		while (kind < WATCH_KINDS && !str_eq_c(name->text, watch_kind_name((enum watch_kind)kind)))
			kind++;
		if (name->type != JSON_T_STRING || kind == WATCH_KINDS)
			return err_field(e, "events",
				"field 'events' knows create, modify, delete, move_from, move_to and attrib");
		*ret |= 1u << kind;
	}
	return 0;
}

static void exclude_by_default(struct watch_filter *f)
{
	f->exclude = xcalloc(ARRAY_LEN(default_exclude), sizeof *f->exclude);
	for (; f->exclude_n < ARRAY_LEN(default_exclude); f->exclude_n++) {
		struct str s = default_exclude[f->exclude_n];
		f->exclude[f->exclude_n] = str_n(str_dup(s), s.n);
	}
}

int watch_filter_read(const struct json *body, struct watch_filter *f, struct err *e)
{
	f->recursive = true;
	if (json_read_bool(body, "recursive", &f->recursive, e) < 0 || read_kinds(body, &f->kinds, e) < 0 ||
		read_patterns(body, "include", &f->include, &f->include_n, e) < 0 ||
		read_patterns(body, "exclude", &f->exclude, &f->exclude_n, e) < 0)
		return -1;
	if (f->include_n && f->exclude_n)
		return err_field(e, "include", "field 'include' cannot be used together with 'exclude'");
	if (!f->include_n && json_is_null(json_get(body, "exclude")))
		exclude_by_default(f);
	return 0;
}

struct watch_options watch_options_of(const struct watch_filter *f, const struct watch_target *t)
{
	return (struct watch_options){
		.root = t->root,
		.shown = t->shown,
		.recursive = f->recursive && !t->only,
		.kinds = f->kinds,
		.include = f->include,
		.exclude = f->exclude,
		.include_n = f->include_n,
		.exclude_n = f->exclude_n,
		.only = t->only,
	};
}

static bool lies_in(const char *path, struct str dir)
{
	return str_starts(str_of(path), dir) && (dir.n == 1 || !path[dir.n] || path[dir.n] == '/');
}

int watch_target_read(const struct agent_request *r, struct watch_target *ret, struct err *e)
{
	auto_free char *path = NULL;
	if (agent_request_path(r, "path", &path, e) < 0)
		return -1;
	auto_free char *workspace = realpath(agent.workdir, NULL);
	auto_free char *real = realpath(path, NULL);
	int os = errno;
	struct str inside = workspace ? str_of(workspace) : STR("/workspace");
	if (!lies_in(real ? real : path, inside))
		return err_set(e, ERRC_PERMISSION_DENIED, "watch '%.120s': only paths in %.*s can be watched", path,
			STR_ARG(inside));
	struct stat st;
	if (!real || stat(real, &st) < 0)
		return err_os(e, errc_from_file_errno(real ? errno : os), real ? errno : os, "watch '%.150s'", path);
	ret->named = path_clean(path);
	ret->shown = xstrdup(ret->named);
	ret->root = take_ptr(&real);
	if (S_ISDIR(st.st_mode))
		return 0;
	/* A watch on the file itself would end when an editor or a write of the agent replaces the file. */
	char *dir = path_dirname(ret->root), *shown_dir = path_dirname(ret->shown);
	ret->only = str_dup(path_basename(str_of(ret->root)));
	if (!str_eq_c(path_basename(str_of(ret->shown)), ret->only)) {
		/* A link with another name: events report the file itself. */
		free(shown_dir);
		shown_dir = xstrdup(dir);
	}
	free(ret->root);
	free(ret->shown);
	ret->root = dir;
	ret->shown = shown_dir;
	return 0;
}

void watch_fail(const struct agent_request *r, const struct err *e)
{
	if (e->code == ERRC_VALIDATION_FAILED)
		agent_request_refuse(r, e);
	else
		agent_request_fail_file(r, e, agent_request_given(r, "path"), NULL);
}

static uint64_t watch_number;
static int64_t first_ms; /* time of this process' first id */

void watch_id_make(char ret[WATCH_ID_LEN])
{
	int64_t now = clock_wall_ms();
	if (!watch_number)
		first_ms = now;
	snprintf(ret, WATCH_ID_LEN, "watch-%llu-%lld", (unsigned long long)++watch_number, (long long)now);
}

bool watch_id_is_ours(struct str id)
{
	struct str number, ms, word = str_split(id, '-', &number);
	uint64_t n, at;
	number = str_split(number, '-', &ms);
	return str_eq_c(word, "watch") && str_to_u64(number, watch_number, &n) && n && str_to_u64(ms, INT64_MAX, &at) &&
	       (int64_t)at >= first_ms;
}
