/*
 * POST /api/backup/create, /restore, /upload-parts: upstream's backups of a directory. Each is one script in the box
 * (script.h), with the arguments of the request.
 *
 * A create ends with its client: nobody else knows the name of the archive, which would stay for good. The other two
 * go on, since their effect is outside of this program's reach.
 */
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/backup/script.h"
#include "agent/limits.h"
#include "agent/proc/run.h"
#include "agent/request/route.h"
#include "agent/shell/session.h"
#include "base/json.h"
#include "base/log.h"

#define BACKUP_DIR "/var/backups/"

struct backup;
typedef void (*backup_done)(struct backup *b, struct json_writer *w);

struct backup {
	struct http_exchange *x; /* NULL: the client is gone */
	struct cmd *cmd;	 /* while it runs */
	bool is_create;
	const struct route *route;
	char *dir, *archive;
	struct env env;			 /* of the session */
	struct buf input;		 /* for the script */
	struct buf out, said;		 /* the script's output; the end of its stderr */
	enum errc failed;		 /* the code of a failure */
	const char *what;		 /* in the message of one */
	bool (*check)(struct backup *b); /* whether `out` is as expected; may be NULL */
	backup_done write;		 /* members of the answer */
};

static void backup_free(struct backup *b)
{
	free(b->dir);
	free(b->archive);
	env_free(&b->env);
	buf_free(&b->input);
	buf_free(&b->out);
	buf_free(&b->said);
	free(b);
}

static void backup_close(struct http_exchange *x, bool complete)
{
	struct backup *b = http_exchange_arg(x);
	(void)complete;
	b->x = NULL;
	if (b->is_create && b->cmd)
		cmd_hangup(b->cmd);
}

static void keep_end(struct buf *b, struct str bytes, size_t max)
{
	if (bytes.n > max)
		bytes = str_skip(bytes, bytes.n - max);
	if (buf_size(b) + bytes.n > max)
		buf_consume(b, buf_size(b) + bytes.n - max);
	buf_add_str(b, bytes);
}

static void on_output(struct cmd *cmd, int stream, struct str bytes)
{
	struct backup *b = cmd_arg(cmd);
	if (stream == CMD_STDERR)
		keep_end(&b->said, bytes, BACKUP_SAID_MAX);
	else
		keep_end(&b->out, bytes, BACKUP_OUT_MAX);
}

/* ---- answers ---- */

static const struct http_exchange_ops no_ops;

static void answer_failed(struct backup *b, enum errc code, int exit_code, const char *why)
{
	auto_buf struct buf context = {0};
	struct agent_request r = {.x = b->x, .route = b->route};
	struct err e;
	struct json_writer w = json_writer(&context);
	json_object_begin(&w);
	json_member_cstr(&w, "dir", b->dir ? b->dir : "");
	json_member_cstr(&w, "archivePath", b->archive);
	json_member_i64(&w, "exitCode", exit_code);
	json_member_str(&w, "stderr", buf_str(&b->said));
	json_object_end(&w);
	err_set(&e, code, "%s: %s", b->what, why);
	http_exchange_set(b->x, &no_ops, NULL);
	agent_request_fail(&r, &e, buf_str(&context));
}

static void answer_done(struct backup *b)
{
	auto_buf struct buf text = {0};
	struct agent_request r = {.x = b->x, .route = b->route};
	struct json_writer w = json_writer(&text);
	json_object_begin(&w);
	json_member_bool(&w, "success", true);
	b->write(b, &w);
	json_member_now(&w);
	json_object_end(&w);
	http_exchange_set(b->x, &no_ops, NULL);
	agent_request_json(&r, buf_str(&text));
}

/* Says that a disk is full. */
static bool is_full(struct str line)
{
	static const char full[] = "No space left on device", over[] = "Disk quota exceeded";
	return line.n &&
	       (memmem(line.p, line.n, full, sizeof full - 1) || memmem(line.p, line.n, over, sizeof over - 1));
}

/* The line that says why: the first that speaks of a full disk (tools go on to complain), else the last. */
static struct str telling_line(struct str said)
{
	struct str best = STR_NULL;
	while (said.n) {
		struct str line = str_trim(str_split(said, '\n', &said));
		if (is_full(line))
			return line;
		if (line.n)
			best = line;
	}
	return best;
}

