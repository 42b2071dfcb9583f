/*
 * Reads RUN --mount=type=…,target=…
 */
#include "images/build_mounts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const type_names[] = {"bind", "cache", "tmpfs", "secret"};

/* Which fields a type has; other spellings of one field stand behind it. */
static const struct field {
	const char *name, *other, *third;
	unsigned types; /* bits */
} fields[] = {{"type", NULL, NULL, 15}, {"target", "dst", "destination", 15}, {"source", "src", NULL, 1 | 2},
	{"from", NULL, NULL, 1 | 2}, {"id", NULL, NULL, 2 | 8}, {"sharing", NULL, NULL, 2}, {"mode", NULL, NULL, 2 | 8},
	{"uid", NULL, NULL, 2 | 8}, {"gid", NULL, NULL, 2 | 8}, {"readonly", "ro", NULL, 1 | 2},
	{"readwrite", "rw", NULL, 1 | 2}, {"size", NULL, NULL, 4}, {"required", NULL, NULL, 8}, {"env", NULL, NULL, 8}};

static const struct field *find_field(struct str key)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (str_eq_nocase(key, str_of(fields[i].name)) ||
			(fields[i].other && str_eq_nocase(key, str_of(fields[i].other))) ||
			(fields[i].third && str_eq_nocase(key, str_of(fields[i].third))))
			return &fields[i];
	return NULL;
}

/* "500", "64m", "1g". */
static bool read_size(struct str text, uint64_t *ret)
{
	static const char units[] = "kmgt";
	while (text.n && (text.p[text.n - 1] == 'b' || text.p[text.n - 1] == 'B'))
		text.n--;
	const char *unit = text.n ? strchr(units, text.p[text.n - 1] | 0x20) : NULL;
	uint64_t factor = 1;
	for (ptrdiff_t i = 0; unit && i <= unit - units; i++)
		factor *= 1024;
	if (unit)
		text.n--;
	if (!str_to_u64(text, BOX_DISK_MAX, ret) || *ret > BOX_DISK_MAX / factor)
		return false;
	*ret *= factor;
	return true;
}

static bool read_mode(struct str text, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < text.n && i < 5; i++) {
		if (text.p[i] < '0' || text.p[i] > '7')
			return false;
		*ret = *ret * 8 + (uint64_t)(text.p[i] - '0');
	}
	return text.n && text.n <= 5 && *ret <= 07777;
}

static bool read_bool(struct str text, bool given, bool *ret)
{
	bool yes = !given || str_eq_c(text, "true") || str_eq_c(text, "1");
	*ret = yes;
	return yes || str_eq_c(text, "false") || str_eq_c(text, "0");
}

static bool read_sharing(struct str text, enum mount_sharing *ret)
{
	static const char *const names[] = {"shared", "private", "locked"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq_c(text, names[i])) {
			*ret = (enum mount_sharing)i;
			return true;
		}
	return false;
}

static bool take_text(struct str value, char **ret)
{
	free(*ret);
	*ret = value.n ? str_dup(value) : NULL;
	return value.n > 0;
}

static bool take_value(struct mount *m, const char *name, struct str value, bool given)
{
	switch (name[0]) {
	case 't': /* target; the type is known */
		return name[1] == 'y' || take_text(value, &m->target);
	case 'f':
		return take_text(value, &m->from);
	case 'i':
		return take_text(value, &m->id);
	case 'e':
		return take_text(value, &m->env);
	case 'm':
		m->has_mode = true;
		return read_mode(value, &m->mode);
	case 'u':
		return str_to_u64(value, SERVICE_ID_MAX, &m->uid);
	case 'g':
		return str_to_u64(value, SERVICE_ID_MAX, &m->gid);
	case 's':
		return strcmp(name, "source") == 0 ? take_text(value, &m->source)
		       : strcmp(name, "size") == 0 ? read_size(value, &m->size)
						   : read_sharing(value, &m->sharing);
	default: /* readonly, readwrite, required */
		return read_bool(value, given,
			strcmp(name, "readonly") == 0	? &m->read_only
			: strcmp(name, "required") == 0 ? &m->required
							: &m->writable);
	}
}

static int read_type(const struct df_step *s, struct str text, enum mount_type *ret, struct err *e)
{
	struct str rest = text, type = STR("bind");
	while (rest.n) {
		struct str value, key = str_split(str_split(rest, ',', &rest), '=', &value);
		if (str_eq_nocase(key, STR("type")))
			type = value;
	}
	for (size_t i = 0; i < ARRAY_LEN(type_names); i++)
		if (str_eq_c(type, type_names[i])) {
			*ret = (enum mount_type)i;
			return 0;
		}
	if (str_eq_c(type, "ssh"))
		return dockerfile_error(s, e,
			"RUN --mount=type=ssh is not supported: builds have no way to your agent. Give a deploy key or "
			"a token "
			"with --mount=type=secret");
	return dockerfile_error(s, e, "RUN --mount does not know the type '%.*s'; it knows bind, cache, tmpfs, secret",
		(int)(type.n < 40 ? type.n : 40), type.p);
}

