#include "daemon/storage/buckets.h"

#include <ctype.h>
#include <stdio.h>

#include "daemon/core/sandbox.h"
#include "daemon/core/settings.h"
#include "daemon/limits.h"
#include "daemon/network/secrets.h"
#include "proto/id.h"

#define NOTE ".mounts"

/* ---- reading ---- */

static bool bucket_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!isalnum((unsigned char)s.p[i]) && !memchr("._-", s.p[i], 3))
			return false;
	return s.n >= 3 && s.n <= BUCKET_NAME_MAX && isalnum((unsigned char)s.p[0]);
}

/* Only TLS: the gate signs nothing on an open line. */
static bool endpoint_ok(struct str s)
{
	struct str port, host = str_split(str_skip(s, str_starts(s, STR("https://")) ? 8 : s.n), ':', &port);
	uint64_t number = 443;
	for (size_t i = 0; i < host.n; i++)
		if (!isalnum((unsigned char)host.p[i]) && host.p[i] != '.' && host.p[i] != '-')
			return false;
	return host.n && host.n <= 253 && (!port.n || (str_to_u64(port, 65535, &number) && number)) &&
	       s.n <= BUCKET_ENDPOINT_MAX;
}

static bool prefix_ok(struct str s)
{
	if (!s.n)
		return true;
	if (s.p[0] != '/' || s.n > BUCKET_PREFIX_MAX)
		return false;
	for (struct str rest = str_skip(s, 1); rest.n;) {
		struct str part = str_split(rest, '/', &rest);
		if (!part.n || str_eq_c(part, ".") || str_eq_c(part, ".."))
			return false;
		for (size_t i = 0; i < part.n; i++)
			if ((unsigned char)part.p[i] < ' ' || part.p[i] == 127)
				return false;
	}
	return true;
}

static struct str without_slash(struct str s)
{
	return s.n && s.p[s.n - 1] == '/' ? str_n(s.p, s.n - 1) : s;
}

static int check_known(const struct json *body, struct err *e)
{
	static const char *const known[] = {"bucket", "path", "endpoint", "prefix", "readOnly", "secret"};
	if (body->type != JSON_T_OBJECT)
		return err_set(e, ERRC_VALIDATION_FAILED, "the body must be a JSON object");
	json_each(it, body)
	{
		bool ok = false;
		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			ok = ok || str_eq_c(it->key, known[i]);
		if (!ok)
			return err_field(e, "body", "field '%.*s' is not known", (int)(it->key.n < 40 ? it->key.n : 40),
				it->key.p);
	}
	return 0;
}

int bucket_parse(const struct json *body, struct bucket_mount *ret, struct err *e)
{
	struct bucket_mount m = {0};
	struct str bucket = STR_NULL, path = STR_NULL, endpoint = STR_NULL, prefix = STR_NULL, secret = STR_NULL;
	if (check_known(body, e) < 0 || json_read_str(body, "bucket", &bucket, e) < 0 ||
		json_read_str(body, "path", &path, e) < 0 || json_read_str(body, "endpoint", &endpoint, e) < 0 ||
		json_read_str(body, "prefix", &prefix, e) < 0 || json_read_str(body, "secret", &secret, e) < 0 ||
		json_read_bool(body, "readOnly", &m.read_only, e) < 0)
		return -1;
	endpoint = without_slash(endpoint);
	prefix = without_slash(prefix);
	if (!bucket_ok(bucket))
		return err_field(e, "bucket", "field 'bucket' must be 3 to %d letters, digits, '.', '_' and '-'",
			BUCKET_NAME_MAX);
	if (!volume_path_ok(path))
		return err_field(e, "path",
			"field 'path' must be absolute, at most %d bytes long and without '.', '..', '//' or a slash "
			"at the end; not / and nothing in /proc, /dev and /sys",
			VOLUME_PATH_MAX);
	if (!endpoint_ok(endpoint))
		return err_field(
			e, "endpoint", "field 'endpoint' must be like \"https://s3.eu-central-1.amazonaws.com\"");
	if (!prefix_ok(prefix))
		return err_field(
			e, "prefix", "field 'prefix' must be like \"/a/b\", at most %d bytes", BUCKET_PREFIX_MAX);
	if (!secrets_name_ok(secret))
		return err_field(e, "secret", "field 'secret' must name a secret with 'aws'");
	snprintf(m.bucket, sizeof m.bucket, "%.*s", STR_ARG(bucket));
	snprintf(m.path, sizeof m.path, "%.*s", STR_ARG(path));
	snprintf(m.endpoint, sizeof m.endpoint, "%.*s", STR_ARG(endpoint));
	snprintf(m.prefix, sizeof m.prefix, "%.*s", STR_ARG(prefix));
	snprintf(m.secret, sizeof m.secret, "%.*s", STR_ARG(secret));
	*ret = m;
	return 0;
}

