#include <ctype.h>

#include "agent/rpc/rpc.h"

#include "proto/errc.h"

/* The methods of `SandboxAPI` in @cloudflare/sandbox 0.12: each is a request to the route that has it in its row. */

/* Files as bytes are another route. */
static bool takes(const struct rpc_method *m, const struct capnweb_call *call)
{
	struct str encoding = STR_NULL;
	if (m->kind != RPC_FILE)
		return true;
	(void)json_read_str(capnweb_call_arg(call, 2), "encoding", &encoding, NULL);
	return str_eq_c(encoding, "none");
}

const struct rpc_method *rpc_method_find(
	const char *name, const struct capnweb_call *call, const struct route **ret_route)
{
	const struct rpc_method *found = NULL;
	for (const struct route *r = routes; r < routes + routes_n; r++) {
		for (const struct rpc_method *m = r->rpc; m && m->name; m++) {
			bool first = !found || m->kind == RPC_FILE;
			if (strcmp(m->name, name) != 0 || !takes(m, call) || !first)
				continue;
			*ret_route = r;
			found = m;
		}
	}
	return found;
}

bool rpc_has_object(void *arg, const char *path)
{
	size_t n = strlen(path);
	(void)arg;
	for (const struct route *r = routes; r < routes + routes_n; r++)
		for (const struct rpc_method *m = r->rpc; m && m->name; m++)
			if (strncmp(m->name, path, n) == 0 && m->name[n] == '.')
				return true;
	return strcmp(path, "tunnels") == 0;
}

/* ---- requests ---- */

static void put_encoded(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~')
			buf_add_byte(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

/* A route's pattern, or a method's query, with arguments in the place of {id} and {N}. */
static int put_target(struct buf *out, const char *text, const struct capnweb_call *call, struct err *e)
{
	for (const char *p = text; *p; p++) {
		if (*p != '{') {
			buf_add_byte(out, *p);
			continue;
		}
		size_t i = p[1] == 'i' ? 0 : (size_t)(p[1] - '0');
		const struct json *arg = capnweb_call_arg(call, i);
		p = strchr(p, '}');
		if (arg && arg->type != JSON_T_STRING)
			return err_set(e, ERRC_VALIDATION_FAILED, "argument %zu must be a string", i + 1);
		/* An empty segment of a path would name another route. */
		if (i == 0 && (!arg || !arg->text.n))
			return err_set(e, ERRC_VALIDATION_FAILED, "argument 1 is missing");
		/* "." and ".." are segments that clients resolve. */
		if (arg)
			put_encoded(out, arg->text);
	}
	return 0;
}

static void put_member(struct buf *out, struct str name, const struct json *value)
{
	if (!value)
		return;
	buf_add_byte(out, ',');
	json_put_str(out, name);
	buf_add_byte(out, ':');
	capnweb_plain(out, value);
}

/* "2=cwd", "2=*", "0.language", "0.envVars=env_vars" */
static void put_item(struct buf *out, struct str item, const struct capnweb_call *call)
{
	const struct json *arg = capnweb_call_arg(call, (size_t)(item.p[0] - '0'));
	struct str name = STR_NULL, member = str_split(str_skip(item, 2), '=', &name);
	if (item.p[1] == '.') {
		auto_free char *key = str_dup(member);
		const struct json *value = arg && arg->type == JSON_T_OBJECT ? json_get(arg, key) : NULL;
		put_member(out, name.n ? name : member, capnweb_is_undefined(value) ? NULL : value);
	} else if (str_eq_c(member, "*")) {
		capnweb_plain_members(out, arg);
	} else {
		put_member(out, member, arg);
	}
}

int rpc_request(const struct rpc_call *c, struct buf *target, struct buf *body, struct err *e)
{
	const struct rpc_method *m = c->method;
	if (put_target(target, c->route->pattern, c->call, e) < 0)
		return -1;
	if (m->query)
		buf_add_byte(target, '?');
	if (m->query && put_target(target, m->query, c->call, e) < 0)
		return -1;
	for (struct str rest = str_of(m->body ? m->body : ""); rest.n;)
		put_item(body, str_split(rest, ' ', &rest), c->call);
	if (m->body && !buf_size(body))
		buf_add_byte(body, ',');
	/* The first comma becomes the brace. */
	if (buf_size(body)) {
		body->p[body->off] = '{';
		buf_add_byte(body, '}');
	}
	if (body->failed || buf_size(target) > HTTP_TARGET_MAX)
		return err_set(e, ERRC_VALIDATION_FAILED, "the arguments are too long");
	return 0;
}
