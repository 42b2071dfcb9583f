/*
 * POST …/mount and …/unmount: a bucket in the box, by s3fs, with the keys of the request or of the box's variables.
 *
 * As with upstream's bridge the keys are in the box and the mount ends with it. POST /v1/sandboxes/{id}/mounts is
 * Atoll's own way: its keys stay outside, and its mounts come back. An unmount ends either.
 */
#include <string.h>

#include "base/json.h"
#include "daemon/limits.h"
#include "daemon/storage/buckets.h"
#include "doors/bridge/bridge.h"

#define S3FS_TIMES "connect_timeout=10,readwrite_timeout=30"
#define NO_KEYS                                                                                                        \
	"No credentials found. Set R2_ACCESS_KEY_ID and R2_SECRET_ACCESS_KEY or AWS_ACCESS_KEY_ID and "                \
	"AWS_SECRET_ACCESS_KEY in the sandbox, or pass credentials in options."

/* ---- what is asked for ---- */

static bool is_text(const struct json *j)
{
	return j && j->type == JSON_T_STRING && !memchr(j->text.p ? j->text.p : "", 0, j->text.n);
}

static bool is_texts(const struct json *j)
{
	if (j->type != JSON_T_ARRAY)
		return false;
	json_each(it, j)
	{
		if (!is_text(it))
			return false;
	}
	return true;
}

static bool is_keys(const struct json *j)
{
	return j->type == JSON_T_OBJECT && is_text(json_get(j, "accessKeyId")) &&
	       is_text(json_get(j, "secretAccessKey"));
}

/* Why the options are refused; NULL: they are not. `o` is an object. */
static const char *refuse_options(const struct json *o, const struct json *binding)
{
	const struct json *endpoint = json_get(o, "endpoint"), *options = json_get(o, "s3fsOptions"),
			  *read_only = json_get(o, "readOnly"), *prefix = json_get(o, "prefix"),
			  *proxy = json_get(o, "credentialProxy"), *keys = json_get(o, "credentials");
	if (endpoint && !is_text(endpoint))
		return "options.endpoint must be a string when provided";
	if (binding && !is_text(binding))
		return "binding must be a string when provided";
	if (binding && !binding->text.n)
		return "binding must be a non-empty string when provided";
	if (binding && endpoint)
		return "Provide either binding or options.endpoint, not both";
	if (options && !is_texts(options))
		return "options.s3fsOptions must be an array of strings when provided";
	if (read_only && read_only->type != JSON_T_BOOL)
		return "options.readOnly must be a boolean when provided";
	if (prefix && !is_text(prefix))
		return "options.prefix must be a string when provided";
	if (proxy && proxy->type != JSON_T_BOOL)
		return "options.credentialProxy must be a boolean when provided";
	if (keys && !is_keys(keys))
		return "options.credentials must include string accessKeyId and secretAccessKey";
	return NULL;
}

/* The place of a mount or unmount; NULL: the request has been refused. */
static const struct json *mount_path(struct bridge_call *b, const struct json *root)
{
	const struct json *path = root && root->type == JSON_T_OBJECT ? json_get(root, "mountPath") : NULL;
	const struct str text = is_text(path) ? path->text : STR_NULL;
	if (!root)
		bridge_fail(b, 400, "invalid_request", "Invalid JSON body");
	else if (!text.n)
		bridge_fail(b, 400, "invalid_request", "mountPath must be a non-empty string");
	else if (text.p[0] != '/')
		bridge_fail(b, 400, "invalid_request", "mountPath must be an absolute path (start with /)");
	else if (text.n > BRIDGE_PATH_MAX)
		bridge_fail(b, 400, "invalid_request", "mountPath is longer than %d bytes", BRIDGE_PATH_MAX);
	else
		return path;
	return NULL;
}

static bool bucket_name_ok(struct str name)
{
	static const char inside[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
	if (!name.n || name.n > BUCKET_NAME_MAX || strchr(".-", name.p[0]) || strchr(".-", name.p[name.n - 1]))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!name.p[i] || !strchr(inside, name.p[i]))
			return false;
	return true;
}

