/*
 * stdin → without the zeros of holes → zstd → SHA-256 → the object; then the manifest.
 *
 * With --room=BYTES the stream is bounded (limits.h). One that is longer ends in PAYLOAD_TOO_LARGE: a whole backup may
 * fit, because the kernel leaves holes out of it.
 */
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "backup/backup.h"
#include "backup/holes.h"
#include "backup/target.h"
#include "base/fd.h"

enum { FD_STREAM = 0, FD_DESCRIPTION = 3, LEVEL = 3, WORKERS = 2 };

struct store {
	struct backup_run *r;
	struct target_put *put;
	ZSTD_CCtx *zstd;
	EVP_MD_CTX *hash;
	struct frame frame;
	struct holes holes;
	char *out;
	size_t out_size;
	uint64_t read, told;
	struct manifest m;
};

static int keep(struct store *s, const char *p, size_t n, struct err *e)
{
	EVP_DigestUpdate(s->hash, p, n);
	s->m.size += n;
	if (s->r->most && s->m.size > s->r->most)
		return err_set(e, ERRC_LIMIT_REACHED,
			"the backup takes more than the %llu bytes that are left for the sandbox, hidden ones counted "
			"(ATOLL_BACKUP_BYTES)",
			(unsigned long long)s->r->most);
	return n ? s->r->t->ops->put_write(s->put, p, n, e) : 0;
}

static int compress(struct store *s, const char *p, size_t n, bool last, struct err *e)
{
	ZSTD_inBuffer in = {p, n, 0};
	for (size_t left = 1; last ? left != 0 : in.pos < in.size;) {
		ZSTD_outBuffer out = {s->out, s->out_size, 0};
		left = ZSTD_compressStream2(s->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return err_set(e, ERRC_BACKUP_CREATE_FAILED, "compress: %s", ZSTD_getErrorName(left));
		if (keep(s, s->out, out.pos, e) < 0)
			return -1;
	}
	return 0;
}

/* A chain is received as a whole, into twice the disk. */
static uint64_t kept_max(const struct backup_run *r)
{
	uint64_t all = BACKUP_CHAIN_KEPT_MAX(r->room), left = all > r->below ? all - r->below : 0;
	return left < BACKUP_KEPT_MAX(r->room) ? left : BACKUP_KEPT_MAX(r->room);
}

static int check_size(const struct store *s, struct err *e)
{
	uint64_t room = s->r->room;
	if (!room || (s->read <= BACKUP_READ_MAX(room) && s->m.bytes <= kept_max(s->r)))
		return 0;
	return err_set(e, ERRC_PAYLOAD_TOO_LARGE,
		"the files make a stream of more than %llu bytes, and the sandbox has a disk of %llu: holes of files, "
		"or blocks that files share more often than the kernel follows",
		(unsigned long long)(s->read > BACKUP_READ_MAX(room) ? BACKUP_READ_MAX(room) : kept_max(s->r)),
		(unsigned long long)room);
}

static int on_kept(void *arg, const char *p, size_t n, struct err *e)
{
	struct store *s = arg;
	s->m.bytes += n;
	return compress(s, p, n, false, e);
}

static int copy(struct store *s, struct err *e)
{
	static char piece[BACKUP_PIECE];
	s->holes = (struct holes){.on_bytes = on_kept, .arg = s};
	for (ssize_t n; (n = fd_read_full(FD_STREAM, piece, sizeof piece)) != 0;) {
		if (n < 0)
			return err_os(e, ERRC_BACKUP_CREATE_FAILED, (int)-n, "read the stream");
		if (!frame_feed(&s->frame, piece, (size_t)n))
			return err_set(e, ERRC_BACKUP_CREATE_FAILED, "the stream of the files is damaged");
		s->read += (uint64_t)n;
		if (holes_feed(&s->holes, piece, (size_t)n, e) < 0 || check_size(s, e) < 0)
			return -1;
		if (s->m.bytes - s->told >= BACKUP_TELL_BYTES)
			tell_progress("stream", s->told = s->m.bytes);
	}
	if (!s->frame.ended)
		return err_set(e, ERRC_BACKUP_CREATE_FAILED, "the stream of the files was cut off");
	return compress(s, NULL, 0, true, e);
}

static void open_store(struct store *s)
{
	s->zstd = ZSTD_createCCtx();
	s->hash = EVP_MD_CTX_new();
	INVARIANT(s->zstd && s->hash && EVP_DigestInit_ex(s->hash, EVP_sha256(), NULL) == 1);
	ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_nbWorkers, WORKERS);
	s->out_size = ZSTD_CStreamOutSize();
	s->out = xmalloc(s->out_size);
}

static void close_store(struct store *s)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	EVP_DigestFinal_ex(s->hash, digest, &n);
	for (unsigned i = 0; i < n; i++)
		snprintf(s->m.sha256 + 2 * i, 3, "%02x", digest[i]);
	EVP_MD_CTX_free(s->hash);
	ZSTD_freeCCtx(s->zstd);
	free(s->out);
}

static int put_object(struct store *s, const char *id, struct err *e)
{
	const struct target_ops *ops = s->r->t->ops;
	char name[BACKUP_NAME_MAX + 1];
	snprintf(name, sizeof name, "%s.zst", id);
	if (ops->put_begin(s->r->t, name, &s->put, e) < 0)
		return -1;
	open_store(s);
	int r = copy(s, e);
	close_store(s);
	if (r == 0)
		return ops->put_end(s->put, e);
	ops->put_abort(s->put);
	return -1;
}

static int find_parent(struct store *s, const struct json *description, struct err *e)
{
	const char *parent = NULL;
	struct manifest m;
	if (json_read_cstr(description, "parent", &parent, e) < 0)
		return -1;
	if (!parent || !*parent)
		return 0;
	if (!backup_id_ok(str_of(parent)))
		return err_set(e, ERRC_INVALID_REQUEST, "'%.80s' is not the id of a backup", parent);
	if (manifest_fetch(s->r, parent, &m, e) < 0)
		return -1;
	memcpy(s->m.parent_seal, m.seal, sizeof m.seal);
	manifest_free(&m);
	return 0;
}

static void answer(const struct store *s)
{
	auto_buf struct buf line = {0};
	buf_printf(
		&line, "{\"size\":%llu,\"bytes\":%llu}", (unsigned long long)s->m.size, (unsigned long long)s->m.bytes);
	tell(&line);
}

int run_store(struct backup_run *r, struct err *e)
{
	static struct store s;
	s.r = r;
	auto_buf struct buf description = {.max = BACKUP_MANIFEST_MAX / 2}, text = {0};
	char name[BACKUP_NAME_MAX + 1];
	for (char *room; (room = buf_room(&description, BACKUP_PIECE / 4));) {
		ssize_t got = fd_read_full(FD_DESCRIPTION, room, BACKUP_PIECE / 4);
		if (got <= 0)
			break;
		buf_commit(&description, (size_t)got);
	}
	auto_json struct json_doc *doc = json_parse(buf_str(&description), e);
	if (!doc || find_parent(&s, json_root(doc), e) < 0 || put_object(&s, r->ids[0], e) < 0)
		return -1;
	manifest_write(&r->key, buf_str(&description), &s.m, &text);
	snprintf(name, sizeof name, "%s.json", r->ids[0]);
	if (target_put_text(r->t, name, buf_str(&text), e) < 0)
		return -1;
	answer(&s);
	return 0;
}
