#include "daemon/admit/login.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/admit/secret_text.h"
#include "daemon/route/handlers.h"
#include "store/item.h"

static const char kind[] = "console-session";
static const struct str cookie_name = {"atoll_session", 13};

struct session {
	char hash[SECRET_HASH_LEN + 1];	     /* "": free */
	int64_t begun, used;		     /* wall clock */
	int64_t written;		     /* `used` as the store has it */
	char client[CONSOLE_CLIENT_MAX + 1]; /* the browser, as it calls itself */
	char token[TOKEN_NAME_MAX + 1];	     /* that it was begun with; "": none with a name */
	int64_t until;			     /* that token's end; 0: none */
};

struct link {
	char text[SECRET_TEXT_LEN + 1];
	uint64_t due;
	char token[TOKEN_NAME_MAX + 1]; /* that asked for it */
};

struct login {
	struct daemon *daemon;
	struct session sessions[CONSOLE_SESSIONS_MAX];
	struct link links[CONSOLE_LINKS_MAX];
	size_t next_link;
};

struct login *login_new(struct daemon *d)
{
	struct login *l = xcalloc(1, sizeof *l);
	l->daemon = d;
	return l;
}

/* ---- sessions ---- */

static bool has_ended(const struct session *s)
{
	int64_t now = clock_wall_ms();
	if (s->until && now >= s->until)
		return true;
	return now - s->used > CONSOLE_SESSION_IDLE || now - s->begun > CONSOLE_SESSION_LIFE || s->used > now + 60000;
}

static void session_end(struct login *l, struct session *s)
{
	store_item_delete(l->daemon->store, kind, s->hash, NULL, NULL);
	*s = (struct session){0};
}

static void session_write(struct login *l, struct session *s, store_on_done on_done, void *arg)
{
	auto_buf struct buf value = {0};
	struct json_writer w = json_writer(&value);
	json_object_begin(&w);
	json_member_i64(&w, "used", s->used);
	json_member_cstr(&w, "client", s->client);
	json_member_cstr(&w, "token", s->token);
	json_member_i64(&w, "until", s->until);
	json_object_end(&w);
	const struct store_item item = {
		.kind = kind, .key = s->hash, .sandbox = "", .created_ms = s->begun, .value = buf_cstr(&value)};
	s->written = s->used;
	store_item_put(l->daemon->store, &item, on_done, arg);
}

static struct session *session_find(struct login *l, struct str secret)
{
	char hash[SECRET_HASH_LEN + 1];
	secret_hash(secret, hash);
	for (size_t i = 0; i < CONSOLE_SESSIONS_MAX; i++) {
		struct session *s = &l->sessions[i];
		if (*s->hash && str_eq_secret(str_of(s->hash), str_of(hash))) {
			if (!has_ended(s))
				return s;
			session_end(l, s);
		}
	}
	return NULL;
}

/* A free place; else the session that was not used for the longest time makes room. */
static struct session *session_new(struct login *l, char secret[SECRET_TEXT_LEN + 1])
{
	struct session *s = &l->sessions[0];
	for (size_t i = 1; i < CONSOLE_SESSIONS_MAX && *s->hash; i++)
		if (!*l->sessions[i].hash || l->sessions[i].used < s->used)
			s = &l->sessions[i];
	if (*s->hash)
		session_end(l, s);
	secret_text(secret);
	secret_hash(str_of(secret), s->hash);
	s->begun = s->used = clock_wall_ms();
	return s;
}

/* Printable ASCII only: it is shown to people. */
static void set_client(struct session *s, struct str text)
{
	size_t n = 0;
	for (size_t i = 0; i < text.n && n < CONSOLE_CLIENT_MAX; i++)
		if (text.p[i] >= ' ' && text.p[i] <= '~')
			s->client[n++] = text.p[i];
	s->client[n] = 0;
}

static void set_token(struct session *s, struct str name, int64_t until)
{
	snprintf(s->token, sizeof s->token, "%.*s", STR_ARG(name));
	s->until = until;
}

static int take_item(void *arg, const struct store_item *item, struct err *e)
{
	struct login *l = arg;
	uint64_t used = 0, until = 0;
	struct str client = STR(""), token = STR("");
	(void)e;
	auto_json struct json_doc *doc = json_parse(str_of(item->value), NULL);
	json_read_u64(doc ? json_root(doc) : NULL, "used", 0, INT64_MAX, &used, NULL);
	json_read_str(doc ? json_root(doc) : NULL, "client", &client, NULL);
	json_read_str(doc ? json_root(doc) : NULL, "token", &token, NULL);
	json_read_u64(doc ? json_root(doc) : NULL, "until", 0, INT64_MAX, &until, NULL);
	for (size_t i = 0; i < CONSOLE_SESSIONS_MAX; i++) {
		struct session *s = &l->sessions[i];
		if (*s->hash || strlen(item->key) != SECRET_HASH_LEN)
			continue;
		snprintf(s->hash, sizeof s->hash, "%s", item->key);
		s->begun = item->created_ms;
		s->used = s->written = (int64_t)used;
		set_client(s, client);
		set_token(s, token, (int64_t)until);
		break;
	}
	return 0;
}