static int read_fields(const struct df_step *s, struct str text, struct mount *m, struct err *e)
{
	if (read_type(s, text, &m->type, e) < 0)
		return -1;
	while (text.n) {
		struct str value, field = str_split(text, ',', &text), key = str_split(field, '=', &value);
		const struct field *f = find_field(key);
		bool given = memchr(field.p, '=', field.n) != NULL;
		if (!f || !(f->types & 1u << m->type))
			return dockerfile_error(s, e, "RUN --mount=type=%s does not know '%.*s'", type_names[m->type],
				(int)(field.n < 60 ? field.n : 60), field.p);
		if (!take_value(m, f->name, value, given))
			return dockerfile_error(s, e, "RUN --mount: '%.*s' is no value that can be",
				(int)(field.n < 60 ? field.n : 60), field.p);
	}
	return 0;
}

/* A secret is named by its id, or by the last part of its target. */
static int complete_secret(const struct df_step *s, struct mount *m, struct err *e)
{
	const char *slash = m->target ? strrchr(m->target, '/') : NULL;
	if (!m->id && m->target)
		m->id = xstrdup(slash ? slash + 1 : m->target);
	if (!m->id || !*m->id || strchr(m->id, '/'))
		return dockerfile_error(s, e, "RUN --mount=type=secret needs an id without '/'");
	if (!m->target && !m->env)
		m->target = xasprintf("/run/secrets/%s", m->id);
	size_t n = m->env ? strspn(m->env, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 1;
	if (m->env && (m->env[n] || (m->env[0] >= '0' && m->env[0] <= '9')))
		return dockerfile_error(s, e, "RUN --mount: '%.60s' cannot name a variable", m->env);
	m->mode = m->has_mode ? m->mode : 0400;
	return 0;
}

static int complete(struct build *b, const struct df_step *s, struct mount *m, struct err *e)
{
	const char *workdir = build_config(b)->workdir;
	if (m->type == MOUNT_SECRET && complete_secret(s, m, e) < 0)
		return -1;
	if (!m->target)
		return m->env ? 0 : dockerfile_error(s, e, "RUN --mount=type=%s needs a target", type_names[m->type]);
	auto_buf struct buf path = {0}, clean = {0};
	buf_printf(&path, "%s/%s", m->target[0] == '/' || !workdir ? "" : workdir, m->target);
	build_clean_path(buf_cstr(&path), &clean);
	free(m->target);
	m->target = xasprintf("/%s", strcmp(buf_cstr(&clean), ".") == 0 ? "" : buf_cstr(&clean));
	if (!volume_path_ok(str_of(m->target)))
		return dockerfile_error(s, e,
			"RUN --mount: '%.80s' cannot be a target: not / and nothing in /proc, /dev and /sys, at most "
			"%d bytes",
			m->target, VOLUME_PATH_MAX);
	if (m->type == MOUNT_CACHE && !m->id)
		m->id = xstrdup(m->target);
	m->mode = m->has_mode || m->type == MOUNT_SECRET ? m->mode : 0755;
	return 0;
}

static int check_overlaps(const struct df_step *s, const struct mounts *all, struct err *e)
{
	for (size_t i = 0; i < all->n; i++)
		for (size_t k = 0; k < i; k++) {
			const char *one = all->v[i].target, *two = all->v[k].target;
			if (one && two && volume_paths_overlap(str_of(one), str_of(two)))
				return dockerfile_error(s, e,
					"RUN --mount: the targets '%.60s' and '%.60s' are the same, or one is inside "
					"of the other",
					two, one);
		}
	return 0;
}

int mounts_read(struct build *b, const struct df_step *s, struct mounts *ret, struct err *e)
{
	for (size_t i = 0; i < s->flags.n; i++) {
		const char *f = s->flags.v[i];
		auto_buf struct buf text = {0};
		struct err why;
		if (strncmp(f, "--mount=", 8) != 0)
			continue;
		if (ret->n == SERVICE_MOUNTS_MAX)
			return dockerfile_error(s, e, "more than %u mounts", SERVICE_MOUNTS_MAX);
		struct mount *m = &ret->v[ret->n++];
		*m = (struct mount){.lock = -1, .files = {.fd = -1}};
		if (dockerfile_word(str_of(f + 8), b->file.escape, build_lookup, b, &text, &why) < 0)
			return dockerfile_error(s, e, "%s", why.msg);
		if (read_fields(s, buf_str(&text), m, e) < 0 || complete(b, s, m, e) < 0)
			return -1;
	}
	return check_overlaps(s, ret, e);
}

void mounts_free(struct mounts *all)
{
	for (size_t i = 0; i < all->n; i++) {
		struct mount *m = &all->v[i];
		char **texts[] = {&m->target, &m->source, &m->from, &m->id, &m->env};
		for (size_t k = 0; k < ARRAY_LEN(texts); k++)
			free(*texts[k]);
		if (m->lock >= 0)
			close(m->lock);
		if (m->files.fd >= 0)
			close(m->files.fd);
	}
	*all = (struct mounts){0};
}
