/*
 * ports.h - the exposed ports of a sandbox: their numbers, tokens, names, counters and last requests.
 *
 * A sandbox owns its ports (struct sandbox.ports, sorted by number). Each request on its way through a port holds a
 * reference; the last of them frees a port that was unexposed meanwhile. The store keeps all but the counters and the
 * requests; ports_api.c keeps table and store in step. Ports end with their sandbox.
 *
 * The counters are bounded: the first PORT_METRICS_MAX ports that are used have series of their own in /metrics while
 * they are exposed. All other ports share one series.
 *
 * Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "base/list.h"
#include "daemon/limits.h"
#include "daemon/metrics.h"
#include "daemon/pass/port_heads.h"
#include "store/limits.h"
#include "store/store.h"

struct daemon;
struct sandbox;
struct config;

/* One request, as it is remembered. Queries are not: they carry secrets. Owns its heads. */
struct port_entry {
	int64_t at_ms; /* wall clock, of its beginning */
	uint64_t us, bytes_in, bytes_out;
	int status; /* 0: nobody was there any more to answer */
	bool query; /* it had one */
	char method[16];
	char path[PORT_LOG_PATH_MAX + 1]; /* cut when longer */
	struct port_heads heads;
};

struct port {
	struct list node;
	unsigned refs;
	uint16_t number;
	bool gone;	 /* unexposed, or its sandbox destroyed */
	bool counted;	 /* has one of the PORT_METRICS_MAX series */
	uint32_t serial; /* of its last change: tells whether it is still what was written to the store */
	int64_t created_ms;
	char token[PORT_TOKEN_MAX + 1];
	char name[PORT_NAME_MAX + 1]; /* or "" */

	struct list previews;	     /* the requests under way through its URL (pass/preview.c) */
	void (*cut)(struct port *p); /* set by who adds to them: port_cut */
	struct port_stats stats;
	struct port_entry *log; /* NULL before the first request */
	size_t log_cap, log_n, log_next;
};

/* Check the parts of a port: INVALID_PORT or VALIDATION_FAILED. `name` may be empty. */
int port_check_number(uint16_t number, struct err *e);
int port_check_token(struct str token, struct err *e);
int port_check_name(struct str name, struct err *e);
/* Whether "{port}-{id}-{token}" is one label of a host name: INVALID_SANDBOX_ID_CHARACTERS or _LENGTH. */
int port_check_id(const char *id, uint16_t number, size_t token_n, struct err *e);
/* PORT_TOKEN_MAX characters from a-z and 0-9. */
int port_make_token(char ret[PORT_TOKEN_MAX + 1], struct err *e);

/* NULL when it is not exposed. */
struct port *port_find(struct sandbox *s, uint16_t number);
struct port *port_find_token(struct sandbox *s, const char *token);
/* A new one, in its place. It is not there yet; LIMIT_REACHED past PORTS_MAX. */
struct port *port_add(struct sandbox *s, uint16_t number, const char *token, const char *name, struct err *e);
/* One that is not among the exposed ones: a tunnel's. */
struct port *port_alone(uint16_t number);
/* Ends the requests under way that came with another token than the port has, or all when it is gone. */
void port_cut(struct port *p);
/* Takes it out. Requests that are under way go on unless port_cut ends them. */
void port_remove(struct sandbox *s, struct port *p);
void port_ref(struct port *p);
void port_unref(struct port *p);
/* All of them, when the sandbox ends. */
void ports_clear(struct sandbox *s);
/* Reads the store's ports into the table, after the sandboxes. Before the loop runs. */
int ports_load(struct daemon *d, struct err *e);

void port_url(struct buf *out, const struct config *c, const char *id, const struct port *p);
/* {url, port, name, token, status, createdAt} */
void port_view(struct json_writer *w, const struct sandbox *s, const struct port *p);

/* ---- port_log.c ---- */

/* Counts a request that has ended, and remembers it unless the port is gone. Takes the entry's heads. */
void port_record(struct daemon *d, struct port *p, struct port_entry *entry);
void port_log_free(struct port *p);
/* The remembered requests, newest first, as an array. */
void port_log_view(struct json_writer *w, const struct port *p);
/* Per-port series of /metrics. */
void port_metrics_write(struct daemon *d, struct buf *out);
