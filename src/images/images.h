/*
 * images.h - atoll-images: a process of the daemon's user that does one job with images and ends.
 *
 *	atoll-images VERB	list inspect remove prune tag commit import export build pull push
 *	atoll-images tidy	removes what the job of process "pid" has left
 *	atoll-images sweep	the same for all jobs of daemons that have ended
 *
 *	stdin	the body of the request
 *	fd 3	the description: {"state", "run": directories of the daemon, "digits": of its boxes' names, "owner": whose
 *		caches a build uses, "ref", "parameters": {…}, "length": of the body if it is known, "pid"}
 *	fd 4	connections to the daemon are passed through it (daemon.c); they act for the caller of the job
 *	fd 5	atoll-mover
 *
 * It answers on stdout, one JSON object a line: {"event":{…}}, or {"answer":{"status","type","size"}} and then
 * {"bytes":N} with N bytes behind its line; as the last line {"done":true} or {"error":{"code","message","field"}}. It
 * ends with the daemon, which kills it when its client goes.
 *
 * It has no privileges. Whatever touches files of an image happens in a box (work.c); whatever the image directory
 * gets, the warden puts there (warden.c). When it is killed, atolld starts another one that destroys its boxes: nothing
 * else can be left.
 *
 *	main.c     the verbs
 *	order.c    the description, the body, the lines
 *	daemon.c   questions to the daemon; exec.c: a command in a box
 *	left.c     what killed jobs leave
 *	routes.c   the small verbs
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
#include "http/client/client.h"
#include "images/limits.h"
#include "proto/errc.h"
#include "proto/id.h"
#include "proto/image.h"

/* ---- words: config.c ---- */

struct words {
	char **v;
	size_t n;
};
void words_add(struct words *w, struct str word);
void words_add_once(struct words *w, struct str word);
void words_free(struct words *w);

/* ---- order.c ---- */

struct order {
	struct json_doc *doc;
	const char *state, *run, *digits, *owner; /* owner "": the daemon's own */
	struct str ref;
	uint64_t length; /* of the body; 0: not known */
	uint64_t pid;
	int body, doors, mover;
	uint64_t got;  /* of the body */
	struct buf in; /* read ahead */
};
/* The one of this process. */
extern struct order the_order;

/* From the descriptors, which get other numbers or close with an exec. */
int order_read(struct order *o, struct err *e);
/* A parameter of the request; "" in *ret when it is missing. */
int order_param(const struct order *o, const char *name, struct buf *ret, struct err *e);
/* The whole body into a file, at most SERVICE_UPLOAD_MAX. */
int order_body_to(struct order *o, int fd, struct err *e);
/* The first `n` bytes of the body. */
int order_body_begin(struct order *o, size_t n, struct buf *ret, struct err *e);
/* The whole body as JSON; an empty body is an empty object. */
struct json_doc *order_json(struct order *o, struct err *e);

void tell_answer(int status, struct str json);
void tell_stream(const char *content_type);
void tell_bytes(struct str bytes);
void tell_event(struct buf *json);
/* The last line. e: NULL on success. */
void tell_end(const struct err *e);

/* ---- daemon.c, exec.c ---- */

/* Calls wait for the whole answer. It must not move while it is open. */
struct daemon_link {
	struct loop *loop;
	struct http_client *http;
	struct http_dialer dialer;
	struct http_endpoint at;
};
int daemon_open(struct daemon_link *l, struct err *e);
void daemon_close(struct daemon_link *l);
struct http_call_options daemon_options(const char *method, struct str target);
/* 0, or -1 with the daemon's own code and sentence for an answer other than 2xx. */
int daemon_call(
	struct daemon_link *l, const char *method, const char *target, struct str body, struct buf *ret, struct err *e);
/* A whole regular file as the body of a PUT. */
int daemon_send_file(struct daemon_link *l, const char *target, int fd, struct err *e);
/* The error in an answer, or in a message of a box. Returns -1. */
int daemon_error(struct str body, struct err *e);
/* Percent-encoded. */
void daemon_encode(struct buf *ret, const char *text);
/* "/v1/sandboxes/ID" and the rest of the path. */
void daemon_box_path(struct buf *ret, const char *id, const char *rest);

/* A command in a box, over the WebSocket of its streams. */
struct image_exec {
	const char *box;
	char *const *argv;
	int in;		 /* -1: no input */
	struct buf *err; /* its stderr; more than its maximum ends the command */
	int (*on_out)(void *arg, struct str bytes, struct err *e); /* may block; -1 ends the command */
	void *arg;
	int exit_code; /* 128 + n after a signal; 125: none is known */
	bool oom;
};
/* -1: it did not start, or its outcome is not known. */
int daemon_exec(struct daemon_link *l, struct image_exec *x, struct err *e);

/* ---- left.c ---- */

/* Whether this process is a job of the daemon that runs. */
bool left_is_at_work(pid_t pid);
int do_tidy(struct order *o, struct err *e);
int do_sweep(struct order *o, struct err *e);

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

/* The name of this job's boxes: "image-", the process and the digits of its order, so that no client can guess it and
 * atolld knows what to destroy. */
void work_name(pid_t pid, const char *digits, const char *suffix, char ret[BOX_ID_MAX + 1]);

struct work {
	struct daemon_link link;
	char box[BOX_ID_MAX + 1];
	bool there;
	bool keeps_mover, has_mover; /* its files become no layer: the mover is sent there once */
};

int work_open(struct work *w, struct err *e);
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
	int fd;		  /* a regular file */
	const char *name; /* canonical; "" takes the archive's own */
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
void import_say_layer(size_t n, size_t of);
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
void packages_keep(struct store *s, const char *key);
/* Writes "packages": [...] of an image: what was kept, else read in a box. */
int packages_put(struct json_writer *w, struct store *s, const char *key, struct err *e);

/* ---- digest.c ---- */

void digest_hex(const unsigned char *digest, char ret[IMAGE_HEX + 1]);
void digest_of(struct str bytes, char ret[IMAGE_HEX + 1]);
int digest_file(int fd, uint64_t offset, uint64_t size, char ret[IMAGE_HEX + 1], struct err *e);

/* ---- routes.c ---- */

int do_list(struct order *o, struct store *s, struct err *e);
int do_inspect(struct order *o, struct store *s, struct err *e);
int do_remove(struct order *o, struct store *s, struct err *e);
int do_prune(struct order *o, struct store *s, struct err *e);
int do_tag(struct order *o, struct store *s, struct err *e);
int do_import(struct order *o, struct store *s, struct err *e);
int do_export(struct order *o, struct store *s, struct err *e);
/* A file without a name on the daemon's disk. */
int temp_file(struct err *e);
/* Looks an image up, by any reference; IMAGE_NOT_FOUND with names that look alike. */
int find_image(const struct store *s, struct str ref, struct image_ref *ret_ref, char ret_key[BOX_IMAGE_NAME_MAX + 1],
	struct err *e);
