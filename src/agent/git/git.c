#include "agent/git/git.h"

#include "agent/limits.h"
#include "base/base64.h"
#include "http/http.h"

static const char *const schemes[] = {"https://", "http://", "git://", "ssh://", "file://"};

void git_url_free(struct git_url *u)
{
	free(u->clean);
	free(u->shown);
	free(u->origin);
	free(u->user);
	free(u->password);
	free(u->userinfo);
	free(u->query);
	free(u->name);
	*u = (struct git_url){0};
}

static bool printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f)
			return false;
	return true;
}

/* "repo" of ".../repo.git/" */
static char *repo_name(struct str path)
{
	struct str rest;
	path = str_split(str_split(path, '?', &rest), '#', &rest);
	while (path.n && path.p[path.n - 1] == '/')
		path.n--;
	if (str_ends(path, STR(".git")))
		path.n -= 4;
	const char *cut = path.n ? memrchr(path.p, '/', path.n) : NULL;
	const char *colon = path.n ? memrchr(path.p, ':', path.n) : NULL;
	if (colon && (!cut || colon > cut))
		cut = colon;
	struct str name = cut ? str_skip(path, (size_t)(cut - path.p) + 1) : path;
	bool odd = !name.n || str_eq_c(name, ".") || str_eq_c(name, "..") || name.p[0] == '-';
	return odd ? xstrdup("repository") : str_dup(name);
}

static size_t scheme_length(struct str text)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (str_starts(text, str_of(schemes[i])))
			return strlen(schemes[i]);
	return 0;
}

static int refuse(struct err *e, const char *why)
{
	return err_set(e, ERRC_INVALID_GIT_URL, "repoUrl %s", why);
}

/* NULL when the text has characters that the credential protocol cannot carry: it is one line per value. */
static char *decode(struct str s)
{
	auto_buf struct buf out = {0};
	struct err e;
	if (http_percent_decode(s, &out, &e) < 0)
		return NULL;
	for (size_t i = 0; i < buf_size(&out); i++)
		if ((unsigned char)buf_str(&out).p[i] < ' ')
			return NULL;
	return str_dup(buf_str(&out));
}

/* The URL for answers. A query is hidden: it may be a secret too. */
static char *show(struct str scheme, bool secret, struct str host_and_path)
{
	ssize_t query = str_index(host_and_path, '?');
	struct str plain = query < 0 ? host_and_path : str_n(host_and_path.p, (size_t)query);
	return xasprintf(
		"%.*s%s%.*s%s", STR_ARG(scheme), secret ? "******@" : "", STR_ARG(plain), query < 0 ? "" : "?******");
}

/* "host", "host:80", "[::1]:80". Any other text after the ':' may be the first half of a password with a '/' in it,
 * which must not become a host name and so appear in messages. */
static bool port_is_number(struct str host)
{
	const char *colon = host.n ? memrchr(host.p, ':', host.n) : NULL;
	struct str port = colon ? str_skip(host, (size_t)(colon - host.p) + 1) : STR_NULL;
	uint64_t n;
	return !port.n || host.p[host.n - 1] == ']' || str_to_u64(port, UINT16_MAX, &n);
}

static int split_url(struct str text, size_t scheme_n, struct git_url *ret, struct err *e)
{
	struct str scheme = str_n(text.p, scheme_n), rest = str_skip(text, scheme_n), password, path;
	struct str authority = str_split(rest, '/', &path);
	const char *at = authority.n ? memrchr(authority.p, '@', authority.n) : NULL;
	struct str userinfo = at ? str_n(authority.p, (size_t)(at - authority.p)) : STR_NULL;
	struct str tail = at ? str_skip(rest, userinfo.n + 1) : rest;
	struct str host = at ? str_skip(authority, userinfo.n + 1) : authority;
	struct str user = str_split(userinfo, ':', &password);
	bool http = str_starts(scheme, STR("http"));
	if (!host.n && (!path.n || !str_starts(scheme, STR("file"))))
		return refuse(e, "names no host");
	if (!port_is_number(host))
		return refuse(e, "has a port that is no number; '/' in a password is written as %2F");
	ssize_t query = str_index(rest, '?');
	ret->query = query < 0 ? NULL : str_dup(str_skip(rest, (size_t)query + 1));
	ret->userinfo = password.n ? str_dup(userinfo) : NULL;
	ret->name = repo_name(path);
	/* The user of an ssh address is part of it and not secret. git cannot use a password there. */
	bool keep_user = str_starts(scheme, STR("ssh")) && user.n;
	bool secret = at && !(keep_user && user.n == userinfo.n);
	ret->clean = keep_user ? xasprintf("%.*s%.*s@%.*s", STR_ARG(scheme), STR_ARG(user), STR_ARG(tail))
			       : xasprintf("%.*s%.*s", STR_ARG(scheme), STR_ARG(tail));
	ret->shown = secret ? show(scheme, true, tail) : show(scheme, false, rest);
	if (!http || !userinfo.n)
		return 0;
	ret->user = decode(user);
	ret->password = decode(password);
	ret->origin = xasprintf("%.*s%.*s", STR_ARG(scheme), STR_ARG(host));
	return ret->user && ret->password ? 0 : refuse(e, "has credentials that are not percent-encoded correctly");
}

