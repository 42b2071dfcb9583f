/*
 * docker.h - the part of Docker's Engine API that wrangler and workerd use, on $ATOLL_RUN/docker.sock.
 *
 * A container is a record and, while it runs, a sandbox: `docker-` and a hash of its owner and name. Its owner is the
 * user at the other end of the socket (SO_PEERCRED); no user sees another's containers and images. Records are items of
 * the store, so a daemon that is killed finds them again. A sidecar (a container of the image proxy-everything) is a
 * record and a listener on loopback (ingress.h): nothing runs for it.
 *
 * Images are tags of their user for images of Atoll (/v1/images), which atoll-docker builds and pulls.
 *
 * A container ends when its sandbox stops or is destroyed; every POST …/wait is answered then. A container whose end no
 * client waits for is removed after ATOLL_DOCKER_ORPHAN_AFTER, a sidecar without its container after
 * DOCKER_SIDECAR_AFTER.
 * docs/design/023-docker.md. Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "base/map.h"
#include "daemon/route/request.h"
#include "doors/docker/limits.h"

enum container_state { CONTAINER_CREATED, CONTAINER_RUNNING, CONTAINER_EXITED };

struct docker {
	struct daemon *daemon;
	struct http_endpoint api; /* the daemon's own */
	struct map containers;	  /* "uid name" → struct container */
	struct map images;	  /* "uid tag" → struct docker_image */
	struct map boxes;	  /* sandbox id → struct container */
	struct map volumes;	  /* "uid name" → struct docker_volume (volumes.c) */
	struct map execs;	  /* id → struct docker_exec (exec.h) */
	struct list execs_order;  /* oldest first */
};

struct container {
	struct docker *docker;
	char *key, *name, *image;
	uid_t uid;
	char id[65];
	char box[BOX_ID_MAX + 1]; /* "": a sidecar */
	char *env;		  /* a JSON object */
	char *cmd;		  /* a JSON array, or NULL */
	char *volumes;		  /* the member "volumes" of its sandbox, or NULL */
	char *labels;		  /* a JSON object of texts */
	char *network;		  /* HostConfig.NetworkMode, as it was told */
	bool helper;		  /* of the sidecar's image, without a name: helper.c */
	enum container_state state;
	int code;      /* when it has exited */
	int wanted;    /* the code when it ends now; -1: it ends by itself */
	uint16_t port; /* of a sidecar's listener */
	char *archive; /* base64 of a tar that is unpacked at the start, or NULL; in memory only */
	char *archive_path;
	bool starting;	       /* its box is being made */
	bool offline;	       /* a sidecar: PUT /egress wants no internet */
	uint16_t worker_port;  /* a sidecar: where workerd decides about connections, or 0 … */
	char *worker_hosts;    /* … and a JSON array of the hosts with handlers, or NULL */
	char mode[8];	       /* the network mode that its box was given for that; "": none */
	bool with_sidecar;     /* a delete takes the sidecar along */
	struct egress *egress; /* a change under way, or NULL */
	int64_t created_ms;
	struct list waits; /* struct docker_wait */
	struct list late;  /* struct late of end.c: signals that came while it was being started */
	struct ingress *ingress;
	struct loop_timer orphan;
	bool found;    /* it ran before the daemon did, and no client has waited for its end since */
	bool claimed;  /* … and a client has created it again: its start finds it running */
	unsigned held; /* questions under way */
	bool gone;     /* no longer in the table */
};

struct docker_image {
	char *key, *tag;
	uid_t uid;
	char id[72];
	char *base; /* an image of Atoll */
	int64_t created_ms;
};

struct docker_wait {
	struct list node;
	struct container *c;
	struct daemon_request *r;
	bool removed; /* waits until it is removed, not only ended */
};

struct docker *docker_new(struct daemon *d);
/* Before the store starts. */
int docker_load(struct docker *k, struct err *e);
/* After the daemon serves: opens the listeners of sidecars. */
void docker_start(struct docker *k);
/* A sandbox has moved to another state. */
void docker_box_moved(struct docker *k, const struct sandbox *s);

/* ---- table.c ---- */

