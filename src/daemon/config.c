#include "daemon/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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

static bool domain_ok(const char *v)
{
	for (; *v; v++)
		if (!isalnum((unsigned char)*v) && !strchr(".-:", *v))
			return false;
	return true;
}

static int read_domain(struct config *c, struct err *e)
{
	const char *v = env_or("ATOLL_PREVIEW_DOMAIN", "localhost:8700");
	size_t n = strlen(v);
	if (n >= sizeof c->preview_domain || !domain_ok(v))
		return err_set(e, ERRC_INVALID_REQUEST,
			"ATOLL_PREVIEW_DOMAIN must be a domain with an optional port, it is '%s'", v);
	for (size_t i = 0; i <= n; i++)
		c->preview_domain[i] = (char)tolower((unsigned char)v[i]);
	return 0;
}

int config_read(struct config *ret, struct err *e)
{
	struct config c = {
		.listen = env_or("ATOLL_LISTEN", "127.0.0.1:8700"),
		.user = env_or("ATOLL_USER", "atoll"),
	};
	if (read_dir("ATOLL_DATA", "/var/lib/atoll", c.data, sizeof c.data, e) < 0 ||
		read_dir("ATOLL_RUN", "/run/atoll", c.run, sizeof c.run, e) < 0 || read_domain(&c, e) < 0)
		return -1;
	snprintf(c.state_dir, sizeof c.state_dir, "%s/daemon", c.data);
	snprintf(c.token_path, sizeof c.token_path, "%s/token", c.data);
	snprintf(c.warden_sock, sizeof c.warden_sock, "%s/warden.sock", c.run);
	snprintf(c.api_sock, sizeof c.api_sock, "%s/atoll.sock", c.run);
	snprintf(c.listen_path, sizeof c.listen_path, "%s/listen", c.run);
	*ret = c;
	return 0;
}
