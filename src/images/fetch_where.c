/*
 * Where an image may lie. docker.io has another name than its host; registries.conf (the format of skopeo and podman)
 * may name mirrors and other places for names that begin alike.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/fd.h"
#include "images/fetch.h"

bool place_is_local(struct str host)
{
	struct in_addr at;
	struct str port;
	if (str_starts(host, STR("[::1]")))
		return host.n == 5 || host.p[5] == ':';
	auto_free char *name = str_dup(str_split(host, ':', &port));
	/* An address in full: 127.example.com is a name like any other. */
	return strcmp(name, "localhost") == 0 ||
	       (inet_pton(AF_INET, name, &at) == 1 && ntohl(at.s_addr) >> 24 == IN_LOOPBACKNET);
}

/* ---- references ---- */

/* "alpine" is docker.io/library/alpine. */
static void full_name(struct str name, struct buf *ret)
{
	struct str rest, host = str_split(name, '/', &rest);
	bool named = rest.n && (str_index(host, '.') >= 0 || str_index(host, ':') >= 0 || str_eq_c(host, "localhost"));
	if (!named)
		buf_add_c(ret, rest.n ? "docker.io/" : "docker.io/library/");
	else if (str_eq_c(host, "docker.io") && str_index(rest, '/') < 0)
		return (void)buf_printf(ret, "docker.io/library/%.*s", STR_ARG(rest));
	buf_add_str(ret, name);
}

/* The name without its tag or digest, which go to *version. */
static struct str split_version(struct str ref, char version[IMAGE_REF_MAX + 1])
{
	ssize_t at = str_index(ref, '@');
	struct str name = at < 0 ? ref : str_n(ref.p, (size_t)at);
	size_t colon = name.n;
	while (colon > 0 && name.p[colon - 1] != ':' && name.p[colon - 1] != '/')
		colon--;
	bool tagged = colon > 0 && name.p[colon - 1] == ':';
	struct str tag = tagged ? str_skip(name, colon) : STR("latest");
	if (at >= 0)
		tag = str_skip(ref, (size_t)at + 1);
	snprintf(version, IMAGE_REF_MAX + 1, "%.*s", STR_ARG(tag));
	/* A digest may be written with '-', which a registry would take for a tag, and nobody would check it. */
	if (at >= 0 && str_starts(tag, STR("sha256-")))
		version[6] = ':';
	return tagged ? str_n(name.p, colon - 1) : name;
}

/* ---- registries.conf ---- */

struct entry {
	struct str prefix, location;
	bool insecure, blocked;
	struct {
		struct str location;
		bool insecure;
	} mirrors[SERVICE_MIRRORS_MAX];
	size_t mirrors_n;
};

/* The part of `name` behind the prefix; .p is NULL when it does not begin so. "*.example.com" is any host there. */
static struct str behind(struct str name, struct str prefix)
{
	if (str_starts(prefix, STR("*."))) {
		struct str rest, host = str_split(name, '/', &rest);
		if (!str_ends(host, str_skip(prefix, 1)))
			return STR_NULL;
		return str_skip(name, host.n);
	}
	if (!prefix.n || !str_starts(name, prefix))
		return STR_NULL;
	struct str rest = str_skip(name, prefix.n);
	return !rest.n || rest.p[0] == '/' || rest.p[0] == ':' ? rest : STR_NULL;
}

/* A value without its quotes, and without a comment behind it. */
static struct str unquote(struct str s)
{
	struct str rest;
	if (s.n && (s.p[0] == '"' || s.p[0] == '\''))
		return str_split(str_skip(s, 1), s.p[0], &rest);
	return str_trim(str_split(s, '#', &rest));
}

static void read_line(struct entry *at, bool mirror, struct str key, struct str value)
{
	bool yes = str_starts(value, STR("true"));
	struct str text = unquote(value);
	if (mirror && at->mirrors_n) {
		if (str_eq_c(key, "location"))
			at->mirrors[at->mirrors_n - 1].location = text;
		else if (str_eq_c(key, "insecure"))
			at->mirrors[at->mirrors_n - 1].insecure = yes;
		return;
	}
	if (str_eq_c(key, "prefix"))
		at->prefix = text;
	else if (str_eq_c(key, "location"))
		at->location = text;
	else if (str_eq_c(key, "insecure"))
		at->insecure = yes;
	else if (str_eq_c(key, "blocked"))
		at->blocked = yes;
}

static void keep_longest(struct entry *best, struct entry *e, struct str name)
{
	if (!e->prefix.n)
		e->prefix = e->location;
	if (behind(name, e->prefix).p && e->prefix.n >= best->prefix.n)
		*best = *e;
}

/* Tables [[registry]] and [[registry.mirror]], one "key = value" a line; anything else does not count. */
static struct entry find_entry(struct str conf, struct str name)
{
	struct entry best = {0}, e = {0};
	bool in_registry = false, in_mirror = false;
	while (conf.n) {
		struct str value, line = str_trim(str_split(conf, '\n', &conf));
		if (!line.n || line.p[0] == '#')
			continue;
		if (line.p[0] == '[') {
			in_mirror = str_starts(line, STR("[[registry.mirror]]"));
			if (in_mirror && e.mirrors_n < SERVICE_MIRRORS_MAX)
				e.mirrors_n++;
			if (in_mirror)
				continue;
			if (in_registry)
				keep_longest(&best, &e, name);
			in_registry = str_starts(line, STR("[[registry]]"));
			e = (struct entry){0};
			continue;
		}
		struct str key = str_trim(str_split(line, '=', &value));
		if (in_registry)
			read_line(&e, in_mirror, key, str_trim(value));
	}
	if (in_registry)
		keep_longest(&best, &e, name);
	return best;
}

