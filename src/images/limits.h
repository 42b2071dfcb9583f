/*
 * limits.h - the limits of the image service: quantities that a client, an archive or a registry can drive, by name.
 */
#pragma once

#include "base/limits.h"

#define SERVICE_JSON_MAX      (1024u * 1024) /* of a request's JSON body */
#define SERVICE_UPLOAD_MAX    (64ull << 30)  /* of an archive or a context */
#define SERVICE_MANIFEST_MAX  (4u * 1024 * 1024)
#define SERVICE_PULL_AT_ONCE  6u	  /* layers that are fetched at once, one after the other … */
#define SERVICE_PULL_FAST     (64u * MIB) /* … while they bring as many bytes a second … */
#define SERVICE_PULL_LOOK     50	  /* … counted after so many ms */
#define SERVICE_PULL_PIECE    (1u * MIB)  /* of a layer that is written at once */
#define SERVICE_PULL_TRIES    5		  /* in a row of a layer that bring less than … */
#define SERVICE_PULL_STEP     65536u	  /* … these bytes */
#define SERVICE_BLOBS_KEPT    86400	  /* s: layers of a pull that did not end */
#define SERVICE_MIRRORS_MAX   8u	  /* of one registry */
#define SERVICE_HOST_MAX      255
#define SERVICE_CONF_MAX      (1024u * 1024) /* of registries.conf */
#define SERVICE_CERTS_MAX     (4u * 1024 * 1024)
#define SERVICE_TOKEN_MAX     65536u /* of the answer with a registry's token */
#define SERVICE_REDIRECTS_MAX 5
#define SERVICE_PROXIES_MAX   16	    /* addresses of proxies that the environment names */
#define SERVICE_CONNECT_TIME  15000	    /* ms */
#define SERVICE_ANSWER_TIME   120000	    /* ms: for a manifest, a configuration, a token */
#define SERVICE_SLOWEST	      1024	    /* bytes a second; a slower connection counts as cut after … */
#define SERVICE_SLOW_TIME     30	    /* … these seconds */
#define SERVICE_PULL_PAUSE    500	    /* ms between them */
#define SERVICE_PROGRESS      250	    /* ms between two reports of a pull */
#define SERVICE_FEED_PAUSE    5		    /* ms between two looks at a file that grows */
#define SERVICE_DAEMON_TIME   90000	    /* ms: for an answer of the daemon */
#define SERVICE_DAEMON_MAX    (16u * MIB)   /* of an answer of the daemon */
#define SERVICE_TIDY_TIME     60	    /* s: to remove what a job has left; a sweep takes twice as long */
#define SERVICE_DROP_TRIES    100	    /* to destroy a box while the warden is away, with … */
#define SERVICE_DROP_PAUSE    100	    /* … these ms between them */
#define SERVICE_MEMBERS_MAX   65536u	    /* files of an image archive */
#define SERVICE_OUTPUT_MAX    (256u * 1024) /* of a mover's report */
#define SERVICE_BOX_MEMORY    (4ull << 30)  /* of a build's box, or half of the host's if that is less */
#define SERVICE_BOX_PIDS      1024u
#define SERVICE_MOUNTS_MAX    16u	   /* of one RUN */
#define SERVICE_CACHES_MAX    64u	   /* caches of builds; one more removes the one that was used least lately */
#define SERVICE_CACHE_SIZE    (4ull << 30) /* of one cache */
#define SERVICE_CACHE_PRIVATE 8u	   /* caches for one id that are private */
#define SERVICE_CACHE_WAIT    3600000ull   /* ms: for a cache that another build has locked */
#define SERVICE_CACHE_BOX     60000ull	   /* ms: for the box of a build that was killed */
#define SERVICE_CACHE_LOOK    100	   /* ms between two looks at a lock */
#define SERVICE_SCRATCH_SIZE  (8ull << 30) /* of a directory that is bound, or of a tmpfs without a size */
#define SERVICE_SECRETS_MAX   (2u * 1024 * 1024) /* of all secrets of a build, as JSON */
#define SERVICE_PAGE_MAX      (64u * MIB)	 /* of a page of the list of sandboxes */
#define SERVICE_ID_MAX	      65534u		 /* of a user in an image */
#define SERVICE_COPY_MAX      1000		 /* sources of one COPY */
#define SERVICE_LIST_MAX      4096u		 /* entries of ENV, ENTRYPOINT … */
