/*
 * fetch.h - fetches images from registries, in a process of its own.
 *
 * What a registry sends is hostile, and so are the names that it makes us look up. So a child of the request's process
 * speaks with it: the daemon's user, without the descriptors of its parent, with a seccomp filter, and with Landlock
 * against writing, executing and reading anything but certificates and the resolver's files. It writes into descriptors
 * that its parent has opened, and tells what happens in notes. The parent trusts none of it: it compares the
 * configuration with the manifest, and every layer with the configuration (diff_id).
 *
 *	fetch.c        the child's life: manifest and configuration, or layers; its notes
 *	fetch_blobs.c  layers: several at once, each goes on where it was cut
 *	fetch_confine.c  what is left to the child
 *	fetch_http.c   one request: credentials, tokens, certificates; why it failed
 *	fetch_where.c  where an image may lie: mirrors, hosts, credentials for them
 */
#pragma once

#include <curl/curl.h>

#include "images/images.h"
#include "proto/ip.h"

/* ---- fetch_where.c ---- */

struct place {
	char host[SERVICE_HOST_MAX + 1]; /* with its port */
	char repo[IMAGE_REF_MAX + 1];
	bool insecure; /* certificates are not checked, plain HTTP is allowed */
};

struct places {
	struct place v[SERVICE_MIRRORS_MAX + 1]; /* mirrors, then the registry itself */
	size_t n;
	char version[IMAGE_REF_MAX + 1]; /* a tag, or "sha256:…" */
};

/* A host of this machine, with or without a port: its certificate is not checked. */
bool place_is_local(struct str host);
/* `conf` is the text of a registries.conf, or "". Pure. */
int places_find(struct str ref, struct str conf, struct places *ret, struct err *e);
/* The files that the settings name. */
void places_conf(struct buf *ret);
/* "user:password" for this host of a docker config.json; *ret_token: an identity token. False when there is none. */
bool place_credentials(const struct json *config, const struct place *p, struct buf *ret, struct buf *ret_token);

/* ---- fetch_http.c ---- */

struct session {
	const char *ref; /* for messages */
	const struct place *place;
	const char *credentials; /* text of a docker config.json, or NULL */
	bool plain;		 /* http:// */
	char *header;		 /* "Authorization: …", or NULL */
	bool tried;		 /* with credentials */
	unsigned turn;		 /* counts the headers */
	struct buf authorities;	 /* certificates beside the system's */
	struct {
		struct ip ip;
		uint16_t port;
	} proxies[SERVICE_PROXIES_MAX]; /* that the environment names */
	size_t proxies_n;
};
void session_open(struct session *s);
void session_close(struct session *s);

struct answer {
	struct buf body;  /* has a maximum */
	char digest[128]; /* Docker-Content-Digest */
	char challenge[2048];
	uint64_t from; /* of Content-Range; UINT64_MAX: none */
	long status;
	bool near;    /* it came from this machine or its networks, and not through a proxy */
	bool sent;    /* a registry that is not near named this place: it must not be near either */
	bool refused; /* the last connection would have led to where the registry may not send us */
	/* of the request under way */
	const struct session *session;
	CURL *curl;
};
size_t answer_header(char *p, size_t size, size_t n, void *answer);
/* Options that all requests have; `path` begins behind the host. */
struct curl_slist *session_prepare(
	struct session *s, CURL *curl, const char *path, const char *accept, struct answer *a);
/* GET, with a token if the registry wants one. -1 also for any status but 200. */
int session_get(struct session *s, const char *path, const char *accept, struct answer *ret, struct err *e);
/* Answers a 401. */
int session_authorize(struct session *s, const struct answer *a, struct err *e);
/* What curl ended with; CURLE_UNSUPPORTED_PROTOCOL for a redirect that is not followed. Sets a->near. */
CURLcode session_result(struct answer *a, CURLcode code);
int session_explain(const struct session *s, CURLcode code, struct err *e);
int session_refused(const struct session *s, const struct answer *a, struct err *e);

/* ---- fetch.c ---- */

enum note_kind {
	NOTE_FOUND = 1, /* manifest and configuration are there; index: of the place, plain: by http:// */
	NOTE_SAY,	/* err.msg is for the user */
	NOTE_BYTES,	/* bytes: that have arrived, of: all */
	NOTE_BLOB,	/* index: this layer is there, with its size and digest */
	NOTE_FAILED,	/* err; index: of the layer with wrong content, or -1 */
};

struct note {
	uint32_t kind;
	int32_t index;
	bool plain;
	uint64_t bytes, of;
	struct err err;
};

struct blob {
	char hex[IMAGE_HEX + 1];
	uint64_t size;
	int fd; /* -1: not wanted */
};

struct fetch {
	const char *ref, *credentials;
	struct places places;
	size_t place; /* for layers: where the manifest was found */
	bool plain;
	int manifest, config; /* files for them */
	struct blob *blobs;
	size_t blobs_n; /* 0: fetch manifest and configuration */
	/* of the child */
	int sock;
	pid_t pid;
};

/* Gives up all but the network and what fetching reads, for good. */
int fetch_confine(struct err *e);
/* Starts the child; notes come from f->sock, a SEQPACKET socket. */
int fetch_start(struct fetch *f, struct err *e);
void fetch_end(struct fetch *f);

/* In the child. */
void note_send(const struct fetch *f, const struct note *n);
void note_say(const struct fetch *f, const char *text);
/* *ret_bad: the layer with wrong content, or -1. */
int fetch_blobs(struct fetch *f, struct session *s, int *ret_bad, struct err *e);
