#include <stdlib.h>

#include "agent/agent.h"
#include "agent/command/run.h"
#include "agent/limits.h"
#include "agent/rpc/control.h"
#include "agent/shell/session.h"

/*
 * mounts.*, workspace.* and the methods of backup.* that have no route: each is a script that runs programs of the box,
 * with the arguments of the call as its words. No text of a call is part of a script. URLs and patterns come in on
 * stdin.
 */

enum answer {
	ANSWER_BOOL,	/* whether it succeeded */
	ANSWER_NOTHING, /* undefined */
	ANSWER_RESULT,	/* {success, exitCode, stdout, stderr} */
	ANSWER_SIZE,	/* {existingSize} from its output */
	ANSWER_ARCHIVE	/* {archivePath} from its output */
};
enum input { INPUT_NONE, INPUT_URL, INPUT_PARTS, INPUT_EXCLUDES, INPUT_S3FS };

struct script {
	const char *name;
	const char *args; /* "0" is an argument, "0.dir" a member of one, "#0.size" a member that is a whole number */
	enum input input;
	enum answer answer;
	const char *failed;	     /* the code of a failure; NULL: a failure is an answer too */
	const char *prefix, *suffix; /* of the argument that is an archive, the last one; NULL: none is */
	const char *text;
};

#define BACKUPS	   "/var/backups/"
#define WORKSPACES "/tmp/sandbox-workspace-"
#define UNMOUNT                                                                                                        \
	"unmount() { if command -v fusermount3 >/dev/null; then fusermount3 -u \"$1\"; else fusermount -u \"$1\"; "    \
	"fi; }\n"
#define S3FS                                                                                                           \
	"IFS= read -r options; log=$3\n"                                                                               \
	"[ -n \"$log\" ] || exec s3fs \"$1\" \"$2\" -o \"$options\"\n"                                                 \
	"s3fs \"$1\" \"$2\" -o \"$options\" >>\"$log\" 2>&1 || { tail -n 20 \"$log\"; exit 2; }\n"                     \
	"for i in {1..60}; do mountpoint -q \"$2\" && exit 0; sleep 0.1; done\n"                                       \
	"tail -n 20 \"$log\"; exit 3\n"
/* URLs are secrets: curl reads them from a file that others cannot. */
#define CURL                                                                                                           \
	"umask 077; tmp=$(mktemp -d) || exit 1; trap 'rm -rf \"$tmp\"' EXIT\n"                                         \
	"get() { local n=$1 url=$2; shift 2; printf 'url = \"%s\"\\n' \"$url\" >\"$tmp/$n.url\"\n"                     \
	"  curl -sS --fail --proto =http,https --connect-timeout 10 --retry 3 -K \"$tmp/$n.url\" \"$@\"; }\n"
#define UPLOAD                                                                                                         \
	CURL "IFS= read -r url; get 0 \"$url\" --max-time \"$(($1 / 1000 + 1))\" -H Expect: -T \"$2\" -o /dev/null\n"
/* Four at a time, each from its offset on; the archive has its name only when it is complete. */
#define DOWNLOAD                                                                                                       \
	CURL "part=$3.part.$$; trap 'rm -rf \"$tmp\" \"$part\"' EXIT\n"                                                \
	     "mkdir -p \"${3%/*}\" && truncate -s \"$2\" \"$part\" || exit 1\n"                                        \
	     "one() { local n=$1 at=$2 range=$3 url=$4 more=()\n"                                                      \
	     "  [ \"$range\" = - ] || more=(-H \"Range: $range\")\n"                                                   \
	     "  set -o pipefail; get \"$n\" \"$url\" --max-time \"$limit\" \"${more[@]}\" |\n"                         \
	     "    dd of=\"$part\" bs=1M oflag=seek_bytes seek=\"$at\" conv=notrunc iflag=fullblock status=none; }\n"   \
	     "limit=$(($1 / 1000 + 1)) pids=() failed=0 n=0\n"                                                         \
	     "while IFS=' ' read -r at range url; do\n"                                                                \
	     "  if [ ${#pids[@]} -ge 4 ]; then wait \"${pids[0]}\" || failed=1; pids=(\"${pids[@]:1}\"); fi\n"         \
	     "  one $((n++)) \"$at\" \"$range\" \"$url\" </dev/null & pids+=($!)\n"                                    \
	     "done\n"                                                                                                  \
	     "for pid in \"${pids[@]}\"; do wait \"$pid\" || failed=1; done\n"                                         \
	     "[ $failed = 0 ] || exit 1\n"                                                                             \
	     "[ \"$(stat -c %s \"$part\")\" = \"$2\" ] || { echo 'the archive has another size' >&2; exit 1; }\n"      \
	     "mv \"$part\" \"$3\"\n"

