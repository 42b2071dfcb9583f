/*
 * One request to a registry. A 401 names where a token is to be had (Bearer), or asks for credentials (Basic). Blobs
 * may be redirected to another host; curl does not send `Authorization` there.
 */
#include <ctype.h>
#include <fcntl.h>
#include <glob.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base64.h"
#include "base/fd.h"
#include "images/fetch.h"
#include "proto/ip.h"

#define BEARER "Bearer "

/* ---- certificates ---- */

static void add_file(struct session *s, const char *path)
{
	fd_read_file(AT_FDCWD, path, SERVICE_CERTS_MAX, &s->authorities);
	buf_add_byte(&s->authorities, '\n');
}

static bool add_directory(struct session *s, const char *directory)
{
	char pattern[4200];
	glob_t found = {0};
	snprintf(pattern, sizeof pattern, "%s/*.crt", directory);
	bool any = glob(pattern, 0, NULL, &found) == 0;
	for (size_t i = 0; any && i < found.gl_pathc; i++)
		add_file(s, found.gl_pathv[i]);
	globfree(&found);
	return any;
}

static void find_proxies(struct session *s);

/* Certificates of authorities beside the system's: of the setting, or where docker and podman look. */
void session_open(struct session *s)
{
	static const char *const usual[] = {"/etc/containers/certs.d", "/etc/docker/certs.d"};
	const char *given = getenv("ATOLL_REGISTRY_CERTS"), *system = curl_version_info(CURLVERSION_NOW)->cainfo;
	bool any = given && *given && add_directory(s, given);
	for (size_t i = 0; i < ARRAY_LEN(usual) && !any; i++) {
		char path[SERVICE_HOST_MAX + 64];
		snprintf(path, sizeof path, "%s/%s", usual[i], s->place->host);
		any = add_directory(s, path);
	}
	if (any && system)
		add_file(s, system);
	if (!any)
		buf_clear(&s->authorities);
	find_proxies(s);
}

void session_close(struct session *s)
{
	free(s->header);
	s->header = NULL;
	buf_free(&s->authorities);
}

/* ---- the answer ---- */

static bool header_is(struct str line, const char *name, struct str *ret)
{
	struct str value, key = str_split(line, ':', &value);
	if (!str_eq_nocase(key, str_of(name)))
		return false;
	*ret = str_trim(value);
	while (ret->n && (ret->p[ret->n - 1] == '\r' || ret->p[ret->n - 1] == '\n'))
		ret->n--;
	return true;
}

size_t answer_header(char *p, size_t size, size_t n, void *arg)
{
	struct answer *a = arg;
	struct str line = str_n(p, size * n), value, rest;
	if (str_starts(line, STR("HTTP/"))) { /* of the next answer, behind a redirect */
		*a->digest = *a->challenge = 0;
		a->from = UINT64_MAX;
	}
	if (header_is(line, "docker-content-digest", &value) && value.n < sizeof a->digest)
		snprintf(a->digest, sizeof a->digest, "%.*s", STR_ARG(value));
	if (header_is(line, "www-authenticate", &value) && value.n < sizeof a->challenge && !*a->challenge)
		snprintf(a->challenge, sizeof a->challenge, "%.*s", STR_ARG(value));
	if (header_is(line, "content-range", &value) && str_starts(value, STR("bytes ")) &&
		!str_to_u64(str_split(str_skip(value, 6), '-', &rest), INT64_MAX, &a->from))
		a->from = UINT64_MAX;
	return line.n;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct answer *a = arg;
	return buf_add(&a->body, p, size * n) ? size * n : 0;
}

/* ---- why it failed ---- */

int session_explain(const struct session *s, CURLcode code, struct err *e)
{
	switch ((int)code) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_CERTPROBLEM:
		return err_set(e, ERRC_BAD_GATEWAY,
			"%s: the registry's certificate is not trusted; ATOLL_REGISTRY_CERTS can name a directory with "
			"that of its authority (*.crt)",
			s->ref);
	case CURLE_SSL_CONNECT_ERROR:
		return err_set(e, ERRC_BAD_GATEWAY,
			"%s: the registry speaks no TLS; plain HTTP is for localhost, and where registries.conf says "
			"insecure",
			s->ref);
	case CURLE_WRITE_ERROR:
		return err_set(e, ERRC_VALIDATION_FAILED, "%s: the registry sent more than an answer may have", s->ref);
	case CURLE_TOO_MANY_REDIRECTS:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
		return err_set(e, ERRC_BAD_GATEWAY,
			"%s: the registry redirects to where nothing may be fetched: to this machine, a private "
			"network, or by "
			"another protocol",
			s->ref);
	default:
		return err_set(e, ERRC_BAD_GATEWAY,
			"%s: the registry cannot be reached at %s://%s (%s). Check its name and this host's network; "
			"registries.conf sets mirrors and plain HTTP (insecure)",
			s->ref, s->plain ? "http" : "https", s->place->host, curl_easy_strerror(code));
	}
}