void bucket_write(struct json_writer *w, const struct bucket_mount *m)
{
	json_object_begin(w);
	json_member_cstr(w, "bucket", m->bucket);
	json_member_cstr(w, "path", m->path);
	json_member_cstr(w, "endpoint", m->endpoint);
	if (*m->prefix)
		json_member_cstr(w, "prefix", m->prefix);
	json_member_bool(w, "readOnly", m->read_only);
	json_member_cstr(w, "secret", m->secret);
	json_object_end(w);
}

/* ---- settings ---- */

bool buckets_any(const char *settings)
{
	const struct json *list;
	auto_json struct json_doc *doc = settings_get(settings, NOTE, &list);
	return list && list->count;
}

/* The mounts of settings but the one at `except` (or NULL), into an array that is being written. */
static bool copy(struct json_writer *w, const char *settings, const char *except)
{
	const struct json *list;
	struct bucket_mount m;
	bool found = false;
	auto_json struct json_doc *doc = settings_get(settings, NOTE, &list);
	json_each(it, list)
	{
		if (bucket_parse(it, &m, NULL) < 0)
			continue;
		if (except && strcmp(m.path, except) == 0)
			found = true;
		else
			bucket_write(w, &m);
	}
	return found;
}

void buckets_write(struct json_writer *w, const char *settings)
{
	json_array_begin(w);
	copy(w, settings, NULL);
	json_array_end(w);
}

static int check_place(const char *settings, const struct bucket_mount *m, struct err *e)
{
	const struct json *list, *volumes;
	struct str other = STR_NULL;
	auto_json struct json_doc *doc = settings_get(settings, NOTE, &list);
	auto_json struct json_doc *more = settings_get(settings, "volumes", &volumes);
	if (list && list->count >= BUCKET_MOUNTS_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "a sandbox has at most %d buckets", BUCKET_MOUNTS_MAX);
	const struct json *const both[] = {list, volumes};
	for (size_t i = 0; i < ARRAY_LEN(both); i++)
		json_each(it, both[i])
		{
			if (json_read_str(it, "path", &other, NULL) == 0 &&
				volume_paths_overlap(other, str_of(m->path)))
				return err_set(
					e, ERRC_RESOURCE_BUSY, "%.*s is a bucket or a volume already", STR_ARG(other));
		}
	return 0;
}

/* "secrets": those that it has and that were not deleted since, and this one. */
static int write_secrets(struct json_writer *w, const struct sandbox *s, const char *name, struct err *e)
{
	const struct json *names;
	bool there = false;
	auto_json struct json_doc *doc = settings_get(s->spec.settings, "secrets", &names);
	if (names && names->count >= SECRETS_BOX_MAX)
		return err_set(e, ERRC_LIMIT_REACHED, "a sandbox has at most %d secrets", SECRETS_BOX_MAX);
	json_key(w, "secrets");
	json_array_begin(w);
	json_each(it, names)
	{
		there = there || str_eq_c(it->text, name);
		if (secrets_known(s->daemon, it->text))
			json_str(w, it->text);
	}
	if (!there)
		json_cstr(w, name);
	json_array_end(w);
	return 0;
}

char *buckets_add(const struct sandbox *s, const struct bucket_mount *m, struct err *e)
{
	const char *settings = s->spec.settings;
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	if (!secrets_is_aws(s->daemon, m->secret)) {
		err_set(e, ERRC_NOT_FOUND, "there is no secret '%s' with 'aws'; make it first", m->secret);
		err_about(e, "secret");
		return NULL;
	}
	if (check_place(settings, m, e) < 0)
		return NULL;
	json_object_begin(&w);
	if (!secrets_has(s, m->secret) && write_secrets(&w, s, m->secret, e) < 0)
		return NULL;
	json_key(&w, NOTE);
	json_array_begin(&w);
	copy(&w, settings, NULL);
	bucket_write(&w, m);
	json_array_end(&w);
	json_object_end(&w);
	return str_dup(buf_str(&out));
}