static const struct script scripts[] = {
	{"mounts.pathExists", "0", INPUT_NONE, ANSWER_BOOL, NULL, NULL, NULL, "test -d \"$1\""},
	{"mounts.ensureDirectory", "0", INPUT_NONE, ANSWER_NOTHING, "FILESYSTEM_ERROR", NULL, NULL,
		"mkdir -p -- \"$1\""},
	{"mounts.chmodOwnerOnly", "0", INPUT_NONE, ANSWER_NOTHING, "FILESYSTEM_ERROR", NULL, NULL,
		"chmod 0600 -- \"$1\""},
	{"mounts.deleteFile", "0", INPUT_NONE, ANSWER_NOTHING, "FILESYSTEM_ERROR", NULL, NULL, "rm -f -- \"$1\""},
	{"mounts.isMountpoint", "0", INPUT_NONE, ANSWER_BOOL, NULL, NULL, NULL, "mountpoint -q -- \"$1\""},
	{"mounts.unmountFuse", "0", INPUT_NONE, ANSWER_RESULT, NULL, NULL, NULL, UNMOUNT "unmount \"$1\""},
	{"mounts.unmountFuseIfMounted", "0", INPUT_NONE, ANSWER_NOTHING, "BUCKET_UNMOUNT_ERROR", NULL, NULL,
		UNMOUNT "if mountpoint -q -- \"$1\"; then unmount \"$1\"; fi"},
	{"mounts.removeMountDirectory", "0.path 0.onlyIfNotMountpoint", INPUT_NONE, ANSWER_RESULT, NULL, NULL, NULL,
		"if [ \"$2\" = true ] && mountpoint -q -- \"$1\"; then exit 0; fi; rmdir -- \"$1\""},
	{"mounts.mountS3FS", "0.source 0.mountPath", INPUT_S3FS, ANSWER_RESULT, NULL, NULL, NULL, S3FS},
	{"mounts.mountS3FSAndVerify", "0.source 0.mountPath 0.options.logfile", INPUT_S3FS, ANSWER_RESULT, NULL, NULL,
		NULL, S3FS},

	{"workspace.createArchive", "0.root", INPUT_EXCLUDES, ANSWER_ARCHIVE, "INTERNAL_ERROR", NULL, NULL,
		"a=$(mktemp " WORKSPACES "XXXXXXXXXX.tar) && tar -c -f \"$a\" -C \"$1\" -X - . && echo \"$a\" ||\n"
		"  { rm -f \"$a\"; exit 1; }\n"},
	{"workspace.extractArchive", "0.root 0.archivePath", INPUT_NONE, ANSWER_NOTHING, "INTERNAL_ERROR", WORKSPACES,
		".tar", "mkdir -p -- \"$1\" && tar -x -f \"$2\" -C \"$1\"; r=$?; rm -f -- \"$2\"; exit $r"},
	{"workspace.cleanupArchive", "0", INPUT_NONE, ANSWER_NOTHING, "INTERNAL_ERROR", WORKSPACES, ".tar",
		"rm -f -- \"$1\""},

	{"backup.uploadArchive", "#0.timeoutMs 0.archivePath", INPUT_URL, ANSWER_NOTHING, "BACKUP_CREATE_FAILED",
		BACKUPS, ".sqsh", UPLOAD},
	{"backup.downloadArchive", "#0.timeoutMs #0.expectedSize 0.archivePath", INPUT_PARTS, ANSWER_NOTHING,
		"BACKUP_RESTORE_FAILED", BACKUPS, ".sqsh", DOWNLOAD},
	{"backup.prepareRestore", "0.dir 0.archivePath", INPUT_NONE, ANSWER_SIZE, "BACKUP_RESTORE_FAILED", BACKUPS,
		".sqsh",
		"command -v fusermount3 >/dev/null && fusermount3 -uzq \"$1\" 2>/dev/null; mkdir -p " BACKUPS
		" || exit 1\n"
		"if [ -f \"$2\" ]; then stat -c %s \"$2\"; else echo 0; fi\n"},
	{"backup.extractArchive", "0 1", INPUT_NONE, ANSWER_NOTHING, "BACKUP_RESTORE_FAILED", BACKUPS, ".sqsh",
		"unsquashfs -quiet -no-progress -f -d \"$1\" \"$2\" >&2"},
	{"backup.cleanupArchive", "0", INPUT_NONE, ANSWER_NOTHING, "INTERNAL_ERROR", BACKUPS, ".sqsh",
		"rm -f -- \"$1\""},
};

struct running {
	struct control_wait wait;
	const struct script *script;
	struct buf out, err;
};

/* ---- the end ---- */

