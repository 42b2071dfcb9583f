/*
 * images.h - atoll-images: the image service. It imports, builds, lists and removes images.
 *
 * It runs as the daemon's user, without privileges. atolld passes /v1/images… on to its socket, one connection a
 * request; each request is a process of its own that works from top to bottom and ends. Whatever touches files of an
 * image happens in a box (work.h); whatever the image directory gets, the warden puts there (warden.c). When a
 * request's process ends early, also by kill -9 or because the client has gone, its parent destroys its box: nothing
 * else can be left.
 *
 *	main.c     the socket, processes, their remains
 *	conn.c     one request: head, body, answer, events
 *	routes.c   which request does what
 *	warden.c   the image directory, through the warden
 *	work.c     a box: files in and out, commands
 *	feed.c     an archive for the mover, straight from a file into the box
 *	config.c   the configuration of an image, as JSON
 *	import.c   archives: rootfs, OCI layout, `docker save`
 *	pull.c     an image of a registry; fetch.h: the process that speaks with the registry
 *	registry.c pushes, with skopeo
 *	commit.c   a sandbox becomes an image
 *	packages.c what package managers have installed in an image
 *	members.c  where the files of an archive lie
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "cli/client.h"
#include "images/limits.h"
#include "proto/image.h"

/* ---- words: config.c ---- */

struct words {
	char **v;
	size_t n;
};
void words_add(struct words *w, struct str word);
void words_add_once(struct words *w, struct str word);
void words_free(struct words *w);

/* ---- conn.c ---- */

struct conn {
	int fd;
	char method[16];
	char *path, *query; /* still percent-encoded */
	bool chunked, begun, ended, events;
	uint64_t left;	/* of the body, or of the chunk */
	char owner[96]; /* whose caches a build uses; "": the daemon's own */
	struct buf in;	/* read ahead */
	struct loop_io watch;
};

int conn_read_head(struct conn *c, struct err *e);
/* The whole body into a file, bounded. */
int conn_body_to(struct conn *c, int fd, uint64_t max, struct err *e);
/* The first `n` bytes of the body. */
int conn_body_begin(struct conn *c, size_t n, struct buf *ret, struct err *e);
/* The whole body as JSON; an empty body is an empty object. */
struct json_doc *conn_json(struct conn *c, struct err *e);
/* A parameter of the query; "" in *ret when it is missing. */
int conn_param(const struct conn *c, const char *name, struct buf *ret, struct err *e);

void conn_answer(struct conn *c, int status, struct str json);
void conn_fail(struct conn *c, const struct err *e);
void conn_begin(struct conn *c, const char *content_type);
void conn_write(struct conn *c, struct str bytes);
void conn_end(struct conn *c);
/* An event of a stream: begins the stream with the first one. */
void conn_event(struct conn *c, struct buf *json);
/* Ends this process as soon as the client is gone, from inside any turn of the loop. */
void conn_watch(struct conn *c, struct loop *l);

/* ---- warden.c ---- */

struct store {
	int sock;
	int meta;
	char own[BOX_IMAGE_NAME_MAX + 1]; /* the key of 'default'; "" when there is none */
};

int store_open_images(struct store *s, struct err *e);
/* The layer of this box, which is to be created, is made beside the layers of images. flags: IMAGE_READS */
int store_stage(struct store *s, const char *box, uint32_t flags, struct err *e);
/* The box of store_stage has ended, maybe. NO_SPACE: the warden has ended it, because it filled the image directory. */
int store_ended(struct store *s, const char *box, struct err *e);
int store_take(struct store *s, const char *box, const char *layer, struct err *e);
/* `key` comes from the digest of `config`. */
int store_put(struct store *s, const char *key, struct str layers, struct str config, struct err *e);
int store_packages(struct store *s, const char *key, struct str text, struct err *e);
/* name: canonical (names) or 64 digits (cache). key "": remove. */
int store_link(struct store *s, bool cache, const char *name, const char *key, struct err *e);
int store_unuse(struct store *s, const char *key, struct err *e);
/* flags: IMAGE_CACHE, IMAGE_DRY */
int store_collect(struct store *s, uint32_t flags, struct image_reply *ret, struct err *e);
/* The bytes of these layers on the disk, measured where that was not done yet. */
uint64_t store_size(struct store *s, const struct words *layers);
/* A socket that can connect to a port of this box. */
int store_socket(struct store *s, const char *box, struct err *e);

