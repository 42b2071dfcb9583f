/*
 * A chain of backups → the warden's socket.
 *
 * Nothing is sent before the manifest of every backup of the chain and the checksum of every object have held. Objects
 * are read a second time to be sent, and their checksums are made again: the end marker goes out only if they hold
 * again. Objects of a bucket are copied to unnamed files first.
 */
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zstd.h>

#include "backup/backup.h"
#include "backup/target.h"
#include "base/disk.h"
#include "base/fd.h"
#include "proto/warden.h"

enum { FD_SOCKET = 4 };

/* Of all objects of a chain, for one of its two passes. */
struct progress {
	const char *what;
	uint64_t done, told;
};

struct pass {
	const struct manifest *m;
	EVP_MD_CTX *hash;
	uint64_t size, bytes;
	int copy; /* the first time, of a bucket: where to */
	struct disk_guard disk;
	ZSTD_DCtx *zstd; /* the second time */
	struct frame frame;
	struct progress *progress;
	bool whole; /* the last zstd frame has ended */
};

static void count(struct progress *p, size_t n)
{
	p->done += n;
	if (p->done - p->told >= BACKUP_TELL_BYTES)
		tell_progress(p->what, p->told = p->done);
}

static int damaged(const struct pass *p, struct err *e)
{
	return err_set(e, ERRC_BACKUP_RESTORE_FAILED,
		"the object of backup '%s' is damaged: its checksum does not hold", p->m->id);
}

static int forward(struct pass *p, const char *bytes, size_t n, struct err *e)
{
	static char room[BACKUP_PIECE];
	ZSTD_inBuffer in = {bytes, n, 0};
	for (bool full = true; in.pos < in.size || full;) {
		ZSTD_outBuffer out = {room, sizeof room, 0};
		size_t left = ZSTD_decompressStream(p->zstd, &out, &in);
		full = out.pos == out.size;
		p->whole = left == 0;
		p->bytes += out.pos;
		if (ZSTD_isError(left) || p->bytes > p->m->bytes || !frame_feed(&p->frame, room, out.pos))
			return damaged(p, e);
		int r = out.pos ? fd_write_full(FD_SOCKET, room, out.pos) : 0;
		if (r < 0)
			return err_os(e, ERRC_BACKUP_RESTORE_FAILED, -r, "hand the files to the warden");
		count(p->progress, out.pos);
		if (!out.pos && in.pos == in.size)
			break;
	}
	return 0;
}

static int on_bytes(void *arg, const char *bytes, size_t n, struct err *e)
{
	struct pass *p = arg;
	EVP_DigestUpdate(p->hash, bytes, n);
	p->size += n;
	if (p->size > p->m->size)
		return damaged(p, e);
	if (p->copy >= 0 && !disk_takes(&p->disk, p->copy, n))
		return err_set(e, ERRC_NO_SPACE, "copy the backup: the disk has no room besides its reserve");
	int r = p->copy >= 0 ? fd_write_full(p->copy, bytes, n) : 0;
	if (r < 0)
		return err_os(e, r == -ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, -r, "copy the backup");
	if (p->zstd)
		return forward(p, bytes, n, e);
	count(p->progress, n);
	return 0;
}

static bool hash_holds(struct pass *p)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char hex[2 * EVP_MAX_MD_SIZE + 1];
	unsigned n = 0;
	EVP_DigestFinal_ex(p->hash, digest, &n);
	for (unsigned i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	return p->size == p->m->size && strcmp(hex, p->m->sha256) == 0;
}

/* From the copy if there is one, else from the target. */
static int read_object(struct backup_run *r, struct pass *p, int from, struct err *e)
{
	static char piece[BACKUP_PIECE];
	char name[BACKUP_NAME_MAX + 1];
	snprintf(name, sizeof name, "%s.zst", p->m->id);
	if (from < 0)
		return r->t->ops->get(r->t, name, on_bytes, p, e);
	for (off_t at = 0;;) {
		ssize_t n = pread(from, piece, sizeof piece, at);
		if (n <= 0)
			return n < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "read the copy of a backup") : 0;
		if (on_bytes(p, piece, (size_t)n, e) < 0)
			return -1;
		at += n;
	}
}

