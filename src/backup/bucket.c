/*
 * Objects in a bucket. Large ones are put in parts. While a backup is made, a file in the directory notes its object
 * and the id of its upload; it goes when the manifest is there. So the next sweep can take back what a killed process
 * has begun, and leaves alone what other machines are doing in the same bucket.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backup/target.h"
#include "base/fd.h"
#include "s3/s3.h"

#define NOTE ".upload-"
enum { NOTE_NAME_MAX = S3_NAME_MAX + 16 };

struct bucket {
	struct target t;
	struct s3 *s;
	int dir;
};

struct target_put {
	struct bucket *b;
	char name[S3_NAME_MAX + 1], note[NOTE_NAME_MAX];
	struct buf part;
	struct s3_upload up;
	bool begun;
};

/* ID.zst and its manifest have the same note. */
static void note_name(const char *name, char ret[NOTE_NAME_MAX])
{
	snprintf(ret, NOTE_NAME_MAX, NOTE "%.*s", (int)strcspn(name, "."), name);
}

static bool is_object(const char *name)
{
	return str_ends(str_of(name), STR(".zst"));
}

static int write_note(struct target_put *p, const char *upload, struct err *e)
{
	int r = fd_replace_file(p->b->dir, p->note, str_of(upload), 0600);
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "note the upload of %s", p->name) : 0;
}

static int put_begin(struct target *t, const char *name, struct target_put **ret, struct err *e)
{
	struct target_put *p = xcalloc(1, sizeof *p);
	p->b = container_of(t, struct bucket, t);
	p->part.max = S3_PART;
	snprintf(p->name, sizeof p->name, "%s", name);
	note_name(name, p->note);
	if (is_object(name) && write_note(p, "", e) < 0) {
		free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

static int send_part(struct target_put *p, struct err *e)
{
	if (!p->begun) {
		if (s3_upload_begin(p->b->s, p->name, &p->up, e) < 0)
			return -1;
		p->begun = true;
		if (write_note(p, p->up.id, e) < 0)
			return -1;
	}
	int r = s3_upload_part(&p->up, buf_str(&p->part), e);
	buf_clear(&p->part);
	return r;
}

static int put_write(struct target_put *p, const char *bytes, size_t n, struct err *e)
{
	while (n) {
		size_t room = S3_PART - buf_size(&p->part), part = n < room ? n : room;
		buf_add(&p->part, bytes, part);
		bytes += part;
		n -= part;
		if (buf_size(&p->part) == S3_PART && send_part(p, e) < 0)
			return -1;
	}
	return 0;
}

static void put_free(struct target_put *p)
{
	buf_free(&p->part);
	s3_upload_free(&p->up);
	free(p);
}

static void put_abort(struct target_put *p)
{
	struct err e;
	if (p->begun)
		s3_upload_abort(p->b->s, p->name, p->up.id, &e);
	put_free(p); /* the note goes when the daemon drops the backup */
}

static int put_end(struct target_put *p, struct err *e)
{
	int r = 0;
	if (!p->begun)
		r = s3_put(p->b->s, p->name, buf_str(&p->part), e);
	else if (buf_size(&p->part))
		r = send_part(p, e);
	if (r == 0 && p->begun)
		r = s3_upload_end(&p->up, e);
	if (r < 0) {
		put_abort(p);
		return -1;
	}
	if (!is_object(p->name))
		unlinkat(p->b->dir, p->note, 0);
	put_free(p);
	return 0;
}

static int get(struct target *t, const char *name, target_on_bytes on_bytes, void *arg, struct err *e)
{
	return s3_get(container_of(t, struct bucket, t)->s, name, on_bytes, arg, e);
}

static int list(struct target *t, target_on_name on_name, void *arg, struct err *e)
{
	return s3_list(container_of(t, struct bucket, t)->s, on_name, arg, e);
}

/* Aborts the upload of an object that was begun here. */
static int drop_upload(struct bucket *b, const char *name, const char *note, struct err *e)
{
	auto_buf struct buf id = {0};
	if (fd_read_file(b->dir, note, S3_SETTING_MAX, &id) < 0 || !buf_size(&id))
		return 0;
	return s3_upload_abort(b->s, name, buf_cstr(&id), e);
}

static int drop(struct target *t, const char *name, struct err *e)
{
	struct bucket *b = container_of(t, struct bucket, t);
	char note[NOTE_NAME_MAX];
	note_name(name, note);
	if (!is_object(name))
		return s3_delete(b->s, name, e);
	if (drop_upload(b, name, note, e) < 0 || s3_delete(b->s, name, e) < 0)
		return -1;
	unlinkat(b->dir, note, 0);
	return 0;
}

static int on_manifest(void *arg, const char *p, size_t n, struct err *e)
{
	(void)arg;
	(void)p;
	(void)n;
	(void)e;
	return 0;
}

/* A note without a manifest: the job was killed. */
static int sweep_one(struct bucket *b, const char *note, struct err *e)
{
	char name[S3_NAME_MAX + 1];
	snprintf(name, sizeof name, "%s.json", note + sizeof NOTE - 1);
	if (s3_get(b->s, name, on_manifest, NULL, e) == 0)
		return unlinkat(b->dir, note, 0) < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, errno, "delete %s", note) : 0;
	if (e->code != ERRC_NOT_FOUND)
		return -1;
	snprintf(name, sizeof name, "%s.zst", note + sizeof NOTE - 1);
	return drop(&b->t, name, e);
}

static int sweep(struct target *t, struct err *e)
{
	struct bucket *b = container_of(t, struct bucket, t);
	int fd = openat(b->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "open the directory of backups");
	}
	for (struct dirent *entry; r == 0 && (entry = readdir(d));)
		if (strncmp(entry->d_name, NOTE, sizeof NOTE - 1) == 0)
			r = sweep_one(b, entry->d_name, e);
	closedir(d);
	return r;
}

int target_bucket_open(const char *url, const char *credentials, const char *dir, struct target **ret, struct err *e)
{
	static const struct target_ops ops = {.put_begin = put_begin,
		.put_write = put_write,
		.put_end = put_end,
		.put_abort = put_abort,
		.get = get,
		.list = list,
		.remove = drop,
		.sweep = sweep};
	struct bucket *b = xcalloc(1, sizeof *b);
	b->t.ops = &ops;
	b->t.remote = true;
	b->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->dir < 0)
		err_os(e, ERRC_FILESYSTEM_ERROR, errno, "open %s", dir);
	if (b->dir < 0 || s3_open(url, credentials, &b->s, e) < 0) {
		fd_close(&b->dir);
		free(b);
		return -1;
	}
	*ret = &b->t;
	return 0;
}
