/*
 * The paths of the bridge, and what its names mean in this daemon. Tokens have been checked before.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/route/handlers.h"
#include "daemon/serve/openapi.h"
#include "doors/bridge/bridge.h"
#include "proto/id.h"

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";

/* RFC 4648 in lower case, without padding. */
static void base32(const unsigned char *p, size_t n, char *ret)
{
	unsigned value = 0, bits = 0;
	for (size_t i = 0; i < n; i++) {
		value = value << 8 | p[i];
		for (bits += 8; bits >= 5; bits -= 5)
			*ret++ = alphabet[value >> (bits - 5) & 31];
	}
	if (bits)
		*ret++ = alphabet[value << (5 - bits) & 31];
	*ret = 0;
}

bool bridge_id_ok(struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if (!id.p[i] || !strchr(alphabet, id.p[i]))
			return false;
	return id.n >= 1 && id.n <= BRIDGE_ID_MAX;
}

void bridge_box_id(struct str id, char ret[BOX_ID_MAX + 1])
{
	if (box_id_check(id, NULL) == 0) {
		snprintf(ret, BOX_ID_MAX + 1, "%.*s", STR_ARG(id));
		return;
	}
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	char text[2 * EVP_MAX_MD_SIZE];
	INVARIANT(EVP_Digest(id.p, id.n, hash, &n, EVP_sha256(), NULL) == 1 && n >= 30);
	base32(hash, 30, text);
	snprintf(ret, BOX_ID_MAX + 1, "bridge-%.50s", text);
}

bool bridge_session_ok(struct str id)
{
	for (size_t i = 0; i < id.n; i++) {
		char c = id.p[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		if (!letter && c != '.' && c != '_' && c != '-')
			return false;
	}
	return id.n >= 1 && id.n <= BRIDGE_ID_MAX && !memmem(id.p, id.n, "..", 2);
}

/* Adds the parts of the path to *out; "." and ".." are done. */
static void add_parts(struct buf *out, struct str path)
{
	while (path.n) {
		struct str part = str_split(path, '/', &path);
		if (!part.n || str_eq_c(part, "."))
			continue;
		if (!str_eq_c(part, "..")) {
			buf_add_byte(out, '/');
			buf_add_str(out, part);
			continue;
		}
		const char *slash = buf_size(out) ? memrchr(buf_str(out).p, '/', buf_size(out)) : NULL;
		if (slash)
			out->len -= buf_size(out) - (size_t)(slash - buf_str(out).p);
	}
}

char *bridge_plain_path(struct str path)
{
	auto_buf struct buf out = {0};
	add_parts(&out, path);
	return buf_size(&out) ? str_dup(buf_str(&out)) : xstrdup("/");
}

char *bridge_workspace_path(struct str path)
{
	static const struct str root = {"/workspace", 10};
	auto_buf struct buf out = {0};
	if (!path.n || path.p[0] != '/')
		buf_add_str(&out, root);
	add_parts(&out, path);
	struct str s = buf_str(&out);
	bool inside = str_starts(s, root) && (s.n == root.n || s.p[root.n] == '/');
	return inside && s.n < BRIDGE_PATH_MAX && !memchr(s.p, 0, s.n) ? str_dup(s) : NULL;
}

static void create(struct daemon_request *r)
{
	unsigned char random[16];
	char id[32], json[64];
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return bridge_refuse(r, 502, "pool_error", "pool error: no random numbers");
	base32(random, sizeof random, id);
	snprintf(json, sizeof json, "{\"id\":\"%s\"}", id);
	daemon_request_json(r, 200, str_of(json));
}

static const struct {
	const char *method, *path; /* a path that ends in '/' stands for all below it */
	void (*handle)(struct bridge_call *b);
} table[] = {
	{"DELETE", "", bridge_delete},
	{"POST", "/exec", bridge_exec},
	{"GET", "/file/", bridge_file_get},
	{"PUT", "/file/", bridge_file_put},
	{"GET", "/running", bridge_running},
	{"POST", "/persist", bridge_persist},
	{"POST", "/hydrate", bridge_hydrate},
	{"POST", "/session", bridge_session_create},
	{"DELETE", "/session/", bridge_session_delete},
	{"POST", "/tunnel/", bridge_tunnel},
	{"DELETE", "/tunnel/", bridge_tunnel},
	{"POST", "/mount", bridge_mount},
	{"POST", "/unmount", bridge_unmount},
};

static bool matches(const char *pattern, struct str path)
{
	size_t n = strlen(pattern);
	if (n && pattern[n - 1] == '/')
		return path.n >= n && memcmp(path.p, pattern, n) == 0;
	return str_eq_c(path, pattern);
}

/* Reads what every call has. False: it has been refused. */
static bool read_common(struct bridge_call *b, struct str rest)
{
	struct str session = http_header_value(&http_request(b->r->x)->headers, STR("Session-Id"));
	if (session.n && !bridge_session_ok(session)) {
		bridge_fail(b, 400, "invalid_request", "Invalid session ID format");
		return false;
	}
	b->session = session.n ? str_dup(session) : NULL;
	b->rest = rest;
	return true;
}

static void handle_sandbox(struct daemon_request *r, struct str tail)
{
	const struct http_request *q = http_request(r->x);
	ssize_t slash = str_index(tail, '/');
	struct str id = slash < 0 ? tail : str_n(tail.p, (size_t)slash), rest = str_skip(tail, id.n);
	char box[BOX_ID_MAX + 1];
	bool known = false;
	if (!bridge_id_ok(id))
		return bridge_refuse(r, 400, "invalid_request", "Invalid sandbox ID format");
	bridge_box_id(id, box);
	bool destroys = !rest.n && str_eq_c(q->method_text, "DELETE");
	if (!destroys && !bridge_has_room(r->daemon, box))
		return bridge_refuse(r, 503, "capacity_exceeded", "instance limit reached");
	if (str_eq_c(rest, "/pty") && str_eq_c(q->method_text, "GET"))
		return bridge_pty(r, box);
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (!matches(table[i].path, rest))
			continue;
		known = true;
		if (!str_eq_c(q->method_text, table[i].method))
			continue;
		struct bridge_call *b = bridge_call_new(r);
		memcpy(b->box, box, sizeof b->box);
		if (read_common(b, str_skip(rest, strlen(table[i].path))))
			table[i].handle(b);
		return;
	}
	bridge_refuse(r, known ? 405 : 404, "invalid_request", known ? "Method not allowed" : "Not found");
}