/* ---- config.c ---- */

struct image_config {
	struct words env, entrypoint, cmd, exposed, volumes, labels, shell; /* env, labels: NAME=value */
	char *workdir, *user, *stop_signal, *healthcheck, *author;
	struct words layers;  /* lowest first: lines of KEY.layers */
	struct words history; /* JSON objects */
	struct words onbuild; /* instructions for a build on this image */
};
void config_free(struct image_config *c);
#define auto_config __attribute__((cleanup(config_free)))
void config_copy(struct image_config *to, const struct image_config *from);
void config_set(char **to, struct str value);
void env_set(struct words *env, struct str name, struct str value);
const char *env_value(const struct words *env, struct str name);
/* An OCI image configuration: what Docker's fields mean. Layers are not read from it. */
int config_read(struct image_config *c, struct str json, struct err *e);
void config_write(const struct image_config *c, struct buf *ret);
/* Reads an image by its key, with its layers. */
int config_load(const struct store *s, const char *key, struct image_config *ret, struct err *e);
/* Writes the image and returns its key and digest. */
int config_save(struct store *s, const struct image_config *c, char ret_key[BOX_IMAGE_NAME_MAX + 1],
	char ret_digest[IMAGE_HEX + 1], struct err *e);

/* ---- work.c ---- */

/* The name of this request's boxes: "image-", the process and 32 random digits, so that no client can guess it. Our
 * parent chooses the digits before it starts us, because it destroys what we leave. */
enum { WORK_DIGITS = 32 };
extern char work_digits[WORK_DIGITS + 1];
void work_name(pid_t pid, const char *digits, const char *suffix, char ret[BOX_ID_MAX + 1]);

struct work {
	struct cli cli;
	struct client cl;
	char box[BOX_ID_MAX + 1];
	bool there;
};

int work_open(struct work *w, struct conn *c, struct err *e);
void work_close(struct work *w);
#define auto_work __attribute__((cleanup(work_close)))
/* A box on an image; a box that is there is destroyed first. network: the box's policy as JSON, or NULL for none. */
int work_box(struct work *w, const char *key, const char *network, struct err *e);
/* The same with volumes: the value of a sandbox's "volumes" as JSON, or NULL. */
int work_box_with(struct work *w, const char *key, const char *network, const char *volumes, struct err *e);
/* Takes the volumes of the box away; its files stay. */
int work_detach(struct work *w, struct err *e);
/* The same without network, with the image's files and nothing else; its own layer is made where layers of images are.
 */
int work_box_bare(struct work *w, struct store *s, const char *key, uint32_t flags, struct err *e);
void work_drop(struct work *w);
/* atoll-mover in the box: argv without its name. in: -1 none. Output to `out` (a descriptor) or to `text`. */
struct layer_source;
struct mover_call {
	const char *const *argv;
	int in, out;
	struct buf *text;
	int (*on_out)(
		void *arg, struct str bytes, struct err *e); /* for `run`: gets all output, the exit code is told */
	void *arg;
	int exit_code;
	/* for `unpack`: these bytes are its archive, sent past the daemon and the agent */
	const struct layer_source *feed;
	struct store *store; /* for `feed` */
};
int work_mover(struct work *w, struct mover_call *m, struct err *e);
/* Ends the box; its files become a layer. */
int work_take(struct work *w, struct store *s, const char *layer, struct err *e);

/* ---- feed.c ---- */