/* Why s3fs cannot be given this; NULL: it can. */
static const char *refuse_mount(const struct json *root, const struct json *o)
{
	const struct json *endpoint = json_get(o, "endpoint"), *prefix = json_get(o, "prefix"),
			  *proxy = json_get(o, "credentialProxy");
	if (!endpoint)
		return "an R2 binding needs a Worker; give options.endpoint";
	if (proxy && proxy->boolean)
		return "the bridge has no credentialProxy; POST /v1/sandboxes/{id}/mounts keeps the keys outside of "
		       "the box";
	if (!str_starts(endpoint->text, STR("https://")) && !str_starts(endpoint->text, STR("http://")))
		return "Invalid endpoint URL. Must be a valid HTTP(S) URL.";
	if (!bucket_name_ok(json_get(root, "bucket")->text))
		return "Invalid bucket name. Bucket names must be 3-63 characters, lowercase alphanumeric, dots, or "
		       "hyphens, and cannot start/end with dots or hyphens.";
	if (prefix && !str_starts(prefix->text, STR("/")))
		return "Prefix must start with '/'";
	return NULL;
}

/* ---- the script ---- */

static bool host_ends(struct str endpoint, const char *end)
{
	struct str rest, host = str_skip(endpoint, (size_t)str_index(endpoint, '/') + 2);
	host = str_split(str_split(host, '/', &rest), ':', &rest);
	size_t n = strlen(end);
	return host.n >= n && str_eq_nocase(str_skip(host, host.n - n), str_of(end));
}

/* Upstream's choice for each provider, the times of our own mounts, then the client's: s3fs takes the last. */
static void put_options(struct buf *ret, const struct json *o)
{
	struct str endpoint = json_get(o, "endpoint")->text;
	const struct json *read_only = json_get(o, "readOnly");
	buf_add_c(ret, S3FS_TIMES);
	if (host_ends(endpoint, ".r2.cloudflarestorage.com"))
		buf_add_c(ret, ",nomixupload");
	else if (!host_ends(endpoint, ".amazonaws.com") && !host_ends(endpoint, "storage.googleapis.com"))
		buf_add_c(ret, ",use_path_request_style");
	json_each(it, json_get(o, "s3fsOptions")) buf_printf(ret, ",%.*s", STR_ARG(it->text));
	if (read_only && read_only->boolean)
		buf_add_c(ret, ",ro");
}

static void put_word(struct buf *ret, struct str word)
{
	bridge_quote(ret, word);
	buf_add_byte(ret, ' ');
}

static void put_keys(struct buf *ret, const struct json *keys)
{
	if (keys) {
		put_word(ret, json_get(keys, "accessKeyId")->text);
		put_word(ret, json_get(keys, "secretAccessKey")->text);
	} else {
		buf_add_c(ret, "\"$id\" \"$key\" ");
	}
}

static void put_mount(struct buf *ret, struct str bucket, struct str path, const struct json *o)
{
	const struct json *prefix = json_get(o, "prefix"), *keys = json_get(o, "credentials");
	auto_buf struct buf source = {0}, options = {0};
	buf_add_str(&source, bucket);
	if (prefix && prefix->text.n)
		buf_printf(&source, ":%.*s", STR_ARG(prefix->text));
	put_options(&options, o);
	buckets_put_script(ret);
	if (!keys)
		buf_add_c(ret, "id=${AWS_ACCESS_KEY_ID:-$R2_ACCESS_KEY_ID} "
			       "key=${AWS_SECRET_ACCESS_KEY:-$R2_SECRET_ACCESS_KEY}\n"
			       "[ \"$id\" ] && [ \"$key\" ] || { echo '" NO_KEYS "' >&2; exit 1; }\n");
	buf_add_c(ret, "one ");
	put_word(ret, buf_str(&source));
	put_word(ret, path);
	put_word(ret, json_get(o, "endpoint")->text);
	put_keys(ret, keys);
	put_word(ret, buf_str(&options));
	buf_add_c(ret, "0\n");
}

/* Runs it outside of any session. */
static void run(struct bridge_call *b, struct str script, bridge_on_reply on_reply)
{
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_str(&w, "command", script);
	json_member_cstr(&w, "sessionId", "__DISABLE_SESSION__");
	json_member_cstr(&w, "cwd", "/");
	json_member_u64(&w, "timeoutMs", BUCKET_TIMEOUT);
	json_object_end(&w);
	bridge_ask(b, "POST", STR("/api/execute"), buf_str(&body), on_reply);
}