static void openapi_page(struct daemon_request *r)
{
	http_respond(r->x, 200, "text/html; charset=utf-8",
		STR("<!doctype html><meta charset=utf-8><title>Atoll bridge</title><h1>Atoll bridge</h1><p>The "
		    "contract is "
		    "<a "
		    "href=openapi.json>openapi.json</a>.</"
		    "p><script>fetch('openapi.json'+location.search).then(r=>r.json())."
		    "then(d=>{const l=document.createElement('ul');for(const[p,m]of "
		    "Object.entries(d.paths))for(const[k,o]of "
		    "Object.entries(m)){const i=document.createElement('li');i.textContent=k.toUpperCase()+' '+p+': "
		    "'+o.summary;"
		    "l.append(i)}document.body.append(l)})</script>"));
	daemon_request_answered(r, 200);
}

void handle_bridge(struct daemon_request *r)
{
	static const struct str sandbox = {"/v1/sandbox/", 12};
	const struct http_request *q = http_request(r->x);
	bool get = str_eq_c(q->method_text, "GET"), post = str_eq_c(q->method_text, "POST");
	if (str_starts(q->path, sandbox))
		return handle_sandbox(r, str_skip(q->path, sandbox.n));
	if (str_eq_c(q->path, "/v1/sandbox") && post)
		return create(r);
	if (str_eq_c(q->path, "/v1/pool/stats") && get)
		return bridge_pool_stats(r);
	if ((str_eq_c(q->path, "/v1/pool/prime") || str_eq_c(q->path, "/v1/pool/shutdown-prewarmed")) && post)
		return daemon_request_json(r, 200, STR("{\"ok\":true}"));
	if (str_eq_c(q->path, "/v1/openapi.json") && get)
		return daemon_request_json(r, 200, str_n(bridge_openapi_json, bridge_openapi_json_len));
	if ((str_eq_c(q->path, "/v1/openapi") || str_eq_c(q->path, "/v1/openapi.html")) && get)
		return openapi_page(r);
	bridge_refuse(r, 404, "invalid_request", "Not found");
}

void handle_bridge_health(struct daemon_request *r)
{
	if (warden_client_is_up(r->daemon->warden))
		daemon_request_json(r, 200, STR("{\"ok\":true}"));
	else
		daemon_request_json(r, 503, STR("{\"ok\":false,\"errors\":[\"the warden is not running\"]}"));
}
