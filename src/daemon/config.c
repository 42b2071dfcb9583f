#include "daemon/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "daemon/core/spec.h"
#include "daemon/limits.h"
#include "proto/image.h"
#include "proto/size.h"

static const char *env_or(const char *name, const char *otherwise)
{
	const char *v = getenv(name);
	return v && *v ? v : otherwise;
}

/* An absolute path without a slash at its end. */
static int read_dir(const char *name, const char *otherwise, char *ret, size_t cap, struct err *e)
{
	const char *v = env_or(name, otherwise);
	size_t n = strlen(v);
	while (n > 1 && v[n - 1] == '/')
		n--;
	if (v[0] != '/')
		return err_set(e, ERRC_INVALID_REQUEST, "%s must be an absolute path, it is '%s'", name, v);
	if (n >= cap)
		return err_set(e, ERRC_INVALID_REQUEST, "%s must be shorter than %zu bytes", name, cap);
	memcpy(ret, v, n);
	ret[n] = 0;
	return 0;
}

/* "preview.example.org" or "localhost:8700": labels of letters, digits and '-', a port that is a number. */
static bool domain_ok(struct str v)
{
	struct str port, host = str_split(v, ':', &port);
	uint64_t number;
	if (host.n < v.n && (!str_to_u64(port, 65535, &number) || number == 0))
		return false;
	bool letter = false, more = host.n > 0;
	while (more) {
		size_t before = host.n;
		struct str label = str_split(host, '.', &host);
		more = label.n < before;
		if (!label.n || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
			return false;
		letter = false; /* of the last label: an address has no names below it */
		for (size_t i = 0; i < label.n; i++) {
			if (!isalnum((unsigned char)label.p[i]) && label.p[i] != '-')
				return false;
			letter |= isalpha((unsigned char)label.p[i]) != 0;
		}
	}
	return letter;
}

static void set_domain(struct config *c, struct str v)
{
	struct str port;
	c->preview_host_n = str_split(v, ':', &port).n;
	for (size_t i = 0; i < v.n; i++)
		c->preview_domain[i] = (char)tolower((unsigned char)v.p[i]);
	c->preview_domain[v.n] = 0;
}

static int read_domain(struct config *c, struct err *e)
{
	const char *given = env_or("ATOLL_PREVIEW_DOMAIN", "");
	struct str v = str_of(given);
	const char *scheme = str_starts(v, STR("http://")) ? "http" : str_starts(v, STR("https://")) ? "https" : "";
	v = str_skip(v, *scheme ? strlen(scheme) + 3 : 0);
	if (*given && (v.n >= sizeof c->preview_domain || !domain_ok(v)))
		return err_set(e, ERRC_INVALID_REQUEST,
			"ATOLL_PREVIEW_DOMAIN must be a domain with an optional port, as in "
			"https://preview.example.org "
			"or localhost:8700; it is '%s'",
			given);
	snprintf(c->preview_scheme, sizeof c->preview_scheme, "%s", scheme);
	set_domain(c, v);
	return 0;
}

void config_listening(struct config *c, const char *address)
{
	char domain[32];
	const char *port = strrchr(address, ':');
	snprintf(domain, sizeof domain, "localhost%s", port ? port : ":8700");
	if (!c->preview_domain[0])
		set_domain(c, str_of(domain));
	if (!c->preview_scheme[0])
		snprintf(c->preview_scheme, sizeof c->preview_scheme,
			c->tls_cert || c->trusted_proxies.n ? "https" : "http");
}

/* Both, or none. */
static int read_tls(struct config *c, struct err *e)
{
	const char *cert = env_or("ATOLL_TLS_CERT", ""), *key = env_or("ATOLL_TLS_KEY", "");
	if (!*cert && !*key)
		return 0;
	if (cert[0] != '/' || key[0] != '/')
		return err_set(e, ERRC_INVALID_REQUEST,
			"ATOLL_TLS_CERT and ATOLL_TLS_KEY must be absolute paths of PEM files; they are '%s' and '%s'",
			cert, key);
	c->tls_cert = cert;
	c->tls_key = key;
	return 0;
}

static int read_app_timeout(struct config *c, struct err *e)
{
	const char *given = env_or("ATOLL_APP_TIMEOUT", "0");
	uint64_t seconds;
	if (!str_to_u64(str_of(given), APP_TIMEOUT_MAX, &seconds))
		return err_set(e, ERRC_INVALID_REQUEST,
			"ATOLL_APP_TIMEOUT must be a number of seconds up to %d, or 0 for none; it is '%s'",
			APP_TIMEOUT_MAX, given);
	c->app_timeout_ms = (uint32_t)seconds * 1000;
	return 0;
}

static int read_duration(const char *name, const char *otherwise, uint64_t *ret_ms, struct err *e)
{
	const char *given = env_or(name, otherwise);
	if (!api_duration(str_of(given), ret_ms))
		return err_set(e, ERRC_INVALID_REQUEST,
			"%s must be a time such as 30s, 10m or 1h, a number of seconds, or 0 for never; it is '%s'",
			name, given);
	return 0;
}

static int read_backups(struct config *c, struct err *e)
{
	const char *bytes = env_or("ATOLL_BACKUP_BYTES", "100G");
	if (!size_parse(str_of(bytes), &c->backup_bytes))
		return err_set(e, ERRC_INVALID_REQUEST,
			"ATOLL_BACKUP_BYTES must be a number of bytes, or like '100G', or 0 for any; it is '%s'",
			bytes);
	if (read_duration("ATOLL_BACKUP_TIME", "1h", &c->backup_time_ms, e) < 0 ||
		read_duration("ATOLL_BACKUP_EVERY_MIN", "1m", &c->backup_every_min_ms, e) < 0)
		return -1;
	if (c->backup_every_min_ms < BACKUP_EVERY_MIN)
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_BACKUP_EVERY_MIN must be at least a second");
	return 0;
}

/* Rules, divided by commas, as a JSON list. */
static int read_rules(const char *name, const char **ret, struct err *e)
{
	struct str rest = str_of(env_or(name, ""));
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	size_t n = 0;
	json_array_begin(&w);
	while (rest.n) {
		struct rule rule;
		struct str one = str_trim(str_split(rest, ',', &rest));
		if (!one.n)
			continue;
		if (rule_parse(one, &rule, e) < 0)
			return err_wrap(e, "%s", name);
		if (++n > NET_RULES_MAX / 2)
			return err_set(e, ERRC_INVALID_REQUEST, "%s has more than %d rules", name, NET_RULES_MAX / 2);
		json_str(&w, one);
	}
	json_array_end(&w);
	*ret = str_dup(buf_str(&out));
	return 0;
}

static int read_network(struct config *c, struct err *e)
{
	const char *mode = env_or("ATOLL_NETWORK", "open");
	if (!policy_mode_parse(str_of(mode), &c->network.mode))
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_NETWORK must be open, list or off; it is '%s'", mode);
	return read_rules("ATOLL_NETWORK_ALLOW", &c->network.allow, e) < 0 ||
			       read_rules("ATOLL_NETWORK_DENY", &c->network.deny, e) < 0
		       ? -1
		       : 0;
}

static int read_images(struct config *c, struct err *e)
{
	const char *pull = env_or("ATOLL_PULL", "never"), *image = env_or("ATOLL_IMAGE", "default");
	struct image_ref ref;
	if (strcmp(pull, "never") != 0 && strcmp(pull, "missing") != 0)
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_PULL must be never or missing; it is '%s'", pull);
	if (image_ref_parse(str_of(image), &ref, e) < 0)
		return err_wrap(e, "ATOLL_IMAGE");
	c->pull_missing = strcmp(pull, "missing") == 0;
	c->image = strcmp(image, "default") == 0 ? NULL : image;
	return 0;
}

static int read_tunnels(struct config *c, struct err *e)
{
	const char *given = env_or("ATOLL_TUNNELS", "daemon");
	c->tunnels_cloudflared = strcmp(given, "cloudflared") == 0;
	if (!c->tunnels_cloudflared && strcmp(given, "daemon") != 0)
		return err_set(
			e, ERRC_INVALID_REQUEST, "ATOLL_TUNNELS must be daemon or cloudflared; it is '%s'", given);
	return 0;
}

int config_read(struct config *ret, struct err *e)
{
	struct config c = {
		.listen = env_or("ATOLL_LISTEN", "127.0.0.1:8700"),
		.user = env_or("ATOLL_USER", "atoll"),
	};
	if (read_dir("ATOLL_DATA", "/var/lib/atoll", c.data, sizeof c.data, e) < 0 ||
		read_dir("ATOLL_RUN", "/run/atoll", c.run, sizeof c.run, e) < 0 || read_domain(&c, e) < 0 ||
		read_tls(&c, e) < 0 || read_duration("ATOLL_SLEEP_AFTER", "10m", &c.sleep_after_ms, e) < 0 ||
		read_duration("ATOLL_DOCKER_ORPHAN_AFTER", "5m", &c.docker_orphan_ms, e) < 0 ||
		read_duration("ATOLL_PAGE_OUT_AFTER", "1m", &c.page_out_after_ms, e) < 0 || read_backups(&c, e) < 0 ||
		read_app_timeout(&c, e) < 0 || read_network(&c, e) < 0 || read_images(&c, e) < 0 ||
		read_tunnels(&c, e) < 0 || host_names_read("ATOLL_HOSTS", env_or("ATOLL_HOSTS", ""), &c.hosts, e) < 0 ||
		host_nets_read("ATOLL_TRUSTED_PROXIES", env_or("ATOLL_TRUSTED_PROXIES", ""), &c.trusted_proxies, e) < 0)
		return -1;
	snprintf(c.state_dir, sizeof c.state_dir, "%s/daemon", c.data);
	snprintf(c.token_path, sizeof c.token_path, "%s/token", c.data);
	snprintf(c.warden_sock, sizeof c.warden_sock, "%s/warden.sock", c.run);
	snprintf(c.api_sock, sizeof c.api_sock, "%s/atoll.sock", c.run);
	snprintf(c.own_sock, sizeof c.own_sock, "%s/own.sock", c.run);
	snprintf(c.listen_path, sizeof c.listen_path, "%s/listen", c.run);
	*ret = c;
	return 0;
}