/* Answers {"ok":true} when the script has ended with 0. */
static void answer(struct bridge_call *b, int status, struct str body, const char *code, const char *what)
{
	auto_json struct json_doc *doc = status == 200 ? json_parse(body, NULL) : NULL;
	auto_buf struct buf why = {0};
	struct str said = STR_NULL;
	uint64_t exit_code = 1;
	if (bridge_fail_pool(b, status, body))
		return;
	if (doc) {
		json_read_u64(json_root(doc), "exitCode", 0, 255, &exit_code, NULL);
		json_read_str(json_root(doc), "stderr", &said, NULL);
		while (said.n && strchr(" \n", said.p[said.n - 1]))
			said.n--;
		buf_add_str(&why, said.n ? said : STR("s3fs gave no reason in time"));
	} else {
		bridge_message(body, &why);
	}
	if (doc && exit_code == 0)
		return bridge_ok(b);
	bridge_fail(b, 502, code, "%s failed: %s", what, buf_cstr(&why));
}

/* ---- mount ---- */

static void on_mounted(struct bridge_call *b, int status, struct str body)
{
	answer(b, status, body, "mount_error", "mount");
}

static void on_mount_body(struct bridge_call *b, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	auto_buf struct buf script = {0};
	const struct json *root = doc ? json_root(doc) : NULL;
	bool object = root && root->type == JSON_T_OBJECT;
	const struct json *bucket = object ? json_get(root, "bucket") : NULL;
	if (bucket && (!is_text(bucket) || !bucket->text.n))
		return bridge_fail(b, 400, "invalid_request", "bucket must be a non-empty string");
	const struct json *path = mount_path(b, root);
	if (!path)
		return;
	const struct json *options = json_get(root, "options"), *binding = json_get(root, "binding");
	if (!options || options->type != JSON_T_OBJECT)
		return bridge_fail(b, 400, "invalid_request", "options must be an object");
	const char *wrong = refuse_options(options, binding);
	if (!wrong && !bucket && json_get(options, "endpoint"))
		wrong = "bucket must be a non-empty string for remote mounts";
	if (!wrong && !binding && !json_get(options, "endpoint"))
		wrong = "binding must be a non-empty string for R2 binding mounts";
	if (wrong)
		return bridge_fail(b, 400, "invalid_request", "%s", wrong);
	wrong = refuse_mount(root, options);
	if (wrong)
		return bridge_fail(b, 502, "mount_error", "mount failed: %s", wrong);
	b->path = bridge_plain_path(path->text);
	put_mount(&script, bucket->text, str_of(b->path), options);
	run(b, buf_str(&script), on_mounted);
}

void bridge_mount(struct bridge_call *b)
{
	bridge_collect(b, on_mount_body);
}

/* ---- unmount ---- */

static void on_unmounted(struct bridge_call *b, int status, struct str body)
{
	answer(b, status, body, "unmount_error", "unmount");
}

/* A mount of the sandbox's settings is gone with its note. Others are the box's own. */
static void on_note_removed(struct bridge_call *b, int status, struct str body)
{
	auto_buf struct buf script = {0}, why = {0};
	if (status == 200)
		return bridge_ok(b);
	bridge_message(body, &why);
	if (status != 404 && status != 400) /* 400: longer than the place of any such mount */
		return bridge_fail(b, 502, "unmount_error", "unmount failed: %s", buf_cstr(&why));
	buf_add_c(&script, "p=");
	bridge_quote(&script, str_of(b->path));
	buf_add_c(&script, "\nfindmnt -t fuse.s3fs -M \"$p\" >/dev/null || "
			   "{ echo \"No active mount found at path: $p\" >&2; exit 1; }\n"
			   "fusermount3 -u \"$p\" || exit\n"
			   "mountpoint -q \"$p\" || rmdir \"$p\" 2>/dev/null || true\n");
	run(b, buf_str(&script), on_unmounted);
}

static void on_unmount_body(struct bridge_call *b, struct str body)
{
	auto_json struct json_doc *doc = json_parse(body, NULL);
	auto_buf struct buf target = {0};
	const struct json *path = mount_path(b, doc ? json_root(doc) : NULL);
	if (!path)
		return;
	b->path = bridge_plain_path(path->text);
	if (strcmp(b->path, "/") == 0)
		return bridge_fail(b, 400, "invalid_request", "mountPath must not resolve to / (filesystem root)");
	buf_add_c(&target, "/mounts?path=");
	bridge_percent_encode(&target, str_of(b->path));
	bridge_ask(b, "DELETE", buf_str(&target), STR_NULL, on_note_removed);
}

void bridge_unmount(struct bridge_call *b)
{
	bridge_collect(b, on_unmount_body);
}