struct container *container_find(struct docker *k, uid_t uid, struct str name);
struct container *container_add(struct docker *k, uid_t uid, struct str name);
void container_save(struct container *c);
void container_save_then(struct container *c, store_on_done on_done, void *arg);
/* Out of the table and the store; waits are answered. */
void container_remove(struct container *c);
void container_hold(struct container *c);
void container_release(struct container *c);
void container_ended(struct container *c, int code);
/* Its start has failed: no program has ended, but those who wait are told 128, as by Docker. */
void container_not_started(struct container *c);
/* Its box may have ended while it was being started. */
void container_look_at_box(struct container *c);
bool container_is_sidecar(const struct container *c);
/* The container of a sidecar, and the other way round. */
struct container *container_partner(const struct container *c);
struct docker_image *docker_image_find(struct docker *k, uid_t uid, struct str tag);
struct docker_image *docker_image_put(struct docker *k, uid_t uid, struct str tag);
void docker_image_save(struct docker *k, const struct docker_image *i);
void docker_image_remove(struct docker *k, struct docker_image *i);
/* Names the sandbox of a container. */
void docker_box_name(struct container *c);
/* 64 hexadecimal digits. */
void docker_random_id(char ret[65]);

/* ---- ask.c ---- */

typedef void (*docker_on_reply)(struct container *c, struct daemon_request *r, int status, struct str body);
/* Asks the daemon's API; the request is held. `r` is NULL in the answer when its client has gone. */
typedef void (*docker_on_answer)(void *arg, struct daemon_request *r, int status, struct str body);
struct docker_call {
	const char *method, *target;
	struct str body; /* JSON, or empty */
	docker_on_answer on_answer;
	void *arg;
};
void docker_call(struct docker *k, struct daemon_request *r, const struct docker_call *call);
/* Asks the daemon's API about the container's sandbox; container and request are held. `r` may be NULL. */
void docker_ask(struct container *c, struct daemon_request *r, const char *method, const char *target, struct str body,
	docker_on_reply on_reply);