char *buckets_remove(const char *settings, const char *path, struct err *e)
{
	auto_buf struct buf out = {0};
	struct json_writer w = json_writer(&out);
	json_object_begin(&w);
	json_key(&w, NOTE);
	json_array_begin(&w);
	bool found = copy(&w, settings, path);
	json_array_end(&w);
	json_object_end(&w);
	if (found)
		return str_dup(buf_str(&out));
	err_set(e, ERRC_NOT_FOUND, "no bucket is mounted at %s", path);
	return NULL;
}

/* ---- in the box ---- */

/* $1 bucket, $2 path, $3 endpoint, $4 key id, $5 key, $6 further options, $7 "1": one that is there is fine. s3fs looks
 * for the bucket after it has mounted, and as a daemon it would tell nobody: it runs in the foreground of a process of
 * its own, and the first question to the mount waits for its answer. One that fails gets some seconds to say why. */
#define SCRIPT_MOUNT                                                                                                   \
	"one() {\n"                                                                                                    \
	"  local made= log pid\n"                                                                                      \
	"  command -v s3fs >/dev/null || { echo 's3fs is not in this image' >&2; return 127; }\n"                      \
	"  [ \"$7\" != 1 ] || ! findmnt -t fuse.s3fs -M \"$2\" >/dev/null 2>&1 || return 0\n"                          \
	"  ! mountpoint -q \"$2\" || { echo \"$2 is a mount point already\" >&2; return 1; }\n"                        \
	"  [ -d \"$2\" ] || { mkdir -p \"$2\" || return; made=1; }\n"                                                  \
	"  log=$(mktemp) || return\n"                                                                                  \
	"  AWS_ACCESS_KEY_ID=$4 AWS_SECRET_ACCESS_KEY=$5 setsid s3fs \"$1\" \"$2\" -f -o \"url=$3\" -o \"$6\" "        \
	"</dev/null >\"$log\" 2>&1 &\n"                                                                                \
	"  pid=$!\n"                                                                                                   \
	"  until mountpoint -q \"$2\"; do kill -0 $pid 2>/dev/null || break; sleep 0.02; done\n"                       \
	"  if stat \"$2/.\" >/dev/null 2>&1 && kill -0 $pid 2>/dev/null && mountpoint -q \"$2\"; then\n"               \
	"    rm -f \"$log\"; return 0\n"                                                                               \
	"  fi\n"                                                                                                       \
	"  for _ in $(seq 500); do kill -0 $pid 2>/dev/null || break; sleep 0.02; done\n"                              \
	"  kill $pid 2>/dev/null; wait $pid\n"                                                                         \
	"  grep -v '\\[INF\\]' \"$log\" | sed 's/^[0-9TZ:.-]* \\[[A-Z]*\\] *//; "                                      \
	"s/^[a-z0-9_.]*:[A-Za-z0-9_]*([0-9]*): //' | tail -n 3 >&2\n"                                                  \
	"  rm -f \"$log\"\n"                                                                                           \
	"  [ -z \"$made\" ] || rmdir \"$2\"\n"                                                                         \
	"  return 1\n"                                                                                                 \
	"}\n"
#define S3FS_OPTIONS   "use_path_request_style,allow_other,connect_timeout=10,readwrite_timeout=30"
#define SCRIPT_UNMOUNT "fusermount3 -u "

void buckets_put_script(struct buf *script)
{
	buf_add_c(script, SCRIPT_MOUNT);
}

/* A word for a shell. */
static void quote(struct buf *out, const char *text)
{
	buf_add_byte(out, '\'');
	for (; *text; text++)
		if (*text == '\'')
			buf_add_c(out, "'\\''");
		else
			buf_add_byte(out, *text);
	buf_add_c(out, "' ");
}

static void put_mount(struct buf *script, const struct sandbox *s, const struct bucket_mount *m, bool again)
{
	char key[SECRET_PLACEHOLDER + 1], bucket[BUCKET_NAME_MAX + BUCKET_PREFIX_MAX + 2];
	secrets_placeholder(s, str_of(m->secret), key);
	snprintf(bucket, sizeof bucket, "%s%s%s", m->bucket, *m->prefix ? ":" : "", m->prefix);
	buf_add_c(script, "one ");
	quote(script, bucket);
	quote(script, m->path);
	quote(script, m->endpoint);
	quote(script, key);
	quote(script, key);
	quote(script, m->read_only ? S3FS_OPTIONS ",ro" : S3FS_OPTIONS);
	quote(script, again ? "1" : "0");
	buf_add_c(script, "|| exit 1\n");
}

