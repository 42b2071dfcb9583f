#include "cli/client.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

#define DEFAULT_ADDRESS "127.0.0.1:8700"

/* ---- which daemon ---- */

static int use_unix(struct client *cl, const char *path, struct err *e)
{
	snprintf(cl->where, sizeof cl->where, "unix:%s", path);
	snprintf(cl->host, sizeof cl->host, "localhost");
	if (http_endpoint_unix(&cl->endpoint, str_of(path), e) < 0)
		return err_wrap(e, "socket %s", path);
	return 0;
}

static int resolve(struct client *cl, const char *address, struct err *e)
{
	char name[128];
	const char *colon = strrchr(address, ':');
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
	if (!colon || snprintf(name, sizeof name, "%.*s", (int)(colon - address), address) >= (int)sizeof name)
		return err_set(e, ERRC_INVALID_REQUEST, "'%s' is not host:port", address);
	int r = getaddrinfo(name, colon + 1, &hints, &found);
	if (r != 0)
		return err_set(e, ERRC_INVALID_REQUEST, "cannot resolve host '%s': %s", name, gai_strerror(r));
	memcpy(&cl->endpoint.sa, found->ai_addr, found->ai_addrlen);
	cl->endpoint.len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static void read_token(struct client *cl)
{
	char path[PATH_MAX];
	auto_buf struct buf b = {0};
	const char *token = getenv("ATOLL_TOKEN");
	if (!token || !*token) {
		snprintf(path, sizeof path, "%s/token", cli_data_dir());
		int r = fd_read_file(AT_FDCWD, path, 256, &b);
		cl->token_unreadable = r == -EACCES;
		token = r == 0 ? buf_cstr(&b) : "";
	}
	struct str t = str_of(token);
	while (t.n && isspace((unsigned char)t.p[t.n - 1]))
		t.n--;
	if (t.n)
		snprintf(cl->authorization, sizeof cl->authorization, "Bearer %.*s", STR_ARG(t));
}

static int use_tcp(struct client *cl, const char *address, struct err *e)
{
	snprintf(cl->where, sizeof cl->where, "%s", address);
	snprintf(cl->host, sizeof cl->host, "%s", address);
	read_token(cl);
	if (http_endpoint_tcp(&cl->endpoint, str_of(address), e) == 0)
		return 0;
	return resolve(cl, address, e);
}

/* Takes "host:port" or "[address]:port" after the scheme; the default port is the scheme's. */
static int split_address(struct str rest, const char *port, struct str *ret_host, struct str *ret_port)
{
	struct str path, address = str_split(rest, '/', &path);
	if (path.n || address.n == 0)
		return -1;
	bool six = address.p[0] == '[';
	ssize_t end = six ? str_index(address, ']') : str_index(address, ':');
	if (six && end < 0)
		return -1;
	size_t n = end < 0 ? address.n : (size_t)end + six;
	struct str tail = str_skip(address, n);
	*ret_host = str_n(address.p, n);
	*ret_port = tail.n ? str_skip(tail, 1) : str_of(port);
	uint64_t number;
	bool ok = n > 0 && (!tail.n || tail.p[0] == ':') && str_to_u64(*ret_port, 65535, &number) && number > 0;
	return ok ? 0 : -1;
}

static int use_https(struct client *cl, struct str host, struct str port, struct err *e)
{
	bool six = host.p[0] == '[', usual = str_eq_c(port, "443");
	snprintf(cl->where, sizeof cl->where, "https://%.*s:%.*s", STR_ARG(host), STR_ARG(port));
	snprintf(cl->host, sizeof cl->host, "%.*s%s%.*s", STR_ARG(host), usual ? "" : ":", usual ? 0 : (int)port.n,
		port.p);
	read_token(cl);
	return client_use_tls(cl, six ? str_n(host.p + 1, host.n - 2) : host, port, e);
}

static int use_url(struct client *cl, const char *url, struct err *e)
{
	struct str s = str_of(url), host, port;
	if (str_starts(s, STR("unix://")))
		return use_unix(cl, url + 7, e);
	if (str_starts(s, STR("unix:")))
		return use_unix(cl, url + 5, e);
	bool https = str_starts(s, STR("https://")), http = str_starts(s, STR("http://"));
	char text[160];
	if ((!http && !https) || split_address(str_skip(s, https ? 8 : 7), https ? "443" : "80", &host, &port) < 0 ||
		snprintf(text, sizeof text, "%.*s:%.*s", STR_ARG(host), STR_ARG(port)) >= (int)sizeof text - 8) {
		cli_hint(cl->cli, "Set it to https://host, http://host:port or unix:/path/to/atoll.sock.");
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_URL '%s' cannot be used", url);
	}
	return https ? use_https(cl, host, port, e) : use_tcp(cl, text, e);
}

void client_listed_address(char ret[CLIENT_ADDRESS_MAX])
{
	char path[PATH_MAX];
	auto_buf struct buf b = {0};
	struct str rest;
	snprintf(path, sizeof path, "%s/listen", cli_run_dir());
	bool listed = fd_read_file(AT_FDCWD, path, CLIENT_ADDRESS_MAX - 1, &b) == 0;
	struct str line = listed ? str_split(buf_str(&b), '\n', &rest) : STR(DEFAULT_ADDRESS);
	snprintf(ret, CLIENT_ADDRESS_MAX, "%.*s", STR_ARG(line));
}

/* A user who may not use the socket may have a token: the daemon has written its address into the run directory. */
static int use_listed(struct client *cl, struct err *e)
{
	char address[CLIENT_ADDRESS_MAX];
	client_listed_address(address);
	return use_tcp(cl, address, e);
}

static int choose(struct client *cl, struct err *e)
{
	const char *url = getenv("ATOLL_URL");
	if (url && *url)
		return use_url(cl, url, e);
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/atoll.sock", cli_run_dir());
	int fd = fd_unix_connect(path, SOCK_STREAM);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 || fd == -EAGAIN) /* EAGAIN: a daemon that accepts nothing */
		return use_unix(cl, path, e);
	if (fd == -EACCES)
		return use_listed(cl, e);
	/* ATOLL_RUN chooses the daemon of that directory and no other. */
	return getenv("ATOLL_RUN") ? use_unix(cl, path, e) : use_tcp(cl, DEFAULT_ADDRESS, e);
}