/* "git@host:path". */
static int check_scp_like(struct str text, struct err *e)
{
	struct str path, host = str_split(text, ':', &path);
	bool remote_helper = path.n && path.p[0] == ':'; /* "ext::…" would run a command */
	if (!host.n || !path.n || remote_helper || str_index(host, '/') >= 0 || memmem(text.p, text.n, "://", 3))
		return refuse(e, "must be an http, https, git, ssh or file URL, or host:path");
	/* git does not know "user:password@host:path", and the password must not reach its argument list. */
	ssize_t at = str_index(path, '@'), colon = str_index(path, ':'), slash = str_index(path, '/');
	if (at >= 0 && ((colon >= 0 && colon < at) || slash < 0 || at < slash))
		return refuse(e, "has a password, which host:path cannot have");
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (str_eq_nocase(host, str_n(schemes[i], strlen(schemes[i]) - 3)))
			return refuse(e, "has a scheme without '//'");
	return 0;
}

int git_url_parse(struct str text, struct git_url *ret, struct err *e)
{
	struct git_url u = {0};
	size_t scheme = scheme_length(text);
	if (!text.n || text.n > GIT_URL_MAX || text.p[0] == '-' || !printable(text))
		return refuse(e, "must be an http, https, git, ssh or file URL, or host:path, without blanks");
	if (scheme ? split_url(text, scheme, &u, e) < 0 : check_scp_like(text, e) < 0) {
		git_url_free(&u);
		return -1;
	}
	if (!scheme) {
		u.clean = str_dup(text);
		u.shown = str_dup(text);
		u.name = repo_name(text);
	}
	*ret = u;
	return 0;
}

static void replace_all(struct buf *text, struct str secret)
{
	enum { SHORTEST = 3 }; /* shorter secrets would match everywhere */
	auto_buf struct buf out = {0};
	struct str s = buf_str(text);
	const char *hit;
	if (secret.n < SHORTEST || !s.n || !memmem(s.p, s.n, secret.p, secret.n))
		return;
	while (s.n && (hit = memmem(s.p, s.n, secret.p, secret.n))) {
		buf_add(&out, s.p, (size_t)(hit - s.p));
		buf_add_c(&out, "******");
		s = str_skip(s, (size_t)(hit - s.p) + secret.n);
	}
	buf_add_str(&out, s);
	buf_clear(text);
	buf_add_str(text, buf_str(&out));
}

static void redact_header(const struct git_url *u, struct buf *text)
{
	auto_free char *both = xasprintf("%s:%s", u->user, u->password);
	auto_buf struct buf encoded = {0};
	base64_append(&encoded, str_of(both));
	replace_all(text, buf_str(&encoded));
}

void git_redact(const struct git_url *u, struct buf *text)
{
	enum { LIKE_A_TOKEN = 16 };
	if (u->query)
		replace_all(text, str_of(u->query));
	if (u->userinfo)
		replace_all(text, str_of(u->userinfo));
	if (!u->user)
		return;
	redact_header(u, text);
	replace_all(text, str_of(u->password));
	/* A token is often given as the user, without a password or with a dummy password. */
	if (!*u->password || strlen(u->user) >= LIKE_A_TOKEN)
		replace_all(text, str_of(u->user));
}

enum errc git_error_code(struct str said)
{
	static const struct {
		const char *words;
		enum errc code;
	} known[] = {
		{"No space left on device", ERRC_NO_SPACE},
		{"quota exceeded", ERRC_NO_SPACE},
		{"Remote branch", ERRC_GIT_BRANCH_NOT_FOUND},
		{"Authentication failed", ERRC_GIT_AUTH_FAILED},
		/* The server asked for credentials and none were given: upstream does not call it an authentication
		   error. */
		{"could not read Username", ERRC_GIT_CLONE_FAILED},
		{"could not read Password", ERRC_GIT_CLONE_FAILED},
		{"Permission denied (publickey", ERRC_GIT_AUTH_FAILED},
		{"returned error: 401", ERRC_GIT_AUTH_FAILED},
		{"returned error: 403", ERRC_GIT_AUTH_FAILED},
		{"epository not found", ERRC_GIT_REPOSITORY_NOT_FOUND},
		{"repository not exported", ERRC_GIT_REPOSITORY_NOT_FOUND},
		{"does not appear to be a git repository", ERRC_GIT_REPOSITORY_NOT_FOUND},
		{"' not found", ERRC_GIT_REPOSITORY_NOT_FOUND},
		{"' does not exist", ERRC_GIT_REPOSITORY_NOT_FOUND},
		{"ould not resolve host", ERRC_GIT_NETWORK_ERROR},
		{"unable to look up", ERRC_GIT_NETWORK_ERROR},
		{"Connection refused", ERRC_GIT_NETWORK_ERROR},
		{"Connection timed out", ERRC_GIT_NETWORK_ERROR},
		{"Connection reset", ERRC_GIT_NETWORK_ERROR},
		{"Failed to connect", ERRC_GIT_NETWORK_ERROR},
		{"unable to connect", ERRC_GIT_NETWORK_ERROR},
		{"Network is unreachable", ERRC_GIT_NETWORK_ERROR},
		{"already exists and is not an empty directory", ERRC_GIT_CLONE_FAILED},
		{"could not create leading directories", ERRC_GIT_CLONE_FAILED},
		{"could not create work tree dir", ERRC_GIT_CLONE_FAILED},
		{"Clone succeeded, but checkout failed", ERRC_GIT_CHECKOUT_FAILED},
		{"unable to checkout working tree", ERRC_GIT_CHECKOUT_FAILED},
		{"early EOF", ERRC_GIT_NETWORK_ERROR},
		{"Operation too slow", ERRC_GIT_NETWORK_ERROR},
		{"The remote end hung up", ERRC_GIT_NETWORK_ERROR},
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (said.n && memmem(said.p, said.n, known[i].words, strlen(known[i].words)))
			return known[i].code;
	return ERRC_GIT_OPERATION_FAILED;
}