static void ignore_output(struct cmd *cmd, int stream, struct str bytes)
{
	(void)cmd;
	(void)stream;
	(void)bytes;
}

static void ignore_end(struct cmd *cmd, const struct cmd_result *r)
{
	(void)cmd;
	(void)r;
}

static void delete_archive(const struct backup *b)
{
	static const struct cmd_ops ops = {.on_output = ignore_output, .on_end = ignore_end};
	const char *argv[] = {"bash", "-c", BACKUP_DELETE, "delete", b->archive, NULL};
	struct run_spec spec = {.timeout_ms = BACKUP_TIMEOUT};
	struct run_place at = {.env = &b->env, .cwd = "/", .ops = &ops};
	struct cmd *cmd;
	enum spawn_step step;
	struct err e;
	if (run_start_argv(argv, &spec, &at, &cmd, &step, &e) < 0)
		log_limited(LOG_WARN, "archive left behind", "path=%s error=%s", LOG_Q(b->archive), LOG_Q(e.msg));
}

static void on_end(struct cmd *cmd, const struct cmd_result *r)
{
	struct backup *b = cmd_arg(cmd);
	bool done = r->outcome == OUTCOME_EXITED && r->exit_code == 0 && (!b->check || b->check(b));
	if (!b->x && b->is_create)
		delete_archive(b);
	if (b->x && done) {
		answer_done(b);
	} else if (b->x) {
		struct str words = telling_line(buf_str(&b->said));
		auto_free char *why = r->outcome != OUTCOME_EXITED
					      ? xasprintf("it was ended (%s)", outcome_name(r->outcome))
				      : words.n ? str_dup(words)
						: xasprintf("exit code %d", r->exit_code);
		answer_failed(b, is_full(words) ? ERRC_NO_SPACE : b->failed, r->exit_code, why);
	}
	backup_free(b);
}

/* ---- start ---- */

static void start(struct agent_request *r, struct backup *b, const char *const *argv)
{
	static const struct cmd_ops ops = {.on_output = on_output, .on_end = on_end};
	static const struct http_exchange_ops x_ops = {.on_close = backup_close};
	struct run_spec spec = {.has_input = true, .timeout_ms = BACKUP_TIMEOUT};
	struct run_place at = {.env = &b->env, .cwd = "/", .ops = &ops, .arg = b};
	enum spawn_step step;
	struct err e;
	b->x = r->x;
	b->route = r->route;
	http_exchange_set(r->x, &x_ops, b);
	if (run_start_argv(argv, &spec, &at, &b->cmd, &step, &e) == 0) {
		cmd_input(b->cmd, buf_str(&b->input));
		cmd_input_end(b->cmd);
		return;
	}
	http_exchange_set(r->x, &no_ops, NULL);
	agent_request_fail(r, &e, STR_NULL);
	backup_free(b);
}

/* Absolute, without "..", and with nothing that a tool could take for something else. */
static bool is_plain_path(const char *path)
{
	return path[0] == '/' && !strstr(path, "/../") && !str_ends(str_of(path), STR("/..")) && !strchr(path, '\n') &&
	       strlen(path) < AGENT_PATH_MAX;
}

/* /var/backups/<letters, digits, hyphens>.sqsh */
static bool is_archive(const char *path)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	struct str s = str_of(path);
	if (!str_starts(s, STR(BACKUP_DIR)) || !str_ends(s, STR(".sqsh")))
		return false;
	size_t n = strspn(path + sizeof BACKUP_DIR - 1, letters);
	return n > 0 && n < 128 && strcmp(path + sizeof BACKUP_DIR - 1 + n, ".sqsh") == 0;
}

static int read_archive(const struct agent_request *r, struct backup *b, struct err *e)
{
	auto_buf struct buf mem = {0};
	struct str session;
	const char *archive = NULL;
	if (agent_request_session(r, &mem, &session, e) < 0)
		return -1;
	session_env(session_find(session), &b->env);
	if (json_read_cstr(r->body, "archivePath", &archive, e) < 0)
		return -1;
	if (!archive || !is_archive(archive))
		return err_field(e, "archivePath", "field 'archivePath' must be a file " BACKUP_DIR "<id>.sqsh");
	b->archive = xstrdup(archive);
	return 0;
}

