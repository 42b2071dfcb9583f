/*
 * service.h - services: background processes that are started again when their box starts, and when they end.
 *
 * The list of services is a file of the box (SERVICES_FILE), so it comes along with snapshots, forks and backups, and
 * needs nobody outside. It names each service by the id of its process, with command, directory and variables. A
 * service is started again with a pause that doubles from SERVICE_RETRY_MIN to SERVICE_RETRY_MAX, and begins anew after
 * a run of SERVICE_STEADY. A client that kills the process ends the service. The file is the box's own: what is not
 * well-formed in it is left out.
 *
 * ENTRYPOINT and CMD of the box's image are a service too, SERVICE_ENTRYPOINT. It is not in the file: the image names
 * it at each start of the box. It needs no shell, and its success is its end.
 *
 * Alone (atoll-agent serve), services are started again when they end, and the list is not written. Thread: the loop's.
 */
#pragma once

#include "agent/proc/run.h"
#include "agent/process/process.h"

#define SERVICES_FILE "/var/lib/atoll-agent/services.json"

#define SERVICE_ENTRYPOINT "entrypoint"

/* What a service needs to be started again. All owned. */
struct service_spec {
	char *id, *command, *cwd;
	char **argv; /* of the entrypoint: runs in place of the command, which is for people */
	struct env env;
	bool keep_alive;
};
void service_spec_free(struct service_spec *s);

/* The process runs: keeps it as a service, on disk as well. Takes the spec. On failure the service is not kept. */
int service_keep(struct process *p, struct service_spec *spec, struct err *e);
/* No longer a service, whether its process runs or not. False: there is none of that id. */
bool service_forget(struct str id);
void service_forget_all(void);
/* The process of a service has ended by itself: starts it again, later. */
void service_ended(const struct process *p);
/* How often it was started again; -1: no service of that id. */
long service_restarts(struct str id);
/* The box has started and has its variables: starts the services of the file that do not run. */
void services_start(void);
/* The program of the image, from a list of words. -1: the list is none. An empty one starts nothing. */
int service_start_entrypoint(const struct json *words, struct err *e);
