#include "images/registry.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "images/fetch.h"

enum { ARGS_MAX = 24 };

/* A directory of this request; the parent removes what a killed request leaves there. */
static int scratch_dir(char ret[300], struct err *e)
{
	snprintf(ret, 300, "%s/image-%d", the_order.state, (int)getpid());
	return mkdir(ret, 0700) < 0 && errno != EEXIST ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make %s", ret) : 0;
}

/* skopeo has no option for it, but looks into its home. */
static int link_mirrors(const char *dir, struct err *e)
{
	const char *given = getenv("ATOLL_REGISTRY_CONF");
	char path[360];
	if (!given || !*given)
		return 0;
	static const char *const parts[] = {".config", ".config/containers"};
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, parts[i]);
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make %s", path);
	}
	snprintf(path, sizeof path, "%s/.config/containers/registries.conf", dir);
	return symlink(given, path) < 0 && errno != EEXIST ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make %s", path)
							   : 0;
}

static bool is_local(const char *ref)
{
	struct str rest, host = str_split(str_of(ref), '/', &rest);
	return rest.n && place_is_local(host);
}

/* skopeo notes here which compressed blob a layer became, and does not compress and send it again. It must outlast the
 * request; `prune` removes it. */
static void notes_dir(char ret[300])
{
	snprintf(ret, 300, "%s/skopeo", the_order.state);
}

_Noreturn static void become_skopeo(char **argv, const char *dir, int out)
{
	int null = open("/dev/null", O_RDWR);
	char notes[300];
	notes_dir(notes);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("TMPDIR", dir, 1);
	setenv("HOME", dir, 1);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	setenv("XDG_DATA_HOME", notes, 1);
	signal(SIGPIPE, SIG_DFL);
	dup2(null, 0);
	dup2(out, 1);
	dup2(out, 2);
	execvp("skopeo", argv);
	dprintf(2, "skopeo is not installed (Debian: apt-get install skopeo)\n");
	_exit(127);
}

static void say(struct str line)
{
	auto_buf struct buf text = {0};
	struct json_writer w = json_writer(&text);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "output");
	json_member_str(&w, "text", line);
	json_object_end(&w);
	tell_event(&text);
}

/* skopeo's last line as a sentence of ours. */
static int explain(const char *ref, bool has_auth, struct str last, struct err *e)
{
	static const struct {
		const char *has;
		enum errc code;
		const char *means;
	} table[] = {
		{"invalid username", ERRC_FORBIDDEN, "the registry refuses the credentials"},
		{"authentication required", ERRC_FORBIDDEN, "the registry refuses the credentials"},
		{"unauthorized", ERRC_FORBIDDEN, "the registry refuses the credentials"},
		{"permission denied", ERRC_FILESYSTEM_ERROR,
			"the daemon's user may not read a file that the settings name"},
		{"denied", ERRC_FORBIDDEN, "the registry refuses the credentials"},
		{"not found", ERRC_IMAGE_NOT_FOUND, "the registry has no such place"},
		{"connection refused", ERRC_BAD_GATEWAY, "the registry cannot be reached"},
		{"no such host", ERRC_BAD_GATEWAY, "the registry cannot be reached"},
		{"i/o timeout", ERRC_BAD_GATEWAY, "the registry cannot be reached"},
		{"server misbehaving", ERRC_BAD_GATEWAY, "the registry cannot be reached"},
		{"x509", ERRC_BAD_GATEWAY, "the registry's certificate is not trusted"},
		{"no space left", ERRC_NO_SPACE, "the disk is full"},
		{"not installed", ERRC_HOST_UNSUPPORTED, "skopeo is not installed"},
	};
	auto_free char *text = str_dup(last);
	if (!has_auth && (strcasestr(text, "unauthorized") || strcasestr(text, "authentication required")))
		return err_set(e, ERRC_FORBIDDEN, "%s: the registry wants credentials", ref);
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (strcasestr(text, table[i].has))
			return err_set(e, table[i].code, "%s: %s", ref, table[i].means);
	return err_set(e, ERRC_BAD_GATEWAY, "%s: %.160s", ref, text);
}

struct transfer {
	const char *ref, *dir;
	const char *archive; /* an OCI layout */
	bool has_auth;
};

/* One line of skopeo's; false at the end. */
static bool next_line(int fd, struct buf *rest, struct buf *ret)
{
	char piece[4096];
	for (;;) {
		struct str s = buf_str(rest);
		ssize_t end = str_index(s, '\n');
		if (end >= 0 || s.n >= sizeof piece) {
			size_t n = end >= 0 ? (size_t)end : s.n;
			buf_clear(ret);
			buf_add_str(ret, str_trim(str_n(s.p, n)));
			buf_consume(rest, end >= 0 ? n + 1 : n);
			return true;
		}
		ssize_t n = read(fd, piece, sizeof piece);
		if (n <= 0)
			return false;
		buf_add(rest, piece, (size_t)n);
	}
}