/* 2xx, or 404: what was asked to go is not there. */
bool docker_went(int status);
void docker_error(struct daemon_request *r, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The error of such a question, or another text. */
void docker_answer_failed(struct daemon_request *r, int status, struct str body);
void docker_no_content(struct daemon_request *r, int status);
/* A member of the query; empty: it is not there. */
void docker_query(struct daemon_request *r, const char *key, struct buf *ret);

/* The path without a version in front: "/v1.47/containers/json" → "/containers/json". */
struct str docker_path(struct daemon_request *r);

/* The container that the path of a request names; NULL: it was answered with 404. */
struct container *docker_container_of(struct daemon_request *r);

/* ---- filters.c ---- */

/* The filters of a list; NULL in *ret: it has none. -1: one that is not among `known` (up to NULL), or makes no sense,
 * was answered with 400. The caller frees it. */
int docker_filters_read(struct daemon_request *r, const char *const *known, struct json_doc **ret);
typedef bool (*docker_filter_match)(struct str filter, struct str value);
/* Whether one value of the filter matches, or there is no such filter. */
bool docker_filter_any(const struct json_doc *filters, const char *name, docker_filter_match match, struct str value);
/* Whether the labels, a JSON object, have all that the filter "label" names: "key" or "key=value". */
bool docker_filter_labels(const struct json_doc *filters, const char *labels);
/* Labels of a container or a volume as text. NULL: VALIDATION_FAILED. The caller frees it. */
char *docker_labels(const struct json *labels, struct err *e);

/* ---- exec.c ---- */

void exec_create(struct daemon_request *r, struct container *c, struct str body);
/* /exec/E/… */
void docker_exec_route(struct docker *k, struct daemon_request *r, uid_t uid, struct str rest);
/* The container is gone. */
void docker_execs_forget(struct docker *k, const char *container_id);

/* ---- images.c ---- */

/* A reference for which Atoll's default image stands, or the sidecar's image. */
bool docker_image_is_known(struct str ref);
/* POST /atoll/images?t=TAG {"image": …}: atoll-docker has built or pulled it. */
void docker_image_name(struct docker *k, struct daemon_request *r, uid_t uid, struct str body);
void docker_image_list(struct docker *k, struct daemon_request *r, uid_t uid);
void docker_image_pull(struct docker *k, struct daemon_request *r, uid_t uid);
/* …/json, …/tag and DELETE; the rest of the path is a reference, which has slashes. */
void docker_image_route(struct docker *k, struct daemon_request *r, uid_t uid, struct str rest);
/* POST /commit?container=…&repo=… */
void docker_commit(struct docker *k, struct daemon_request *r, uid_t uid);

/* ---- container.c ---- */

void container_create(struct docker *k, struct daemon_request *r, uid_t uid, struct str body);
/* Of a container or a volume. */
bool docker_name_ok(struct str name);
/* "K=V" of a list as a JSON object; the last of a name counts. The caller frees it. */
char *docker_env(const struct json *list);
void container_list(struct docker *k, struct daemon_request *r, uid_t uid);
void container_json(struct daemon_request *r, const struct container *c);

/* ---- end.c ---- */

void container_wait(struct daemon_request *r, struct container *c);
void container_kill(struct daemon_request *r, struct container *c);
void container_stop(struct daemon_request *r, struct container *c);
/* Its start is over: signals that came meanwhile are sent, or refused. */
void container_send_late(struct container *c);
void container_delete(struct daemon_request *r, struct container *c);
/* Ends a container whose client is gone, with its sidecar. */
void container_reap(struct container *c);

/* ---- start.c ---- */

void container_start(struct daemon_request *r, struct container *c);
/* Answers when the record is on disk. */
void container_save_answer(struct container *c, struct daemon_request *r, int status);
/* Removes a container with its sidecar after ATOLL_DOCKER_ORPHAN_AFTER unless a client waits for its end by then; a
 * sidecar after DOCKER_SIDECAR_AFTER unless it has a container by then. */
void container_watch_orphan(struct container *c);

/* What its sandbox is made with. */
void container_spec(struct container *c, const char *image, struct buf *ret);

/* ---- helper.c ---- */

/* Makes its box and unpacks the request's body in it. */
void helper_put_archive(struct daemon_request *r, struct container *c);
/* Runs its command; the container ends with it. */
void helper_run(struct container *c);

/* ---- volumes.c ---- */

int docker_volumes_load(struct docker *k, struct err *e);
/* POST /volumes/create */
void docker_volume_create(struct docker *k, struct daemon_request *r, uid_t uid, struct str body);
/* The rest of the path behind /volumes. */
void docker_volume_route(struct docker *k, struct daemon_request *r, uid_t uid, struct str rest);
/* Binds and Mounts of a container that is to be created, as the member "volumes" of a sandbox; NULL: it has none.
 * VALIDATION_FAILED, NOT_FOUND. */
/* Refuses what would give a container more rights than a sandbox (rights.c). */
int docker_rights_check(const struct json *create, bool sidecar, struct err *e);
int docker_mounts(struct docker *k, uid_t uid, const struct json *create, char **ret, struct err *e);

/* ---- archive.c ---- */

/* PUT. A running container: unpacks, then answers. Else keeps it until the start, which fails when it cannot be
 * unpacked. */
void container_put_archive(struct daemon_request *r, struct container *c);
/* Unpacks what was kept. */
void archive_unpack(struct container *c, struct daemon_request *r, docker_on_reply on_reply);
/* Forgets it. */
void archive_drop(struct container *c);
/* Whether the answer to that says that it failed; `why` is for the client. */
bool archive_failed(int status, struct str body, struct buf *why);

/* Absolute, and without a NUL. */
bool archive_path_ok(struct str path);

/* ---- archive_stream.c ---- */

/* GET and HEAD. */
void container_get_archive(struct daemon_request *r, struct container *c);
/* PUT of a running container: the request's body, as it comes. */
void archive_unpack_stream(struct daemon_request *r, struct container *c, const char *path);

/* ---- egress.c ---- */

/* What PUT /egress of a sidecar asks for. */
struct egress_wish {
	bool has_internet, internet, has_port;
	uint16_t port;
	char *hosts; /* a JSON array; NULL: it does not say. The caller frees it */
};
/* VALIDATION_FAILED. */
int egress_read(struct str body, struct egress_wish *ret, struct err *e);

/* status 204: the box's network is as it was asked for. Else `text` says why not. */
typedef void (*egress_on_done)(void *arg, int status, const char *text);
/* Keeps the wish and sets the network of the container's box. `on_done` comes once, later; NULL: one is under way. */
struct egress *egress_change(
	struct container *sidecar, const struct egress_wish *wish, egress_on_done on_done, void *arg);
/* Nobody waits for on_done any more. NULL is fine. */
void egress_forget(struct egress *g);
/* The member "network" of a box that is about to be made. */
void egress_write(struct container *c, struct json_writer *w);
/* Members for the gate about workerd, which decides about the connections of a container's box: port (0: it does not),
 * uid, internet, http. False: the sandbox is no container. */
bool docker_worker_write(struct docker *k, const struct sandbox *s, struct json_writer *w);

/* ---- ingress.c ---- */

/* Listens on 127.0.0.1, on `port` if it is free (0: any). */
struct ingress *ingress_open(struct container *c, uint16_t port, struct err *e);
uint16_t ingress_port(const struct ingress *in);
void ingress_close(struct ingress *in);
