/*
 * target.h - where the objects of backups lie: a directory, or a bucket. Names have no slash.
 *
 * An object that is being put is not there before put_end has returned 0; one that was interrupted is deleted by the
 * next sweep. All functions block. They return 0 or -1 with *e.
 */
#pragma once

#include "base/buf.h"
#include "proto/errc.h"

struct target;
struct target_put;

/* Bytes of an object, in order. -1 with *e ends the get. */
typedef int (*target_on_bytes)(void *arg, const char *p, size_t n, struct err *e);
typedef int (*target_on_name)(void *arg, const char *name, struct err *e);

struct target_ops {
	int (*put_begin)(struct target *t, const char *name, struct target_put **ret, struct err *e);
	int (*put_write)(struct target_put *p, const char *bytes, size_t n, struct err *e);
	int (*put_end)(struct target_put *p, struct err *e); /* frees it */
	void (*put_abort)(struct target_put *p);	     /* frees it */
	/* NOT_FOUND when there is none. */
	int (*get)(struct target *t, const char *name, target_on_bytes on_bytes, void *arg, struct err *e);
	int (*list)(struct target *t, target_on_name on_name, void *arg, struct err *e);
	/* One that is not there is a success. */
	int (*remove)(struct target *t, const char *name, struct err *e);
	/* Deletes what interrupted puts have left. */
	int (*sweep)(struct target *t, struct err *e);
};

struct target {
	const struct target_ops *ops;
	bool remote; /* read it once */
};

int target_local_open(const char *dir, struct target **ret, struct err *e);
/* s3/s3.h; notes of unfinished uploads lie in `dir`. */
int target_bucket_open(const char *url, const char *credentials, const char *dir, struct target **ret, struct err *e);

/* A whole small object. */
int target_put_text(struct target *t, const char *name, struct str text, struct err *e);
int target_get_text(struct target *t, const char *name, struct buf *ret, struct err *e); /* up to ret->max */