static void keep_end(struct buf *b, struct str bytes)
{
	if (bytes.n > CONTROL_SCRIPT_OUT_MAX)
		bytes = str_skip(bytes, bytes.n - CONTROL_SCRIPT_OUT_MAX);
	if (buf_size(b) + bytes.n > CONTROL_SCRIPT_OUT_MAX)
		buf_consume(b, buf_size(b) + bytes.n - CONTROL_SCRIPT_OUT_MAX);
	buf_add_str(b, bytes);
}

static void on_output(struct cmd *cmd, int stream, struct str bytes)
{
	struct running *s = cmd_arg(cmd);
	keep_end(stream == CMD_STDOUT ? &s->out : &s->err, bytes);
}

static void put_result(struct json_writer *w, const struct running *s, int code)
{
	json_object_begin(w);
	json_member_bool(w, "success", code == 0);
	json_member_i64(w, "exitCode", code);
	json_member_str(w, "stdout", buf_str(&s->out));
	json_member_str(w, "stderr", buf_str(&s->err));
	json_object_end(w);
}

static void put_answer(struct buf *b, const struct running *s, int code)
{
	struct json_writer w = json_writer(b);
	struct str rest, line = str_trim(str_split(buf_str(&s->out), '\n', &rest));
	uint64_t size = 0;
	switch (s->script->answer) {
	case ANSWER_BOOL:
		return json_bool(&w, code == 0);
	case ANSWER_NOTHING:
		buf_add_str(b, CAPNWEB_UNDEFINED);
		return;
	case ANSWER_RESULT:
		return put_result(&w, s, code);
	case ANSWER_SIZE:
	case ANSWER_ARCHIVE:
		break;
	}
	json_object_begin(&w);
	if (s->script->answer == ANSWER_ARCHIVE)
		json_member_str(&w, "archivePath", line);
	else
		json_member_u64(&w, "existingSize", str_to_u64(line, INT64_MAX, &size) ? size : 0);
	json_object_end(&w);
}

static void reject(struct capnweb_call *call, const struct running *s, int code)
{
	auto_buf struct buf details = {0}, message = {0};
	struct json_writer w = json_writer(&details);
	struct str said = str_trim(buf_str(&s->err));
	put_result(&w, s, code);
	buf_printf(&message, "%s failed (exit code %d): %.*s", s->script->name, code,
		(int)(said.n < 400 ? said.n : 400), said.p ? said.p : "");
	rpc_reject_with(call, buf_str(&message), str_of(s->script->failed), buf_str(&details));
}

static void on_end(struct cmd *cmd, const struct cmd_result *r)
{
	struct running *s = cmd_arg(cmd);
	struct capnweb_call *call = control_wait_take(&s->wait);
	auto_buf struct buf b = {0};
	if (call && s->script->failed && r->exit_code) {
		reject(call, s, r->exit_code);
	} else if (call) {
		put_answer(&b, s, r->exit_code);
		capnweb_resolve(call, buf_str(&b));
	}
	buf_free(&s->out);
	buf_free(&s->err);
	free(s);
}

/* ---- arguments ---- */

static bool is_line(struct str s)
{
	return !memchr(s.p, '\n', s.n) && !memchr(s.p, 0, s.n) && s.n < AGENT_PATH_MAX;
}

/* The word that "0.options.logfile" means; NULL: there is none, or it cannot be one. */
static char *word(const struct capnweb_call *call, struct str spec)
{
	/* bash runs what it finds in a number, so a text is none. */
	bool number = spec.p[0] == '#';
	struct str rest, first = str_split(number ? str_skip(spec, 1) : spec, '.', &rest);
	uint64_t n;
	const struct json *value = capnweb_call_arg(call, (size_t)(first.p[0] - '0'));
	while (rest.n) {
		auto_free char *name = str_dup(str_split(rest, '.', &rest));
		value = control_option(value, name);
	}
	if (!value || (number && (value->type != JSON_T_NUMBER || !str_to_u64(value->text, INT64_MAX, &n))))
		return NULL;
	if (value->type == JSON_T_BOOL)
		return xstrdup(value->boolean ? "true" : "false");
	bool text = value->type == JSON_T_STRING || value->type == JSON_T_NUMBER;
	return text && value->text.n && is_line(value->text) ? str_dup(value->text) : NULL;
}

static bool is_archive(const struct script *s, const char *path)
{
	struct str p = str_of(path);
	return str_starts(p, str_of(s->prefix)) && str_ends(p, str_of(s->suffix)) &&
	       !strchr(path + strlen(s->prefix), '/');
}