int login_load(struct login *l, struct err *e)
{
	return store_load_items(l->daemon->store, kind, take_item, l, e);
}

void login_forget_token(struct login *l, const char *name)
{
	for (size_t i = 0; i < CONSOLE_SESSIONS_MAX; i++)
		if (*l->sessions[i].hash && strcmp(l->sessions[i].token, name) == 0)
			session_end(l, &l->sessions[i]);
	for (size_t i = 0; i < CONSOLE_LINKS_MAX; i++)
		if (strcmp(l->links[i].token, name) == 0)
			l->links[i] = (struct link){0};
}

/* ---- cookies ---- */

static struct str cookie_value(struct str header)
{
	while (header.n) {
		struct str pair = str_trim(str_split(header, ';', &header)), value;
		struct str name = str_split(pair, '=', &value);
		if (str_eq(name, cookie_name))
			return value;
	}
	return STR_NULL;
}

/* Sent by a script of the console's own page. */
static bool is_from_console(const struct daemon_request *r)
{
	const struct http_request *q = http_request(r->x);
	struct str origin = http_header_value(&q->headers, STR("origin")), scheme = STR("http://");
	if (r->match.row->app)
		return false;
	if (!q->upgrade)
		return http_header_value(&q->headers, STR("x-atoll-console")).p != NULL;
	struct host_origin own = host_origin(&r->daemon->config, r->x);
	if (own.https)
		scheme = STR("https://");
	return origin.p && str_starts(origin, scheme) && str_eq_nocase(str_skip(origin, scheme.n), own.host);
}

static struct session *session_of(struct login *l, const struct daemon_request *r)
{
	struct str header = http_header_value(&http_request(r->x)->headers, STR("cookie"));
	struct str secret = header.p ? cookie_value(header) : STR_NULL;
	return secret.p && is_from_console(r) ? session_find(l, secret) : NULL;
}

bool login_admits(struct login *l, struct daemon_request *r)
{
	struct session *s = session_of(l, r);
	if (!s)
		return false;
	s->used = clock_wall_ms();
	snprintf(r->caller.token, sizeof r->caller.token, "%s", s->token);
	if (s->used - s->written > CONSOLE_RENEW_EVERY)
		session_write(l, s, NULL, NULL);
	return true;
}

static void set_cookie(struct daemon_request *r, const char *secret, int64_t seconds)
{
	auto_buf struct buf value = {0};
	struct host_origin own = host_origin(&r->daemon->config, r->x);
	buf_printf(&value, "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%lld%s", cookie_name.p, secret,
		(long long)seconds, own.https ? "; Secure" : "");
	http_respond_header(r->x, STR("Set-Cookie"), buf_str(&value));
}

/* ---- links ---- */

/* The name of the token that asked for the link; NULL: the link is not good. Lives until the next link is made. */
static const char *use_link(struct login *l, struct str code)
{
	for (size_t i = 0; i < CONSOLE_LINKS_MAX; i++) {
		struct link *k = &l->links[i];
		if (!*k->text || !str_eq_secret(str_of(k->text), code))
			continue;
		bool good = k->due > loop_now(l->daemon->loop);
		memset(k->text, 0, sizeof k->text);
		return good ? k->token : NULL;
	}
	return NULL;
}

void handle_console_links(struct daemon_request *r)
{
	struct login *l = r->daemon->login;
	struct link *k = &l->links[l->next_link++ % CONSOLE_LINKS_MAX];
	char iso[CLOCK_ISO_LEN];
	auto_buf struct buf out = {0}, url = {0};
	struct json_writer w = json_writer(&out);
	secret_text(k->text);
	k->due = loop_now(r->daemon->loop) + CONSOLE_LINK_LIFE;
	snprintf(k->token, sizeof k->token, "%s", r->caller.token);
	buf_printf(
		&url, "%s://%s/#login=%s", r->daemon->config.preview_scheme, r->daemon->config.preview_domain, k->text);
	json_object_begin(&w);
	json_member_str(&w, "url", buf_str(&url));
	json_member_cstr(&w, "expiresAt", clock_iso(clock_wall_ms() + CONSOLE_LINK_LIFE, iso));
	json_object_end(&w);
	daemon_request_json(r, 201, buf_str(&out));
}

/* ---- /v1/console/session ---- */

static void answer_session(struct daemon_request *r, const struct session *s)
{
	char iso[CLOCK_ISO_LEN];
	int64_t idle = s->used + CONSOLE_SESSION_IDLE, end = s->begun + CONSOLE_SESSION_LIFE;
	if (s->until && s->until < end)
		end = s->until;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "expiresAt", clock_iso(idle < end ? idle : end, iso));
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

/* A session that is being written: it is not told before it would outlive the daemon. */
struct sign_in {
	struct daemon_request *request; /* held */
	struct session session;		/* as it was then */
	char secret[SECRET_TEXT_LEN + 1];
};