int client_open(struct cli *c, struct client *ret, struct err *e)
{
	*ret = (struct client){.cli = c, .head_ms = CLIENT_HEAD_MS, .body_max = CLIENT_BODY_MAX};
	if (choose(ret, e) < 0)
		return -1;
	ret->loop = loop_new();
	if (!ret->loop)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "event loop");
	ret->http = http_client_new(ret->loop);
	client_watch_silence(ret);
	return 0;
}

void client_close(struct client *cl)
{
	if (cl->http)
		http_client_free(cl->http);
	loop_free(cl->loop);
	cl->http = NULL;
	cl->loop = NULL;
}

static void on_signal(void *arg, int signo)
{
	struct client *cl = arg;
	if (signo != SIGWINCH && signo != SIGTSTP)
		cl->interrupted = signo;
	if (cl->on_signal)
		cl->on_signal(cl, signo);
}

static int catch_signals(struct client *cl, const int *signals, size_t n, struct err *e)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < n; i++)
		sigaddset(&set, signals[i]);
	int r = loop_signals(cl->loop, &set, on_signal, cl);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "signals") : 0;
}

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};

int client_catch_signals(struct client *cl, struct err *e)
{
	return catch_signals(cl, caught, 4, e);
}

int client_catch_terminal(struct client *cl, struct err *e)
{
	return catch_signals(cl, caught, ARRAY_LEN(caught), e);
}

/* ---- whole requests ---- */

struct client_wait {
	struct client *cl;
	struct buf *body;
	struct err *e;
	int status;
	bool foreign; /* its body is no JSON */
	bool done;
};

static bool is_json(const struct http_headers *headers)
{
	return str_starts(http_header_value(headers, STR("Content-Type")), STR("application/json"));
}

static void on_reply(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct client_wait *w = arg;
	w->done = true;
	if (r) {
		w->status = r->status;
		w->foreign = r->body.n && !is_json(&r->headers);
		buf_add_str(w->body, r->body);
	} else {
		w->status = client_failure(w->cl, f, w->e);
	}
}

struct http_call_options client_options(
	struct client *cl, const char *method, struct str target, struct http_header room[2])
{
	struct http_call_options o = {.method = str_of(method),
		.target = target,
		.host = str_of(cl->host),
		.headers = room,
		.head_ms = cl->head_ms};
	if (*cl->authorization)
		room[o.headers_n++] = (struct http_header){STR("Authorization"), str_of(cl->authorization)};
	return o;
}

int client_ask(
	struct client *cl, const char *method, const char *target, struct str body, struct buf *ret_body, struct err *e)
{
	struct http_header room[2];
	struct http_call_options o = client_options(cl, method, str_of(target), room);
	if (body.n)
		room[o.headers_n++] = (struct http_header){STR("Content-Type"), STR("application/json")};
	o.content_length = (int64_t)body.n;
	struct client_wait w = {.cl = cl, .body = ret_body, .e = e};
	struct http_question q = {.options = o, .body = body, .max = cl->body_max, .on_reply = on_reply, .arg = &w};
	http_call_whole(cl->http, &cl->endpoint, &q);
	while (!w.done)
		loop_turn(cl->loop, -1);
	cl->foreign = w.foreign;
	return w.status;
}

int client_call(
	struct client *cl, const char *method, const char *target, struct str body, struct buf *ret_body, struct err *e)
{
	int status = client_ask(cl, method, target, body, ret_body, e);
	if (status < 0)
		return -1;
	if (status / 100 == 2 && !cl->foreign)
		return status;
	client_api_error(cl, status, buf_str(ret_body), e);
	client_explain_version(cl, e);
	return -1;
}

int client_once(
	struct cli *c, const char *method, const char *target, struct str body, struct buf *ret_body, struct err *e)
{
	auto_client struct client cl = {0};
	if (client_open(c, &cl, e) < 0)
		return -1;
	return client_call(&cl, method, target, body, ret_body, e);
}

void client_percent_encode(struct buf *ret, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (isalnum(*p) || strchr("-_.~", *p))
			buf_add_byte(ret, (char)*p);
		else
			buf_printf(ret, "%%%02X", *p);
	}
}

void client_box_path(struct buf *ret, const char *id, const char *rest)
{
	buf_add_c(ret, "/v1/sandboxes/");
	client_percent_encode(ret, id);
	buf_add_c(ret, rest);
}