static int read_dir(const struct agent_request *r, struct backup *b, struct err *e)
{
	const char *dir = NULL;
	if (json_read_cstr(r->body, "dir", &dir, e) < 0)
		return -1;
	if (!dir || !is_plain_path(dir))
		return err_field(e, "dir", "field 'dir' must be an absolute path without '..'");
	b->dir = xstrdup(dir);
	return read_archive(r, b, e);
}

/* ---- create ---- */

struct create_options {
	char format[8], threads[8];
	bool gitignore;
};

static int read_excludes(const struct agent_request *r, struct backup *b, struct err *e)
{
	const struct json *list = json_get(r->body, "excludes");
	if (!list || list->type == JSON_T_NULL)
		return 0;
	if (list->type != JSON_T_ARRAY)
		return err_field(e, "excludes", "field 'excludes' must be an array of texts");
	json_each(it, list)
	{
		struct str s = it->text;
		if (it->type != JSON_T_STRING || memchr(s.p, '\n', s.n) || memchr(s.p, 0, s.n) ||
			s.n > BACKUP_EXCLUDE_MAX)
			return err_field(e, "excludes", "field 'excludes' must be an array of texts of one line");
		while (s.n && s.p[0] == '/')
			s = str_skip(s, 1);
		while (str_starts(s, STR("**/")))
			s = str_skip(s, 3);
		if (s.n) {
			buf_add_str(&b->input, s);
			buf_add_str(&b->input, STR("\n"));
		}
	}
	return 0;
}

static int read_compression(const struct agent_request *r, struct create_options *o, struct err *e)
{
	const struct json *c = json_get(r->body, "compression");
	const char *format = NULL;
	uint64_t threads = 8;
	if (c && c->type != JSON_T_NULL && c->type != JSON_T_OBJECT)
		return err_field(e, "compression", "field 'compression' must be an object");
	bool has = c && c->type == JSON_T_OBJECT;
	if (has && (json_read_cstr(c, "format", &format, e) < 0 || json_read_u64(c, "threads", 1, 64, &threads, e) < 0))
		return -1;
	if (format && strcmp(format, "gzip") != 0 && strcmp(format, "lz4") != 0 && strcmp(format, "zstd") != 0)
		return err_field(e, "compression.format", "field 'compression.format' must be gzip, lz4 or zstd");
	snprintf(o->format, sizeof o->format, "%s", format ? format : "lz4");
	snprintf(o->threads, sizeof o->threads, "%u", (unsigned)threads);
	return 0;
}

static bool has_size(struct backup *b)
{
	uint64_t n;
	struct str rest;
	return str_to_u64(str_split(buf_str(&b->out), '\n', &rest), INT64_MAX, &n);
}

static void write_created(struct backup *b, struct json_writer *w)
{
	uint64_t n = 0;
	struct str rest;
	str_to_u64(str_split(buf_str(&b->out), '\n', &rest), INT64_MAX, &n);
	json_member_i64(w, "sizeBytes", (int64_t)n);
	json_member_cstr(w, "archivePath", b->archive);
}

void api_backup_create(struct agent_request *r)
{
	struct backup *b = xcalloc(1, sizeof *b);
	struct create_options o = {0};
	struct err e;
	*b = (struct backup){.is_create = true,
		.failed = ERRC_BACKUP_CREATE_FAILED,
		.what = "Failed to create the archive",
		.check = has_size,
		.write = write_created};
	if (read_dir(r, b, &e) < 0 || json_read_bool(r->body, "gitignore", &o.gitignore, &e) < 0 ||
		read_excludes(r, b, &e) < 0 || read_compression(r, &o, &e) < 0) {
		agent_request_refuse(r, &e);
		return backup_free(b);
	}
	INVARIANT(b->dir); /* read_dir has set it */
	const char *argv[] = {"bash", "-c", BACKUP_CREATE, "backup", b->dir, b->archive, o.format, o.threads,
		o.gitignore ? "1" : "0", NULL};
	start(r, b, argv);
}