static int run_skopeo(char **argv, const struct transfer *t, struct err *e)
{
	int ends[2], status = 0;
	auto_buf struct buf rest = {0}, last = {0};
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a pipe");
	pid_t pid = fork();
	if (pid == 0)
		become_skopeo(argv, t->dir, ends[1]);
	close(ends[1]);
	while (next_line(ends[0], &rest, &last))
		if (buf_size(&last) && str_is_utf8(buf_str(&last)))
			say(buf_str(&last));
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "run skopeo");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : explain(t->ref, t->has_auth, buf_str(&last), e);
}

/* Credentials go by a file, never by an argument that other users of the host could read. */
static int transfer(const struct transfer *t, struct err *e)
{
	char remote[IMAGE_REF_MAX + 16], local[340], auth[320];
	char *argv[ARGS_MAX] = {"skopeo", "--insecure-policy", "--tmpdir", (char *)t->dir, "copy"};
	size_t n = 5;
	snprintf(remote, sizeof remote, "docker://%s", t->ref);
	snprintf(local, sizeof local, "oci-archive:%s", t->archive);
	snprintf(auth, sizeof auth, "%s/auth.json", t->dir);
	if (t->has_auth) {
		argv[n++] = "--authfile";
		argv[n++] = auth;
	}
	const char *own = getenv("ATOLL_REGISTRY_AUTH");
	if (!t->has_auth && own && *own) {
		argv[n++] = "--authfile";
		argv[n++] = (char *)own;
	}
	if (is_local(t->ref))
		argv[n++] = "--dest-tls-verify=false";
	const char *certificates = getenv("ATOLL_REGISTRY_CERTS");
	if (certificates && *certificates) {
		argv[n++] = "--dest-cert-dir";
		argv[n++] = (char *)certificates;
	}
	argv[n++] = local;
	argv[n++] = remote;
	return link_mirrors(t->dir, e) < 0 ? -1 : run_skopeo(argv, t, e);
}

static int write_auth(const char *dir, const char *credentials, struct err *e)
{
	char path[320];
	snprintf(path, sizeof path, "%s/auth.json", dir);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_full(fd, credentials, strlen(credentials));
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "keep the credentials") : 0;
}

void remove_tree(const char *dir)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, &(int){0}, 0);
}

void push_sweep(void)
{
	char notes[300];
	notes_dir(notes);
	remove_tree(notes);
}

static int push(struct store *s, struct str name, const char *ref, const char *credentials, struct err *e)
{
	auto_work struct work w = {0};
	char dir[300], archive[320], key[BOX_IMAGE_NAME_MAX + 1];
	struct image_ref parsed, target;
	if (find_image(s, name, &parsed, key, e) < 0 || image_ref_parse(str_of(ref), &target, e) < 0 ||
		scratch_dir(dir, e) < 0)
		return -1;
	snprintf(archive, sizeof archive, "%s/image.tar", dir);
	const struct transfer t = {.ref = ref, .dir = dir, .archive = archive, .has_auth = credentials != NULL};
	auto_fd int fd = open(archive, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int r = fd < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make the archive")
		: work_open(&w, e) < 0 || export_oci(s, &w, key, "latest", fd, e) < 0 ? -1
										      : 0;
	r = r < 0 || !credentials ? r : write_auth(dir, credentials, e);
	r = r < 0 ? r : transfer(&t, e);
	remove_tree(dir);
	return r;
}

static int move(struct order *o, struct store *s, bool is_push, struct err *e)
{
	auto_json struct json_doc *doc = order_json(o, e);
	const char *ref = NULL;
	struct str name = STR_NULL;
	auto_buf struct buf auth = {0}, done = {0};
	if (!doc || json_read_cstr(json_root(doc), "reference", &ref, e) < 0 ||
		json_read_str(json_root(doc), "name", &name, e) < 0)
		return -1;
	if (!ref || !*ref || *ref == '-' || (is_push && !name.p))
		return err_field(e, ref ? "name" : "reference", "field '%s' is needed", ref ? "name" : "reference");
	const struct json *given = json_get(json_root(doc), "auth");
	if (!json_is_null(given))
		json_put_tree(&auth, given);
	const char *credentials = json_is_null(given) ? NULL : buf_cstr(&auth);
	if ((is_push ? push(s, name, ref, credentials, e) : registry_pull(s, ref, credentials, e)) < 0)
		return -1;
	struct json_writer w = json_writer(&done);
	json_object_begin(&w);
	json_member_cstr(&w, "type", "done");
	json_member_cstr(&w, "name", ref);
	json_object_end(&w);
	tell_event(&done);
	return 0;
}

int do_pull(struct order *o, struct store *s, struct err *e)
{
	return move(o, s, false, e);
}

int do_push(struct order *o, struct store *s, struct err *e)
{
	return move(o, s, true, e);
}