struct call {
	struct sandbox *sandbox; /* referenced */
	const char *what;
	buckets_on_done on_done;
	void *arg;
};

/* What the tool said, on one line, without control characters: it comes from a box. */
static void take_words(struct str said, char *ret, size_t cap)
{
	size_t n = 0;
	said = str_trim(said);
	for (size_t i = 0; i < said.n && n + 1 < cap; i++)
		ret[n++] = (unsigned char)said.p[i] < ' ' || said.p[i] == 127 ? ' ' : said.p[i];
	ret[n] = 0;
}

static void on_reply(void *arg, const struct http_reply *r, const struct http_failure *f)
{
	struct call c = *(struct call *)arg;
	struct str said = STR_NULL;
	uint64_t code = 1;
	struct err e = {0};
	char words[200];
	free(arg);
	auto_json struct json_doc *doc = r && r->status == 200 ? json_parse(r->body, NULL) : NULL;
	if (doc) {
		json_read_u64(json_root(doc), "exitCode", 0, 255, &code, NULL);
		json_read_str(json_root(doc), "stderr", &said, NULL);
	}
	take_words(said, words, sizeof words);
	if (!doc)
		err_set(&e, ERRC_BUCKET_MOUNT_FAILED, "%s: %s", c.what, f ? f->err.msg : "the sandbox's agent refused");
	else if (code)
		err_set(&e, ERRC_BUCKET_MOUNT_FAILED, "%s: %s", c.what, *words ? words : "s3fs gave no reason in time");
	c.on_done(c.arg, e.code ? &e : NULL);
	sandbox_unref(c.sandbox);
}

static void run(struct sandbox *s, struct str script, struct call how)
{
	auto_buf struct buf body = {0};
	struct json_writer w = json_writer(&body);
	struct call *c = xmalloc(sizeof *c);
	*c = how;
	c->sandbox = s;
	sandbox_ref(s);
	json_object_begin(&w);
	json_member_str(&w, "command", script);
	json_member_cstr(&w, "sessionId", "__DISABLE_SESSION__");
	json_member_cstr(&w, "cwd", "/");
	json_member_u64(&w, "timeoutMs", BUCKET_TIMEOUT);
	json_object_end(&w);
	struct http_header type = {STR("Content-Type"), STR("application/json")};
	struct http_question q = {.options = {.method = STR("POST"),
					  .target = STR("/api/execute"),
					  .headers = &type,
					  .headers_n = 1,
					  .head_ms = BUCKET_TIMEOUT + AGENT_ENV_TIMEOUT,
					  .stall_ms = BUCKET_TIMEOUT + AGENT_ENV_TIMEOUT},
		.body = buf_str(&body),
		.max = BUCKET_REPLY_MAX,
		.on_reply = on_reply,
		.arg = c};
	http_call_whole(s->daemon->client, &s->agent, &q);
}

void bucket_mount(struct sandbox *s, const struct bucket_mount *m, buckets_on_done on_done, void *arg)
{
	auto_buf struct buf script = {0};
	buckets_put_script(&script);
	put_mount(&script, s, m, false);
	run(s, buf_str(&script), (struct call){.what = "mount the bucket", .on_done = on_done, .arg = arg});
}

void buckets_mount_all(struct sandbox *s, buckets_on_done on_done, void *arg)
{
	const struct json *list;
	struct bucket_mount m;
	auto_buf struct buf script = {0};
	auto_json struct json_doc *doc = settings_get(s->spec.settings, NOTE, &list);
	buckets_put_script(&script);
	json_each(it, list)
	{
		if (bucket_parse(it, &m, NULL) == 0)
			put_mount(&script, s, &m, true);
	}
	run(s, buf_str(&script), (struct call){.what = "mount its buckets", .on_done = on_done, .arg = arg});
}

void bucket_unmount(struct sandbox *s, const char *path, buckets_on_done on_done, void *arg)
{
	auto_buf struct buf script = {0};
	buf_add_c(&script, SCRIPT_UNMOUNT);
	quote(&script, path);
	run(s, buf_str(&script), (struct call){.what = "unmount the bucket", .on_done = on_done, .arg = arg});
}