static void on_written(void *arg, const struct err *e)
{
	struct sign_in *s = arg;
	struct daemon_request *r = s->request;
	if (r->x && e) {
		daemon_request_error(r, e);
	} else if (r->x) {
		set_cookie(r, s->secret, CONSOLE_SESSION_LIFE / 1000);
		answer_session(r, &s->session);
	}
	daemon_request_release(r);
	explicit_bzero(s, sizeof *s);
	free(s);
}

void handle_console_login(struct daemon_request *r)
{
	struct login *l = r->daemon->login;
	struct err e;
	if (!http_header_value(&http_request(r->x)->headers, STR("x-atoll-console")).p) {
		err_set(&e, ERRC_FORBIDDEN, "sessions are for the console: the header X-Atoll-Console is missing");
		return daemon_request_error(r, &e);
	}
	struct str code = STR_NULL, token = STR_NULL;
	auto_json struct json_doc *doc = json_parse(r->body, &e);
	if (!doc || json_read_str(json_root(doc), "code", &code, &e) < 0 ||
		json_read_str(json_root(doc), "token", &token, &e) < 0)
		return daemon_request_error(r, &e);
	const char *name = code.p ? use_link(l, code) : NULL;
	if (!name && token.p)
		name = tokens_use(r->daemon->tokens, token);
	if (!name && caller_is_admitted(&r->caller))
		name = r->caller.token;
	if (!name) {
		err_set(&e, ERRC_UNAUTHORIZED, "%s",
			code.p ? "the link has been used or is too old; 'atoll console' makes a new one"
			       : "the token is not the daemon's, or was revoked");
		r->daemon->metrics.unauthorized++;
		return daemon_request_error(r, &e);
	}
	struct sign_in *sign_in = xcalloc(1, sizeof *sign_in);
	struct session *s = session_new(l, sign_in->secret);
	set_client(s, http_header_value(&http_request(r->x)->headers, STR("user-agent")));
	set_token(s, str_of(name), tokens_expiry(r->daemon->tokens, name));
	sign_in->request = r;
	sign_in->session = *s;
	daemon_request_hold(r);
	session_write(l, s, on_written, sign_in);
}

/* The page asks before it shows the form: not being signed in is no error then. */
void handle_console_session(struct daemon_request *r)
{
	const struct session *s = session_of(r->daemon->login, r);
	if (s)
		answer_session(r, s);
	else
		daemon_request_empty(r);
}

void handle_console_logout(struct daemon_request *r)
{
	struct session *s = session_of(r->daemon->login, r);
	struct err e;
	if (!s) {
		err_set(&e, ERRC_UNAUTHORIZED, "there is no console session");
		return daemon_request_error(r, &e);
	}
	session_end(r->daemon->login, s);
	set_cookie(r, "", 0);
	daemon_request_json(r, 200, STR("{}"));
}

/* ---- /v1/console/sessions ---- */

/* A session is named by the first digits of its hash. */
enum { SESSION_ID_LEN = 16 };

static void write_session(struct json_writer *w, const struct session *s, bool current)
{
	char iso[CLOCK_ISO_LEN];
	json_object_begin(w);
	json_member_str(w, "id", str_n(s->hash, SESSION_ID_LEN));
	json_member_cstr(w, "client", s->client);
	if (*s->token)
		json_member_cstr(w, "token", s->token);
	json_member_cstr(w, "startedAt", clock_iso(s->begun, iso));
	json_member_cstr(w, "usedAt", clock_iso(s->used, iso));
	json_member_bool(w, "current", current);
	json_object_end(w);
}

void handle_console_sessions(struct daemon_request *r)
{
	struct login *l = r->daemon->login;
	const struct session *current = session_of(l, r);
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, "sessions");
	json_array_begin(&w);
	for (size_t i = 0; i < CONSOLE_SESSIONS_MAX; i++)
		if (*l->sessions[i].hash && !has_ended(&l->sessions[i]))
			write_session(&w, &l->sessions[i], &l->sessions[i] == current);
	json_array_end(&w);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

void handle_console_end(struct daemon_request *r)
{
	struct login *l = r->daemon->login;
	struct err e;
	for (size_t i = 0; i < CONSOLE_SESSIONS_MAX; i++) {
		struct session *s = &l->sessions[i];
		if (!*s->hash || !str_eq(r->match.session, str_n(s->hash, SESSION_ID_LEN)))
			continue;
		session_end(l, s);
		return daemon_request_json(r, 200, STR("{}"));
	}
	err_set(&e, ERRC_NOT_FOUND, "there is no such console session; it may have ended");
	daemon_request_error(r, &e);
}

void handle_console_end_all(struct daemon_request *r)
{
	struct login *l = r->daemon->login;
	for (size_t i = 0; i < CONSOLE_SESSIONS_MAX; i++)
		if (*l->sessions[i].hash)
			session_end(l, &l->sessions[i]);
	daemon_request_json(r, 200, STR("{}"));
}