int session_refused(const struct session *s, const struct answer *a, struct err *e)
{
	if (a->status == 401 && !s->tried)
		return err_set(e, ERRC_FORBIDDEN, "%s: the registry wants credentials", s->ref);
	if (a->status == 401 || a->status == 403)
		return err_set(e, ERRC_FORBIDDEN, "%s: the registry refuses the credentials", s->ref);
	if (a->status == 404)
		return err_set(e, ERRC_IMAGE_NOT_FOUND, "%s: the registry has no such image", s->ref);
	if (a->status == 429)
		return err_set(e, ERRC_BAD_GATEWAY, "%s: the registry limits requests; try again later", s->ref);
	return err_set(e, ERRC_BAD_GATEWAY, "%s: the registry answers with status %ld", s->ref, a->status);
}

/* ---- a request ---- */

static bool is_redirected(CURL *curl)
{
	long n = 0;
	return curl_easy_getinfo(curl, CURLINFO_REDIRECT_COUNT, &n) == CURLE_OK && n > 0;
}

/* Where proxies are that the environment names: connections to them are none to what a registry names, and they decide
 * what they connect to. Which requests go through one is curl's to say (no_proxy, the scheme of a redirect), so addresses
 * are compared instead. */
static void add_proxy(struct session *s, const char *url)
{
	char *host = NULL, *port = NULL, *scheme = NULL;
	struct addrinfo *found = NULL;
	CURLU *parts = curl_url();
	INVARIANT(parts);
	bool ok = curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME) == CURLUE_OK &&
		  curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
		  curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK;
	if (ok && curl_url_get(parts, CURLUPART_PORT, &port, 0) != CURLUE_OK)
		port = NULL;
	if (ok) {
		struct str name = str_of(host);
		bool quoted = name.n > 2 && name.p[0] == '['; /* of IPv6 */
		auto_free char *plain = str_dup(quoted ? str_n(name.p + 1, name.n - 2) : name);
		const char *usual = strcmp(scheme, "https") == 0 ? "443" : "1080"; /* as curl has it */
		const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
		if (getaddrinfo(plain, port ? port : usual, &wanted, &found) != 0)
			found = NULL;
	}
	for (struct addrinfo *it = found; it && s->proxies_n < SERVICE_PROXIES_MAX; it = it->ai_next) {
		union ip_sockaddr at = {0};
		if (it->ai_addrlen > sizeof at)
			continue;
		memcpy(&at, it->ai_addr, it->ai_addrlen);
		s->proxies_n += ip_from_sockaddr(&at, &s->proxies[s->proxies_n].ip, &s->proxies[s->proxies_n].port);
	}
	if (found)
		freeaddrinfo(found);
	curl_free(host);
	curl_free(port);
	curl_free(scheme);
	curl_url_cleanup(parts);
}

static void find_proxies(struct session *s)
{
	static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = getenv(names[i]);
		if (value && *value)
			add_proxy(s, value);
	}
}

/* An address of this machine or the networks around it, and of no proxy. */
static bool is_near(const struct session *s, const struct ip *ip, uint16_t port)
{
	for (size_t i = 0; i < s->proxies_n; i++)
		if (s->proxies[i].port == port && ip_eq(&s->proxies[i].ip, ip))
			return false;
	return ip_kind(ip) != IP_PUBLIC;
}

