#include "images/fetch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#define ACCEPT                                                                                                         \
	"Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                                                  \
	"application/vnd.docker.distribution.manifest.v2+json"

/* ---- notes ---- */

void note_send(const struct fetch *f, const struct note *n)
{
	if (send(f->sock, n, sizeof *n, MSG_NOSIGNAL) != (ssize_t)sizeof *n)
		_exit(1); /* the parent is gone */
}

void note_say(const struct fetch *f, const char *text)
{
	struct note n = {.kind = NOTE_SAY};
	snprintf(n.err.msg, sizeof n.err.msg, "%s", text);
	note_send(f, &n);
}

/* ---- manifest and configuration ---- */

static int check_digest(const struct session *s, struct str bytes, struct str wanted, struct err *e)
{
	char hex[IMAGE_HEX + 1];
	digest_of(bytes, hex);
	if (str_starts(wanted, STR("sha256:")) && str_eq_c(str_skip(wanted, 7), hex))
		return 0;
	return err_set(e, ERRC_VALIDATION_FAILED, "%s: the registry sent bytes with another digest", s->ref);
}

/* The digest and size of a descriptor. */
static int read_descriptor(
	const struct session *s, const struct json *d, const char **ret, uint64_t *ret_size, struct err *e)
{
	*ret = NULL;
	*ret_size = UINT64_MAX;
	if (json_read_cstr(d, "digest", ret, e) == 0 && *ret && strncmp(*ret, "sha256:", 7) == 0 &&
		image_hex_ok(str_of(*ret + 7)) && json_read_u64(d, "size", 0, SERVICE_UPLOAD_MAX, ret_size, e) == 0 &&
		*ret_size != UINT64_MAX)
		return 0;
	return err_set(e, ERRC_VALIDATION_FAILED, "%s: the image's manifest has a malformed descriptor", s->ref);
}

static int get_checked(
	struct session *s, const char *path, const char *accept, struct str digest, struct buf *ret, struct err *e)
{
	struct answer a = {.body = {.max = SERVICE_MANIFEST_MAX}};
	int r = session_get(s, path, accept, &a, e);
	if (r == 0 && digest.n)
		r = check_digest(s, buf_str(&a.body), digest, e);
	else if (r == 0 && *a.digest && strncmp(a.digest, "sha256:", 7) == 0)
		r = check_digest(s, buf_str(&a.body), str_of(a.digest), e);
	if (r == 0)
		buf_add_str(ret, buf_str(&a.body));
	buf_free(&a.body);
	return r;
}

static int get_manifest(struct session *s, const char *version, struct buf *ret, struct err *e)
{
	char path[2 * IMAGE_REF_MAX + 32], digest[IMAGE_REF_MAX + 1];
	snprintf(digest, sizeof digest, "%s", version);
	for (int depth = 0; depth < 3; depth++) {
		uint64_t size;
		const char *next = NULL;
		snprintf(path, sizeof path, "/v2/%s/manifests/%s", s->place->repo, digest);
		buf_clear(ret);
		if (get_checked(
			    s, path, ACCEPT, strncmp(digest, "sha256:", 7) == 0 ? str_of(digest) : STR(""), ret, e) < 0)
			return -1;
		auto_json struct json_doc *doc = json_parse(buf_str(ret), NULL);
		if (!doc || json_root(doc)->type != JSON_T_OBJECT)
			return err_set(e, ERRC_VALIDATION_FAILED, "%s: the image's manifest cannot be read", s->ref);
		const struct json *list = json_get(json_root(doc), "manifests");
		if (json_is_null(list) && json_is_null(json_get(json_root(doc), "layers")))
			return err_set(e, ERRC_VALIDATION_FAILED,
				"%s: the image's manifest is of a kind that is not known", s->ref);
		if (json_is_null(list))
			return 0;
		const struct json *one = manifest_choose(list);
		if (!one)
			return err_set(e, ERRC_IMAGE_NOT_FOUND,
				"%s: the registry has no image for linux/" IMAGE_PROCESSOR, s->ref);
		if (read_descriptor(s, one, &next, &size, e) < 0)
			return -1;
		snprintf(digest, sizeof digest, "%s", next);
	}
	return err_set(e, ERRC_VALIDATION_FAILED, "%s: the image's index leads to nothing", s->ref);
}

