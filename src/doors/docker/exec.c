/*
 * exec.c - commands in a container: POST /containers/N/exec, then /exec/E/start, /exec/E/json and /exec/E/resize.
 *
 * An exec is a record in memory until its container is removed, or DOCKER_EXECS_MAX younger ones came; a daemon that is
 * killed forgets it, and its command is hung up. The command runs at /ws/exec of the daemon's own API (exec_stream.c).
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "doors/docker/exec.h"

/* ---- table ---- */

static struct docker_exec *find(struct docker *k, uid_t uid, struct str id)
{
	struct docker_exec *x = map_get(&k->execs, id);
	return x && x->uid == uid ? x : NULL;
}

static void drop(struct docker_exec *x)
{
	map_del(&x->docker->execs, str_of(x->id));
	list_del(&x->node);
	x->gone = true;
	exec_release(x);
}

void exec_hold(struct docker_exec *x)
{
	x->held++;
}

void exec_release(struct docker_exec *x)
{
	if (--x->held)
		return;
	free(x->container);
	free(x->box);
	free(x->request);
	free(x);
}

void docker_execs_forget(struct docker *k, const char *container)
{
	list_each(it, &k->execs_order)
	{
		struct docker_exec *x = list_entry(it, struct docker_exec, node);
		if (strcmp(x->container, container) == 0)
			drop(x);
	}
}

/* The oldest that does not run makes room: it has ended, or its client never started it. */
static bool make_room(struct docker *k)
{
	if (k->execs.count < DOCKER_EXECS_MAX)
		return true;
	list_each(it, &k->execs_order)
	{
		struct docker_exec *x = list_entry(it, struct docker_exec, node);
		if (x->state != EXEC_RUNNING) {
			drop(x);
			return true;
		}
	}
	return false;
}

/* ---- create ---- */

static bool flag(const struct json *root, const char *name)
{
	bool v = false;
	json_read_bool(root, name, &v, NULL);
	return v;
}

static bool is_argv(const struct json *cmd)
{
	if (!cmd || cmd->type != JSON_T_ARRAY || !cmd->first)
		return false;
	json_each(it, cmd) if (it->type != JSON_T_STRING) return false;
	return true;
}

/* What /ws/exec reads; a terminal's size is added at the start. */
static char *request_of(const struct json *root, struct str dir)
{
	auto_buf struct buf out = {0}, cmd = {0};
	auto_free char *env = docker_env(json_get(root, "Env"));
	struct json_writer w = json_writer(&out);
	json_put_tree(&cmd, json_get(root, "Cmd"));
	json_object_begin(&w);
	json_key(&w, "argv");
	json_raw(&w, buf_str(&cmd));
	json_key(&w, "env");
	json_raw(&w, str_of(env));
	if (dir.n)
		json_member_str(&w, "cwd", dir);
	return str_dup(buf_str(&out));
}

void exec_create(struct daemon_request *r, struct container *c, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	const struct json *root = doc ? json_root(doc) : NULL;
	struct docker *k = c->docker;
	struct str user = STR_NULL, dir = STR_NULL;
	if (!root || root->type != JSON_T_OBJECT || !is_argv(json_get(root, "Cmd")))
		return docker_error(r, 400, "the body must be JSON with a Cmd, a list of words");
	if (json_read_str(root, "User", &user, NULL) < 0 || json_read_str(root, "WorkingDir", &dir, NULL) < 0)
		return docker_error(r, 400, "User and WorkingDir must be text");
	if (user.n)
		return docker_error(
			r, 400, "User is not supported: commands run as the image's user; use su or setpriv in Cmd");
	if (flag(root, "Privileged"))
		return docker_error(r, 400, "Privileged is not supported");
	if (container_is_sidecar(c) || c->state != CONTAINER_RUNNING)
		return docker_error(r, 409, "container %s is not running", c->name);
	if (!make_room(k))
		return docker_error(r, 500, "there are %d commands already", DOCKER_EXECS_MAX);
	struct docker_exec *x = xcalloc(1, sizeof *x);
	*x = (struct docker_exec){.docker = k,
		.uid = c->uid,
		.container = xstrdup(c->id),
		.box = xstrdup(c->box),
		.request = request_of(root, dir),
		.tty = flag(root, "Tty"),
		.has_input = flag(root, "AttachStdin"),
		.streams = {false, flag(root, "AttachStdout"), flag(root, "AttachStderr")},
		.held = 1};
	docker_random_id(x->id);
	list_push(&k->execs_order, &x->node);
	map_put(&k->execs, str_of(x->id), x);
	auto_buf struct buf out = {0};
	buf_printf(&out, "{\"Id\":\"%s\"}", x->id);
	daemon_request_json(r, 201, buf_str(&out));
}