/* A reference may name any registry, also one of this machine. Where a registry sends us is its own choice: never into
 * the host or the networks around it, which it could not reach by itself. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct answer *a = arg;
	union ip_sockaddr at = {0};
	struct ip ip;
	uint16_t port;
	(void)purpose;
	bool fits = to->addrlen <= sizeof at;
	if (fits)
		memcpy(&at, &to->addr, to->addrlen);
	bool known = fits && ip_from_sockaddr(&at, &ip, &port);
	a->refused = (a->sent || is_redirected(a->curl)) && (!known || is_near(a->session, &ip, port));
	if (a->refused)
		return CURL_SOCKET_BAD;
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

CURLcode session_result(struct answer *a, CURLcode code)
{
	const char *text = NULL;
	struct ip ip;
	long port = 0;
	a->near = curl_easy_getinfo(a->curl, CURLINFO_PRIMARY_IP, &text) == CURLE_OK && text &&
		  curl_easy_getinfo(a->curl, CURLINFO_PRIMARY_PORT, &port) == CURLE_OK && ip_parse(str_of(text), &ip) &&
		  is_near(a->session, &ip, (uint16_t)port);
	return code == CURLE_COULDNT_CONNECT && a->refused ? CURLE_UNSUPPORTED_PROTOCOL : code;
}

static void set_common(const struct session *s, CURL *curl, struct answer *a)
{
	const char *allowed = s->place->insecure ? "http,https" : "https";
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, a);
	a->session = s;
	a->curl = curl;
	a->refused = a->near = false;
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "atoll/" ATOLL_VERSION);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, allowed);
	curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, allowed);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* one connection a blob */
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)SERVICE_CONNECT_TIME);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SERVICE_SLOWEST);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SERVICE_SLOW_TIME);
	curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 512L * 1024);
	if (s->place->insecure) {
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
	} else if (buf_size(&s->authorities)) {
		struct str pem = buf_str(&s->authorities);
		struct curl_blob blob = {(void *)pem.p, pem.n, CURL_BLOB_NOCOPY};
		curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
	}
}

struct curl_slist *session_prepare(
	struct session *s, CURL *curl, const char *path, const char *accept, struct answer *a)
{
	auto_buf struct buf url = {0};
	struct curl_slist *headers = NULL;
	buf_printf(&url, "%s://%s%s", s->plain ? "http" : "https", s->place->host, path);
	set_common(s, curl, a);
	curl_easy_setopt(curl, CURLOPT_URL, buf_cstr(&url));
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)SERVICE_REDIRECTS_MAX);
	if (s->header)
		headers = curl_slist_append(headers, s->header);
	if (accept)
		headers = curl_slist_append(headers, accept);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	return headers;
}

static CURLcode perform(CURL *curl, struct answer *a)
{
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, a);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, answer_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, a);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)SERVICE_ANSWER_TIME);
	buf_clear(&a->body);
	a->status = 0;
	CURLcode code = session_result(a, curl_easy_perform(curl));
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a->status);
	return code;
}

static CURLcode get_once(struct session *s, const char *path, const char *accept, struct answer *a)
{
	CURL *curl = curl_easy_init();
	INVARIANT(curl);
	struct curl_slist *headers = session_prepare(s, curl, path, accept, a);
	CURLcode code = perform(curl, a);
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
	return code;
}

int session_get(struct session *s, const char *path, const char *accept, struct answer *a, struct err *e)
{
	CURLcode code = get_once(s, path, accept, a);
	if (code == CURLE_SSL_CONNECT_ERROR && s->place->insecure && !s->plain) {
		s->plain = true;
		code = get_once(s, path, accept, a);
	}
	if (code == CURLE_OK && a->status == 401 && !s->header) {
		if (session_authorize(s, a, e) < 0)
			return -1;
		code = get_once(s, path, accept, a);
	}
	if (code != CURLE_OK)
		return session_explain(s, code, e);
	return a->status == 200 ? 0 : session_refused(s, a, e);
}

/* ---- credentials and tokens ---- */

/* Basic: of "user:password". */
static void set_basic(struct session *s, struct str pair)
{
	auto_buf struct buf text = {0};
	buf_add_c(&text, "Authorization: Basic ");
	base64_append(&text, pair);
	free(s->header);
	s->header = xstrdup(buf_cstr(&text));
	s->tried = true;
}

/* realm="https://…",service="…" of a challenge. */
static bool challenge_value(struct str challenge, const char *name, struct buf *ret)
{
	size_t n = strlen(name);
	for (size_t i = 0; i + n + 2 < challenge.n; i++) {
		bool begins = i == 0 || challenge.p[i - 1] == ' ' || challenge.p[i - 1] == ',';
		if (!begins || strncasecmp(challenge.p + i, name, n) != 0 || challenge.p[i + n] != '=' ||
			challenge.p[i + n + 1] != '"')
			continue;
		struct str rest, value = str_split(str_skip(challenge, i + n + 2), '"', &rest);
		buf_add_str(ret, value);
		return true;
	}
	return false;
}