static int keep(const struct session *s, int fd, struct str bytes, struct err *e)
{
	int r = ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd_write_full(fd, bytes.p, bytes.n);
	return r < 0 ? err_os(e, r == -ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, -r, "%s: keep the manifest",
			       s->ref)
		     : 0;
}

static int find_here(struct fetch *f, struct session *s, struct err *e)
{
	auto_buf struct buf manifest = {0}, config = {0};
	char path[IMAGE_REF_MAX + IMAGE_HEX + 32];
	const char *digest = NULL;
	uint64_t size;
	if (get_manifest(s, f->places.version, &manifest, e) < 0)
		return -1;
	auto_json struct json_doc *doc = json_parse(buf_str(&manifest), e);
	if (!doc || read_descriptor(s, json_get(json_root(doc), "config"), &digest, &size, e) < 0)
		return -1;
	snprintf(path, sizeof path, "/v2/%s/blobs/%s", s->place->repo, digest);
	if (get_checked(s, path, NULL, str_of(digest), &config, e) < 0)
		return -1;
	return keep(s, f->manifest, buf_str(&manifest), e) < 0 ? -1 : keep(s, f->config, buf_str(&config), e);
}

/* Mirrors first. The reason of the last place counts. */
static int find_image_anywhere(struct fetch *f, struct err *e)
{
	for (size_t i = 0; i < f->places.n; i++) {
		struct session s = {.ref = f->ref, .place = &f->places.v[i], .credentials = f->credentials};
		session_open(&s);
		int r = find_here(f, &s, e);
		struct note n = {.kind = NOTE_FOUND, .index = (int32_t)i, .plain = s.plain};
		session_close(&s);
		if (r == 0) {
			note_send(f, &n);
			return 0;
		}
		if (i + 1 < f->places.n)
			note_say(f, e->msg);
	}
	return -1;
}

static int fetch_layers(struct fetch *f, int *ret_bad, struct err *e)
{
	struct session s = {
		.ref = f->ref, .place = &f->places.v[f->place], .credentials = f->credentials, .plain = f->plain};
	session_open(&s);
	int r = fetch_blobs(f, &s, ret_bad, e);
	session_close(&s);
	return r;
}

/* ---- the child ---- */

static bool is_kept(const struct fetch *f, int fd)
{
	if (fd <= 2 || fd == f->sock || fd == f->manifest || fd == f->config)
		return true;
	for (size_t i = 0; i < f->blobs_n; i++)
		if (f->blobs[i].fd == fd)
			return true;
	return false;
}

_Noreturn static void child_life(struct fetch *f, pid_t parent)
{
	struct note n = {.kind = NOTE_FAILED, .index = -1};
	int bad = -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	signal(SIGPIPE, SIG_IGN);
	for (int fd = 3; fd < (int)sysconf(_SC_OPEN_MAX) && fd < 4096; fd++)
		if (!is_kept(f, fd))
			close(fd);
	int r = fetch_confine(&n.err);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (r == 0)
		r = f->blobs_n ? fetch_layers(f, &bad, &n.err) : find_image_anywhere(f, &n.err);
	n.index = bad;
	if (r < 0)
		note_send(f, &n);
	_exit(r < 0);
}

int fetch_start(struct fetch *f, struct err *e)
{
	int ends[2];
	pid_t self = getpid();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "make a socket");
	f->pid = fork();
	if (f->pid == 0) {
		f->sock = ends[1];
		child_life(f, self);
	}
	close(ends[1]);
	f->sock = ends[0];
	if (f->pid > 0)
		return 0;
	f->pid = 0;
	return err_os(e, ERRC_INTERNAL_ERROR, errno, "start a process that fetches the image");
}

void fetch_end(struct fetch *f)
{
	if (f->pid > 0) {
		kill(f->pid, SIGKILL);
		waitpid(f->pid, &(int){0}, 0);
		close(f->sock);
	}
	f->pid = 0;
}
