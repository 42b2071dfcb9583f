/*
 * worker.h - workerd decides about the connections of a box: egress handlers of a container in `wrangler dev`
 * (docs/design/023-docker.md).
 *
 * atolld tells which port of loopback workerd listens on, and whose it must be. For each connection that the addresses
 * of the policy do not forbid, workerd is asked by CONNECT, with the name that the first bytes tell: X-Hostname of HTTP
 * on port 80, X-Tls-Sni of TLS.
 *
 *	200   a handler answers: HTTP goes into the tunnel, request by request (web.h); TLS ends here
 *	202   no handler: the bytes go into the tunnel as they are, and workerd dials. The policy decides names as
 *	      always, unless the container has no internet: then workerd dials nothing
 *	else  refused: the box's connection is reset
 *
 * Thread: the loop's.
 */
#pragma once

#include "base/json.h"
#include "gate/hook.h"
#include "proto/policy.h"

struct gate;
struct passage;
struct web;
struct worker_ask;

struct worker {
	uint16_t port;	     /* of workerd on 127.0.0.1 */
	uint32_t uid;	     /* who must listen there */
	bool internet;	     /* workerd dials what no handler answers for */
	struct hooks *names; /* that are answered with a synthetic address when they do not exist; or NULL */
};

/* Reads {"port", "uid", "internet", "http": names}. NULL when the port is 0. VALIDATION_FAILED. */
int worker_read(const struct json *o, struct worker **ret, struct err *e);
void worker_free(struct worker *w); /* NULL is fine */
/* Whether a name that does not exist, or is not allowed, is answered with a synthetic address. */
bool worker_names(const struct worker *w, const char *name);

struct worker_to {
	const struct ip *ip;
	uint16_t port;
	const char *hostname, *sni; /* or NULL */
};

/* From the loop, once: workerd's status, and with 200 and 202 the tunnel, which is the caller's. 0: workerd is not
 * there, or another user listens. The question is freed behind. */
typedef void (*worker_on_done)(void *arg, int status, int fd);
struct worker_ask *worker_ask_start(
	struct gate *g, const struct worker *w, const struct worker_to *to, worker_on_done on_done, void *arg);
/* NULL is fine. Nothing is called any more. */
void worker_ask_cancel(struct worker_ask *a);

/* ---- worker_passage.c ---- */
/* The worker that decides about a connection, or NULL. */
const struct worker *worker_of(const struct passage *c);
/* What the first bytes say; `name` is that of TLS. */
void worker_spoke(struct passage *c, enum policy_speech how, const char *name);
/* A request of a connection that workerd decides: the leg to workerd for its name. web_reached follows, or its end. */
void worker_dial(struct web *w);