struct feed {
	struct store *store;
	const struct layer_source *from;
	const char *box;
	struct buf said; /* what the mover has written before its port was known */
	pid_t pid;	 /* sends the bytes; 0: not yet */
};
/* Takes the mover's output up to its port, and starts to send; what is behind is left in *bytes. */
int feed_output(struct feed *f, struct str *bytes, struct err *e);
void feed_end(struct feed *f);

/* ---- import.c ---- */

/* An archive of a root file system, an OCI layout or `docker save`, with this name. */
struct import {
	struct store *store;
	struct work *work;
	struct conn *conn; /* gets events */
	int fd;		   /* a regular file */
	const char *name;  /* canonical; "" takes the archive's own */
};
int import_archive(struct import *im, char ret_key[BOX_IMAGE_NAME_MAX + 1], struct err *e);
/* The file's bytes [offset, offset + size) become a layer on top of `config`. digest: of its plain tar, or "". */
struct layer_source {
	int fd;
	uint64_t offset, size;
	const char *diff_id;
	bool growing; /* the file is still being written: wait for its bytes */
	/* NULL, or called when all bytes were read: says whether they are the right ones. */
	int (*check)(void *arg, struct err *e);
	void *arg;
	pid_t *feeder; /* NULL, or gets the process that sends the bytes; -1 there: do not begin */
};
/* The configuration of an image, and its diff_ids. */
int import_config(struct str text, struct image_config *c, struct words *diffs, struct err *e);
/* Which of these layers are stored already, as long as all below them are. */
void import_stored(struct store *s, const struct words *diffs, bool *ret);
void import_say_layer(struct conn *c, size_t n, size_t of);
/* Of a list of manifests, that of this machine's platform, or the only one; NULL: none. */
const struct json *manifest_choose(const struct json *manifests);
/* A pipe with these bytes; a child of this process writes them. */
int range_fd(const struct layer_source *from, pid_t *ret_pid, struct err *e);
/* An entry of a plain tar. */
int tar_put_text(int out, const char *name, struct str text, struct err *e);
int import_layer(
	struct store *s, struct work *w, const struct layer_source *from, struct image_config *config, struct err *e);

/* ---- members.c ---- */

struct member {
	char *name;
	uint64_t offset, size;
	int fd; /* of the file that it lies in */
};
struct members {
	struct member *v;
	size_t n;
};
/* The regular files of a plain tar; pure reading. -1: it is no tar, or hostile. */
int members_read(int fd, struct members *ret, struct err *e);
/* Of its entries, without their times: two archives of the same files have the same. */
int members_digest(int fd, char ret[IMAGE_HEX + 1], struct err *e);
/* "./a" is found as "a". */
const struct member *members_find(const struct members *m, const char *name);
void members_free(struct members *m);

/* ---- packages.c ---- */

/* Keeps the list of an image's packages beside it, unless it is there. An image whose packages cannot be read has none.
 */
void packages_keep(struct store *s, struct conn *c, const char *key);
/* Writes "packages": [...] of an image: what was kept, else read in a box. */
int packages_put(struct json_writer *w, struct store *s, struct conn *c, const char *key, struct err *e);

/* ---- digest.c ---- */

void digest_hex(const unsigned char *digest, char ret[IMAGE_HEX + 1]);
void digest_of(struct str bytes, char ret[IMAGE_HEX + 1]);
int digest_file(int fd, uint64_t offset, uint64_t size, char ret[IMAGE_HEX + 1], struct err *e);

/* ---- routes.c ---- */

void serve_request(struct conn *c);
/* A file without a name on the daemon's disk. */
int temp_file(struct err *e);
/* Looks an image up, by any reference; IMAGE_NOT_FOUND with names that look alike. */
int find_image(const struct store *s, struct str ref, struct image_ref *ret_ref, char ret_key[BOX_IMAGE_NAME_MAX + 1],
	struct err *e);