void places_conf(struct buf *ret)
{
	const char *given = getenv("ATOLL_REGISTRY_CONF");
	glob_t more = {0};
	if (given && *given) {
		fd_read_file(AT_FDCWD, given, SERVICE_CONF_MAX, ret);
		return;
	}
	fd_read_file(AT_FDCWD, "/etc/containers/registries.conf", SERVICE_CONF_MAX, ret);
	if (glob("/etc/containers/registries.conf.d/*.conf", 0, NULL, &more) == 0)
		for (size_t i = 0; i < more.gl_pathc; i++) {
			buf_add_byte(ret, '\n');
			fd_read_file(AT_FDCWD, more.gl_pathv[i], SERVICE_CONF_MAX, ret);
		}
	globfree(&more);
}

/* ---- places ---- */

static int add_place(struct places *to, struct str location, struct str rest, bool insecure, struct err *e)
{
	auto_buf struct buf whole = {0};
	struct place *p = &to->v[to->n];
	struct str repo;
	buf_add_str(&whole, location);
	buf_add_str(&whole, rest);
	struct str host = str_split(buf_str(&whole), '/', &repo);
	if (!host.n || host.n > SERVICE_HOST_MAX || !repo.n || repo.n > IMAGE_REF_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "'%.*s' is no place of an image",
			(int)(host.n < 80 ? host.n : 80), host.p);
	for (size_t i = 0; i < host.n; i++)
		if (strchr("@?#\\%\"'<> ", host.p[i]) || (unsigned char)host.p[i] <= ' ')
			return err_set(
				e, ERRC_VALIDATION_FAILED, "a registry's name has letters, digits, '.', '-' and ':'");
	bool docker = str_eq_c(host, "docker.io") || str_eq_c(host, "index.docker.io");
	snprintf(p->host, sizeof p->host, "%.*s", STR_ARG(docker ? STR("registry-1.docker.io") : host));
	snprintf(p->repo, sizeof p->repo, "%.*s", STR_ARG(repo));
	p->insecure = insecure || place_is_local(host);
	to->n++;
	return 0;
}

int places_find(struct str ref, struct str conf, struct places *ret, struct err *e)
{
	auto_buf struct buf name = {0};
	*ret = (struct places){0};
	full_name(split_version(ref, ret->version), &name);
	struct entry found = find_entry(conf, buf_str(&name));
	struct str rest = found.prefix.n ? behind(buf_str(&name), found.prefix) : STR_NULL;
	if (found.blocked)
		return err_set(e, ERRC_FORBIDDEN, "%.*s: registries.conf blocks this registry", STR_ARG(ref));
	for (size_t i = 0; i < found.mirrors_n; i++)
		if (add_place(ret, found.mirrors[i].location, rest, found.mirrors[i].insecure, e) < 0)
			return -1;
	if (found.location.n)
		return add_place(ret, found.location, rest, found.insecure, e);
	return add_place(ret, buf_str(&name), STR(""), found.insecure, e);
}

/* ---- credentials ---- */

static bool key_fits(struct str key, const struct place *p)
{
	auto_buf struct buf whole = {0};
	if (str_starts(key, STR("https://")))
		key = str_skip(key, 8);
	else if (str_starts(key, STR("http://")))
		key = str_skip(key, 7);
	while (key.n && key.p[key.n - 1] == '/')
		key.n--;
	if (strcmp(p->host, "registry-1.docker.io") == 0 &&
		(str_eq_c(key, "index.docker.io/v1") || str_eq_c(key, "index.docker.io") || str_eq_c(key, "docker.io")))
		return true;
	buf_printf(&whole, "%s/%s", p->host, p->repo);
	/* Another port of the host is another server. */
	return str_starts(behind(buf_str(&whole), key), STR("/"));
}

static bool read_entry(const struct json *entry, struct buf *ret, struct buf *ret_token)
{
	struct base64_decoder d = {0};
	struct str auth = STR_NULL, user = STR_NULL, password = STR_NULL, token = STR_NULL;
	if (json_read_str(entry, "auth", &auth, NULL) < 0 || json_read_str(entry, "username", &user, NULL) < 0 ||
		json_read_str(entry, "password", &password, NULL) < 0 ||
		json_read_str(entry, "identitytoken", &token, NULL) < 0)
		return false;
	if (token.n)
		buf_add_str(ret_token, token);
	if (auth.n)
		return base64_decode(&d, auth, ret) && base64_finish(&d) && str_index(buf_str(ret), ':') >= 0;
	if (user.n)
		buf_printf(ret, "%.*s:%.*s", STR_ARG(user), STR_ARG(password));
	return user.n || token.n;
}

bool place_credentials(const struct json *config, const struct place *p, struct buf *ret, struct buf *ret_token)
{
	const struct json *best = NULL;
	json_each(it, json_get(config, "auths")) if (key_fits(it->key, p) && (!best || it->key.n > best->key.n)) best =
		it;
	return best && read_entry(best, ret, ret_token);
}