static int pass(struct backup_run *r, struct pass *p, int from, struct err *e)
{
	p->hash = EVP_MD_CTX_new();
	INVARIANT(p->hash && EVP_DigestInit_ex(p->hash, EVP_sha256(), NULL) == 1);
	int n = read_object(r, p, from, e);
	bool holds = hash_holds(p);
	EVP_MD_CTX_free(p->hash);
	return n < 0 ? -1 : holds ? 0 : damaged(p, e);
}

/* *ret_copy: a copy of a remote object; -1: it is read from the target again. */
static int verify(struct backup_run *r, const struct manifest *m, struct progress *g, int *ret_copy, struct err *e)
{
	struct pass p = {.m = m, .copy = -1, .progress = g};
	if (r->t->remote) {
		p.copy = *ret_copy = open(r->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (p.copy < 0)
			return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "make a file for the backup in %s", r->dir);
	}
	return pass(r, &p, -1, e);
}

static int send_one(struct backup_run *r, const struct manifest *m, struct progress *g, int copy, struct err *e)
{
	struct pass p = {.m = m, .copy = -1, .zstd = ZSTD_createDCtx(), .progress = g};
	INVARIANT(p.zstd);
	int n = pass(r, &p, copy, e);
	ZSTD_freeDCtx(p.zstd);
	if (n < 0)
		return -1;
	return p.whole && p.frame.ended && p.bytes == m->bytes ? 0 : damaged(&p, e);
}

static int finish(struct err *e)
{
	int32_t os = EIO;
	if (fd_write_full(FD_SOCKET, WARDEN_RECEIVE_END, sizeof WARDEN_RECEIVE_END) < 0 ||
		fd_read_full(FD_SOCKET, &os, sizeof os) != (ssize_t)sizeof os)
		return err_set(e, ERRC_BACKUP_RESTORE_FAILED, "the warden did not take the files");
	if (os == ENOSPC || os == EDQUOT)
		return err_os(e, ERRC_NO_SPACE, os, "put the files back");
	return os ? err_os(e, ERRC_BACKUP_RESTORE_FAILED, os, "put the files back") : 0;
}

/* Why the warden stopped reading; without its word the error stays. */
static void explain(struct err *e)
{
	int32_t os = 0;
	if (recv(FD_SOCKET, &os, sizeof os, MSG_DONTWAIT) == (ssize_t)sizeof os && os)
		err_os(e, os == ENOSPC || os == EDQUOT ? ERRC_NO_SPACE : ERRC_BACKUP_RESTORE_FAILED, os,
			"put the files back");
}

static int check_link(const struct manifest *m, const struct manifest *before, struct err *e)
{
	bool fits = before ? strcmp(m->parent, before->id) == 0 && strcmp(m->parent_seal, before->seal) == 0
			   : !*m->parent && !*m->parent_seal;
	return fits ? 0 : err_set(e, ERRC_BACKUP_RESTORE_FAILED, "backup '%s' does not follow the one before", m->id);
}

static int load_chain(struct backup_run *r, struct manifest *v, int *copies, struct err *e)
{
	struct progress checked = {.what = "checked"}, sent = {.what = "stream"};
	for (size_t i = 0; i < r->ids_n; i++)
		if (manifest_fetch(r, r->ids[i], &v[i], e) < 0 || check_link(&v[i], i ? &v[i - 1] : NULL, e) < 0)
			return -1;
	for (size_t i = 0; i < r->ids_n; i++)
		if (verify(r, &v[i], &checked, &copies[i], e) < 0)
			return -1;
	for (size_t i = 0; i < r->ids_n; i++)
		if (send_one(r, &v[i], &sent, copies[i], e) < 0) {
			explain(e);
			return -1;
		}
	return finish(e);
}

int run_load(struct backup_run *r, struct err *e)
{
	struct manifest *v = xcalloc(r->ids_n, sizeof *v);
	int *copies = xcalloc(r->ids_n, sizeof *copies);
	memset(copies, -1, r->ids_n * sizeof *copies);
	int n = load_chain(r, v, copies, e);
	for (size_t i = 0; i < r->ids_n; i++) {
		manifest_free(&v[i]);
		fd_close(&copies[i]);
	}
	free(v);
	free(copies);
	return n;
}