/* A field that ends with `end`, '\n' or a blank, and has none in it. */
static bool add_field(struct buf *b, const struct json *value, char end)
{
	if (!value || (value->type != JSON_T_STRING && value->type != JSON_T_NUMBER) || !value->text.n ||
		memchr(value->text.p, '\n', value->text.n) || memchr(value->text.p, '"', value->text.n) ||
		memchr(value->text.p, end, value->text.n) || value->text.n > BACKUP_URL_MAX)
		return false;
	buf_add_str(b, value->text);
	buf_add_byte(b, end);
	return true;
}

static bool add_parts(struct buf *b, const struct json *parts)
{
	size_t n = 0;
	json_each(it, parts)
	{
		const struct json *range = control_option(it, "range");
		if (++n > BACKUP_PARTS_MAX || !add_field(b, control_option(it, "offset"), ' '))
			return false;
		if (!range)
			buf_add_c(b, "- ");
		else if (!add_field(b, range, ' '))
			return false;
		if (!add_field(b, control_option(it, "url"), '\n'))
			return false;
	}
	return n > 0;
}

static bool add_options(struct buf *b, const struct json *options)
{
	if (!options || options->type != JSON_T_OBJECT)
		return false;
	json_each(it, options)
	{
		bool flag = it->type == JSON_T_BOOL && it->boolean;
		if ((!flag && it->type != JSON_T_STRING) || !is_line(it->key) || (!flag && !is_line(it->text)))
			return false;
		buf_printf(b, "%s%.*s", it == options->first ? "" : ",", STR_ARG(it->key));
		if (!flag)
			buf_printf(b, "=%.*s", STR_ARG(it->text));
	}
	buf_add_byte(b, '\n');
	return true;
}

static bool add_excludes(struct buf *b, const struct json *list)
{
	json_each(it, list)
	{
		struct str s = it->text;
		if (it->type != JSON_T_STRING || !s.n || !is_line(s) || s.p[0] == '/')
			return false;
		buf_printf(b, "%s%.*s\n", str_starts(s, STR("./")) ? "" : "./", STR_ARG(s));
	}
	return true;
}

static bool put_input(struct buf *b, enum input input, const struct capnweb_call *call)
{
	const struct json *o = capnweb_call_arg(call, 0), *list = NULL;
	switch (input) {
	case INPUT_NONE:
		return true;
	case INPUT_URL:
		return add_field(b, control_option(o, "url"), '\n');
	case INPUT_PARTS:
		list = control_option(o, "parts");
		return list && add_parts(b, capnweb_array(list));
	case INPUT_EXCLUDES:
		list = control_option(o, "excludes");
		return !list || add_excludes(b, capnweb_array(list));
	case INPUT_S3FS:
		return add_options(b, control_option(o, "options"));
	}
	return false;
}

/* ---- start ---- */

enum { WORDS_MAX = 3 };

static void start(
	struct rpc *r, struct capnweb_call *call, const struct script *s, char *const *words, struct buf *input)
{
	static const struct cmd_ops ops = {.on_output = on_output, .on_end = on_end};
	const char *argv[] = {agent.shell ? agent.shell : "bash", "-c", s->text, "control", words[0] ? words[0] : "",
		words[1] ? words[1] : "", words[2] ? words[2] : "", NULL};
	auto_env struct env env = {0};
	struct run_spec spec = {.has_input = true, .timeout_ms = CONTROL_SCRIPT_TIMEOUT};
	struct running *run = xcalloc(1, sizeof *run);
	struct run_place at = {.env = &env, .cwd = "/", .ops = &ops, .arg = run};
	enum spawn_step step;
	struct cmd *cmd;
	struct err e;
	session_env(NULL, &env);
	run->script = s;
	if (run_start_argv(argv, &spec, &at, &cmd, &step, &e) < 0) {
		free(run);
		return rpc_reject(call, &e);
	}
	control_wait_add(&run->wait, r, call);
	cmd_input(cmd, buf_str(input));
	cmd_input_end(cmd);
}

bool control_script_start(struct rpc *r, struct capnweb_call *call, const char *name)
{
	const struct script *s = NULL;
	for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
		if (strcmp(scripts[i].name, name) == 0)
			s = &scripts[i];
	if (!s)
		return false;
	char *words[WORDS_MAX] = {NULL};
	auto_buf struct buf input = {0};
	size_t n = 0;
	bool ok = true;
	for (struct str rest = str_of(s->args); rest.n && ok; n++) {
		struct str spec = str_split(rest, ' ', &rest);
		words[n] = word(call, spec);
		ok = words[n] || str_ends(spec, STR(".logfile"));
	}
	ok = ok && (!s->prefix || is_archive(s, words[n - 1])) && put_input(&input, s->input, call);
	if (ok)
		start(r, call, s, words, &input);
	else
		control_reject(call, "VALIDATION_FAILED", "an argument is missing or cannot be used", NULL);
	for (size_t i = 0; i < WORDS_MAX; i++)
		free(words[i]);
	return true;
}