/* ---- looks ---- */

static void exec_json(struct daemon_request *r, const struct docker_exec *x)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_member_cstr(&w, "ID", x->id);
	json_member_cstr(&w, "ContainerID", x->container);
	json_member_bool(&w, "Running", x->state == EXEC_RUNNING);
	json_key(&w, "ExitCode");
	if (x->state == EXEC_ENDED && x->code >= 0)
		json_i64(&w, x->code);
	else
		json_null(&w);
	json_member_i64(&w, "Pid", x->pid);
	json_member_bool(&w, "OpenStdin", x->has_input);
	json_member_bool(&w, "OpenStdout", x->streams[1]);
	json_member_bool(&w, "OpenStderr", x->streams[2]);
	json_object_end(&w);
	daemon_request_json(r, 200, buf_str(&out));
}

static void exec_resize(struct daemon_request *r, struct docker_exec *x)
{
	auto_buf struct buf h = {0}, w = {0};
	uint64_t rows = 0, cols = 0;
	docker_query(r, "h", &h);
	docker_query(r, "w", &w);
	if (!str_to_u64(buf_str(&h), 65535, &rows) || !str_to_u64(buf_str(&w), 65535, &cols) || !rows || !cols)
		return docker_error(r, 400, "h and w must be the rows and columns of the terminal");
	if (!x->tty || x->state != EXEC_RUNNING)
		return docker_error(r, 409, "exec %s has no terminal that runs", x->id);
	exec_send_size(x, (uint16_t)cols, (uint16_t)rows);
	docker_no_content(r, 200);
}

static void on_start_body(struct http_exchange *hx, struct str chunk)
{
	struct daemon_request *r = http_exchange_arg(hx);
	if (buf_size(&r->docker_body) + chunk.n <= DOCKER_EXEC_BODY_MAX)
		buf_add_str(&r->docker_body, chunk);
	else
		http_abort(hx);
}

static void on_start_end(struct http_exchange *hx)
{
	struct daemon_request *r = http_exchange_arg(hx);
	struct str rest, path = docker_path(r), id = str_split(str_skip(path, strlen("/exec/")), '/', &rest);
	struct docker_exec *x = map_get(&r->daemon->docker->execs, id);
	auto_json struct json_doc *doc = buf_size(&r->docker_body) ? json_parse(buf_str(&r->docker_body), NULL) : NULL;
	buf_free(&r->docker_body);
	if (!x)
		return docker_error(r, 404, "No such exec instance");
	exec_start(r, x, doc ? json_root(doc) : NULL);
}

static void on_start_close(struct http_exchange *hx, bool complete)
{
	struct daemon_request *r = http_exchange_arg(hx);
	buf_free(&r->docker_body);
	daemon_request_closed(hx, complete);
}

void docker_exec_route(struct docker *k, struct daemon_request *r, uid_t uid, struct str rest)
{
	static const struct http_exchange_ops ops = {
		.on_body = on_start_body, .on_body_end = on_start_end, .on_close = on_start_close};
	enum http_method m = http_request(r->x)->method;
	struct str action, id = str_split(rest, '/', &action);
	struct docker_exec *x = find(k, uid, id);
	if (!x)
		return docker_error(r, 404, "No such exec instance: %.*s", (int)(id.n < 100 ? id.n : 100), id.p);
	if (m == HTTP_M_GET && str_eq_c(action, "json"))
		return exec_json(r, x);
	if (m == HTTP_M_POST && str_eq_c(action, "resize"))
		return exec_resize(r, x);
	if (m != HTTP_M_POST || !str_eq_c(action, "start"))
		return docker_error(r, 404, "page not found");
	http_exchange_set(r->x, &ops, r);
	if (http_body_ended(r->x))
		on_start_end(r->x);
}
