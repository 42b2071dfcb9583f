/*
 * limits.h - the limits of the Docker socket. Sizes are bytes, times are milliseconds.
 */
#pragma once

#include "base/limits.h"

#define DOCKER_BODY_MAX	      (1u * MIB) /* of a request in JSON */
#define DOCKER_NAME_MAX	      255	 /* of a container or an image */
#define DOCKER_CONTAINERS_MAX 1024
#define DOCKER_IMAGES_MAX     1024
#define DOCKER_LABELS_MAX     (16u * KIB) /* of a container or a volume, in JSON */
#define DOCKER_EXECS_MAX      1024	  /* commands that are known */
#define DOCKER_EXEC_BODY_MAX  (16u * KIB)
#define DOCKER_WHY_MAX	      2048	 /* of what tar says when it fails */
#define DOCKER_TAGS_KEPT      8		 /* of one repository of wrangler */
#define DOCKER_ANSWER_MAX     (1u * MIB) /* of the daemon's own API */
#define DOCKER_ASK_TIMEOUT    120000
#define DOCKER_SIDECAR_AFTER  60000	  /* a sidecar whose container is gone */
#define INGRESS_HEAD_MAX      (8u * KIB)  /* of a request to a sidecar */
#define INGRESS_BODY_MAX      (64u * KIB) /* of PUT /egress */
#define INGRESS_HEAD_TIMEOUT  10000
#define INGRESS_CONNECT	      10000
#define INGRESS_BETWEEN	      1000	  /* a connection to the agent outlives its box */
#define INGRESS_CONNS_MAX     256	  /* of one sidecar */
#define INGRESS_BUFFER	      (64u * KIB) /* in one direction of a connection */
#define INGRESS_REST	      100	  /* a sidecar that cannot take a connection tries again */
