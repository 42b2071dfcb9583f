#include "agent/git.h"

#include <ctype.h>

#include "base/buf.h"
#include "http/http.h"

static const char *const schemes[] = {"https://", "http://", "git://", "ssh://", "file://"};

void git_url_free(struct git_url *u)
{
	free(u->clean);
	free(u->shown);
	free(u->user);
	free(u->password);
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

static char *decode(struct str s)
{
	auto_buf struct buf out = {0};
	struct err e;
	return http_percent_decode(s, &out, &e) < 0 ? str_dup(s) : str_dup(buf_str(&out));
}

/* "repo" of ".../repo.git/" */
static char *repo_name(struct str path)
{
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

static void take_credentials(struct str text, size_t scheme, struct git_url *ret)
{
	struct str rest = str_skip(text, scheme), path;
	struct str authority = str_split(rest, '/', &path);
	const char *at = authority.n ? memrchr(authority.p, '@', authority.n) : NULL;
	/* In ssh the user is part of the address and no secret; a password there is not one that git can use. */
	bool secret = at && !str_starts(text, STR("ssh://")) && !str_starts(text, STR("file://"));
	if (!secret) {
		ret->clean = str_dup(text);
		ret->shown = str_dup(text);
		return;
	}
	struct str password, user = str_split(str_n(authority.p, (size_t)(at - authority.p)), ':', &password);
	struct str host = str_skip(rest, (size_t)(at - rest.p) + 1);
	ret->user = decode(user);
	ret->password = decode(password);
	ret->clean = xasprintf("%.*s%.*s", (int)scheme, text.p, STR_ARG(host));
	ret->shown = xasprintf("%.*s******@%.*s", (int)scheme, text.p, STR_ARG(host));
}

int git_url_parse(struct str text, struct git_url *ret, struct err *e)
{
	size_t scheme = scheme_length(text);
	ssize_t colon = str_index(text, ':'), slash = str_index(text, '/');
	bool scp_like = !scheme && colon > 0 && (slash < 0 || colon < slash) && !memmem(text.p, text.n, "://", 3);
	if (!text.n || text.n > 2048 || text.p[0] == '-' || !printable(text) || (!scheme && !scp_like))
		return err_set(e, ERRC_INVALID_GIT_URL,
			"repoUrl must be an http, https, git, ssh or file URL, or host:path, without blanks");
	if (scheme && text.n == scheme)
		return err_set(e, ERRC_INVALID_GIT_URL, "repoUrl names no host");
	*ret = (struct git_url){.name = repo_name(text)};
	if (scheme) {
		take_credentials(text, scheme, ret);
	} else {
		ret->clean = str_dup(text);
		ret->shown = str_dup(text);
	}
	return 0;
}

enum errc git_error_code(struct str said)
{
	static const struct {
		const char *words;
		enum errc code;
	} known[] = {
		{"No space left on device", ERRC_NO_SPACE},
		{"Remote branch", ERRC_GIT_BRANCH_NOT_FOUND},
		{"Authentication failed", ERRC_GIT_AUTH_FAILED},
		{"could not read Username", ERRC_GIT_AUTH_FAILED},
		{"could not read Password", ERRC_GIT_AUTH_FAILED},
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
		{"early EOF", ERRC_GIT_NETWORK_ERROR},
		{"Operation too slow", ERRC_GIT_NETWORK_ERROR},
		{"The remote end hung up", ERRC_GIT_NETWORK_ERROR},
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (said.n && memmem(said.p, said.n, known[i].words, strlen(known[i].words)))
			return known[i].code;
	return ERRC_GIT_CLONE_FAILED;
}