static void add_parameter(CURL *curl, struct buf *to, const char *name, struct str value)
{
	char *text = curl_easy_escape(curl, value.p, (int)value.n);
	bool first = !buf_size(to) || str_index(buf_str(to), '?') < 0;
	buf_printf(to, "%s%s=%s", first ? "?" : "&", name, text ? text : "");
	curl_free(text);
}

static void ask_token(const struct session *s, CURL *curl, struct str challenge, struct str pair, struct str identity,
	struct answer *a, CURLcode *ret)
{
	auto_buf struct buf url = {0}, service = {0}, scope = {0}, form = {0};
	challenge_value(challenge, "realm", &url);
	challenge_value(challenge, "service", &service);
	if (!challenge_value(challenge, "scope", &scope))
		buf_printf(&scope, "repository:%s:pull", s->place->repo);
	set_common(s, curl, a);
	if (identity.n) { /* OAuth2, as docker login leaves it behind */
		struct buf *f = &form;
		buf_add_c(f, "?");
		add_parameter(curl, f, "grant_type", STR("refresh_token"));
		add_parameter(curl, f, "client_id", STR("atoll"));
		add_parameter(curl, f, "service", buf_str(&service));
		add_parameter(curl, f, "scope", buf_str(&scope));
		add_parameter(curl, f, "refresh_token", identity);
		curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, buf_cstr(f) + 2);
	} else {
		add_parameter(curl, &url, "service", buf_str(&service));
		add_parameter(curl, &url, "scope", buf_str(&scope));
		auto_free char *userpwd = pair.n ? str_dup(pair) : NULL;
		curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		if (userpwd)
			curl_easy_setopt(curl, CURLOPT_USERPWD, userpwd);
	}
	curl_easy_setopt(curl, CURLOPT_URL, buf_cstr(&url));
	*ret = perform(curl, a);
}

/* The token of the answer becomes the session's header. */
static int keep_token(struct session *s, struct answer *a, struct err *e)
{
	auto_buf struct buf text = {0};
	auto_json struct json_doc *doc = json_parse(buf_str(&a->body), NULL);
	const char *token = NULL;
	if (!doc || json_read_cstr(json_root(doc), "token", &token, NULL) < 0 ||
		(!token && json_read_cstr(json_root(doc), "access_token", &token, NULL) < 0) || !token || !*token)
		return err_set(e, ERRC_BAD_GATEWAY, "%s: the registry's token cannot be read", s->ref);
	for (const char *p = token; *p; p++)
		if (!isgraph((unsigned char)*p))
			return err_set(e, ERRC_BAD_GATEWAY, "%s: the registry's token cannot be read", s->ref);
	buf_printf(&text, "Authorization: Bearer %s", token);
	free(s->header);
	s->header = xstrdup(buf_cstr(&text));
	return 0;
}

/* The realm of a challenge is the registry's choice as well, if it could not reach this machine itself. */
static int get_token(struct session *s, const struct answer *from, struct str pair, struct str identity, struct err *e)
{
	struct answer a = {.body = {.max = SERVICE_TOKEN_MAX}, .sent = !from->near};
	struct str challenge = str_of(from->challenge + strlen(BEARER));
	CURLcode code = CURLE_OK;
	CURL *curl = curl_easy_init();
	INVARIANT(curl);
	ask_token(s, curl, challenge, pair, identity, &a, &code);
	int r = a.refused	   ? err_set(e, ERRC_BAD_GATEWAY,
					     "%s: the registry sends us for a token to where nothing may be fetched: to this "
						      "machine or a private network",
					     s->ref)
		: code != CURLE_OK ? session_explain(s, code, e)
		: a.status != 200  ? session_refused(s, &a, e)
				   : keep_token(s, &a, e);
	curl_easy_cleanup(curl);
	buf_free(&a.body);
	return r;
}

int session_authorize(struct session *s, const struct answer *a, struct err *e)
{
	auto_buf struct buf pair = {0}, identity = {0};
	auto_json struct json_doc *doc = s->credentials ? json_parse(str_of(s->credentials), NULL) : NULL;
	s->turn++;
	bool has = doc && place_credentials(json_root(doc), s->place, &pair, &identity);
	s->tried = has;
	if (strncasecmp(a->challenge, BEARER, strlen(BEARER)) == 0)
		return get_token(s, a, buf_str(&pair), buf_str(&identity), e);
	if (!has || !buf_size(&pair))
		return err_set(e, ERRC_FORBIDDEN, "%s: the registry wants credentials", s->ref);
	set_basic(s, buf_str(&pair));
	return 0;
}
