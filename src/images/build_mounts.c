/*
 * RUN --mount. A cache or tmpfs mount is a directory of the box that begins as the image has it; what the command adds
 * there is removed before the layer is taken (src/mover/run.c). Nothing is kept for the next build: its commands come
 * from whoever builds, and must not find what another has left.
 */
#include <stdio.h>
#include <string.h>

#include "images/build_impl.h"

struct mount {
	char *target;
	uint64_t uid, gid, mode;
	bool known;
};

static int read_field(struct mount *m, struct str key, struct str value)
{
	static const char *const ignored[] = {"id", "sharing", "ro", "readonly", "rw", "readwrite", "size"};
	auto_free char *text = str_dup(value);
	if (str_eq_c(key, "type")) {
		m->known = str_eq_c(value, "cache") || str_eq_c(value, "tmpfs");
	} else if (str_eq_c(key, "target") || str_eq_c(key, "dst") || str_eq_c(key, "destination")) {
		free(m->target);
		m->target = take_ptr(&text);
	} else if (str_eq_c(key, "uid") || str_eq_c(key, "gid")) {
		return str_to_u64(value, SERVICE_ID_MAX, str_eq_c(key, "uid") ? &m->uid : &m->gid) ? 0 : -1;
	} else if (str_eq_c(key, "mode")) {
		char *end;
		m->mode = strtoull(text, &end, 8);
		return *text && !*end && m->mode <= 07777 ? 0 : -1;
	} else {
		for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
			if (str_eq_c(key, ignored[i]))
				return 0;
		return -1;
	}
	return 0;
}

static int read_mount(const struct df_step *s, struct str text, struct mount *m, struct err *e)
{
	struct str rest = text;
	while (rest.n) {
		struct str value, field = str_split(rest, ',', &rest), key = str_split(field, '=', &value);
		if (read_field(m, key, value) < 0)
			return dockerfile_error(
				s, e, "RUN --mount does not know '%.*s'", (int)(field.n < 60 ? field.n : 60), field.p);
	}
	if (!m->known)
		return dockerfile_error(s, e, "RUN --mount=%.*s is not supported; cache and tmpfs mounts are",
			(int)(text.n < 80 ? text.n : 80), text.p);
	return m->target && *m->target ? 0 : dockerfile_error(s, e, "RUN --mount needs a target");
}

int build_mounts(struct build *b, const struct df_step *s, struct words *ret, struct err *e)
{
	const char *workdir = build_config(b)->workdir;
	for (size_t i = 0; i < s->flags.n; i++) {
		const char *f = s->flags.v[i];
		if (strncmp(f, "--mount=", 8) != 0) {
			if (strncmp(f, "--network=", 10) != 0 && strncmp(f, "--security=", 11) != 0)
				return dockerfile_error(s, e, "RUN does not know the flag '%.60s'", f);
			continue;
		}
		auto_buf struct buf text = {0}, word = {0};
		struct mount m = {.mode = 0755};
		struct err why;
		if (dockerfile_expand(str_of(f + 8), b->file.escape, build_lookup, b, &text, &why) < 0)
			return dockerfile_error(s, e, "%s", why.msg);
		int r = read_mount(s, buf_str(&text), &m, e);
		if (r == 0 && m.target) {
			bool whole = m.target[0] == '/';
			buf_printf(&word, "%llu:%llu:%llo:%s%s%s", (unsigned long long)m.uid, (unsigned long long)m.gid,
				(unsigned long long)m.mode,
				whole	  ? ""
				: workdir ? workdir
					  : "",
				whole ? "" : "/", m.target);
			words_add(ret, STR("--volatile"));
			words_add(ret, buf_str(&word));
		}
		free(m.target);
		if (r < 0)
			return -1;
	}
	return 0;
}