/* ---- restore ---- */

static void write_restored(struct backup *b, struct json_writer *w)
{
	json_member_cstr(w, "dir", b->dir);
}

void api_backup_restore(struct agent_request *r)
{
	struct backup *b = xcalloc(1, sizeof *b);
	struct err e;
	*b = (struct backup){
		.failed = ERRC_BACKUP_RESTORE_FAILED, .what = "Failed to restore the archive", .write = write_restored};
	if (read_dir(r, b, &e) < 0) {
		agent_request_refuse(r, &e);
		return backup_free(b);
	}
	INVARIANT(b->archive); /* read_dir has set it */
	const char *name = strrchr(b->archive, '/') + 1;
	auto_free char *mounts = xasprintf(BACKUP_DIR "mounts/%.*s_", (int)(strlen(name) - 5), name);
	const char *argv[] = {"bash", "-c", BACKUP_RESTORE, "restore", b->dir, b->archive, mounts, NULL};
	start(r, b, argv);
}

/* ---- upload-parts ---- */

static int read_part(const struct json *it, struct backup *b, struct err *e)
{
	uint64_t number = 0, offset = UINT64_MAX, size = 0;
	const char *url = NULL;
	if (it->type != JSON_T_OBJECT)
		return err_field(e, "parts", "field 'parts' must be an array of objects");
	if (json_read_u64(it, "partNumber", 1, 10000, &number, e) < 0 ||
		json_read_u64(it, "offset", 0, INT64_MAX, &offset, e) < 0 ||
		json_read_u64(it, "size", 1, INT64_MAX, &size, e) < 0 || json_read_cstr(it, "url", &url, e) < 0)
		return -1;
	if (!number || !size || offset == UINT64_MAX)
		return err_field(e, "parts", "a part needs 'partNumber', 'offset' and 'size'");
	if (!url || strncmp(url, "https://", 8) != 0 || strpbrk(url, "\"\\\r\n") || strlen(url) > BACKUP_URL_MAX)
		return err_field(e, "parts", "a part needs an https 'url'");
	buf_printf(&b->input, "%llu\n%llu\n%llu\n%s\n", (unsigned long long)number, (unsigned long long)offset,
		(unsigned long long)size, url);
	return 0;
}

static int read_parts(const struct agent_request *r, struct backup *b, struct err *e)
{
	const struct json *list = json_get(r->body, "parts");
	size_t n = 0;
	if (read_archive(r, b, e) < 0)
		return -1;
	json_each(it, list && list->type == JSON_T_ARRAY ? list : NULL)
	{
		if (++n > BACKUP_PARTS_MAX)
			break;
		if (read_part(it, b, e) < 0)
			return -1;
	}
	if (!n || n > BACKUP_PARTS_MAX)
		return err_field(e, "parts", "field 'parts' must be an array of 1 to %d parts", BACKUP_PARTS_MAX);
	return 0;
}

static void write_parts(struct backup *b, struct json_writer *w)
{
	struct str rest = buf_str(&b->out);
	json_key(w, "parts");
	json_array_begin(w);
	while (rest.n) {
		struct str etag, line = str_split(rest, '\n', &rest), number = str_split(line, ' ', &etag);
		uint64_t n;
		if (!str_to_u64(number, UINT32_MAX, &n))
			continue;
		json_object_begin(w);
		json_member_i64(w, "partNumber", (int64_t)n);
		json_member_str(w, "etag", etag);
		json_object_end(w);
	}
	json_array_end(w);
}

void api_backup_upload(struct agent_request *r)
{
	struct backup *b = xcalloc(1, sizeof *b);
	struct err e;
	*b = (struct backup){
		.failed = ERRC_BACKUP_CREATE_FAILED, .what = "Failed to upload the archive", .write = write_parts};
	if (read_parts(r, b, &e) < 0) {
		agent_request_refuse(r, &e);
		return backup_free(b);
	}
	const char *argv[] = {"bash", "-c", BACKUP_UPLOAD, "upload", b->archive, NULL};
	start(r, b, argv);
}
