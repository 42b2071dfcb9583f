/*
 * config.h - the settings from the environment. They are read once at start, made absolute, checked, and never change.
 */
#pragma once

#include <sys/types.h>

#include "daemon/ports/hosts.h"
#include "proto/errc.h"
#include "proto/policy.h"

/* Of sandboxes whose own network has no such member. */
struct network_defaults {
	enum policy_mode mode;	  /* ATOLL_NETWORK, open */
	const char *allow, *deny; /* ATOLL_NETWORK_ALLOW, ATOLL_NETWORK_DENY: lists of rules, as JSON */
};

struct config {
	struct network_defaults network;
	const char *listen;    /* "127.0.0.1:8700"; ATOLL_LISTEN */
	char data[256];	       /* ATOLL_DATA, /var/lib/atoll */
	char state_dir[280];   /* data/daemon */
	char token_path[280];  /* data/token */
	char run[80];	       /* ATOLL_RUN, /run/atoll: short, since socket addresses hold 107 bytes */
	char warden_sock[108]; /* run/warden.sock */
	char api_sock[108];    /* run/atoll.sock */
	char own_sock[108];    /* run/own.sock: as our own programs, see LISTEN_OWN */
	char listen_path[108]; /* run/listen */
	/* ATOLL_PREVIEW_DOMAIN, lower case; by default localhost and the port that is really listened on. */
	char preview_domain[256];	  /* with its port, when it has one */
	size_t preview_host_n;		  /* of that, the name alone */
	char preview_scheme[8];		  /* of preview URLs: http or https */
	struct host_names hosts;	  /* ATOLL_HOSTS */
	struct host_nets trusted_proxies; /* ATOLL_TRUSTED_PROXIES */
	const char *tls_cert, *tls_key;	  /* ATOLL_TLS_CERT, ATOLL_TLS_KEY; NULL: no TLS */
	uint64_t docker_orphan_ms;	  /* ATOLL_DOCKER_ORPHAN_AFTER, 5 minutes; 0: never */
	uint64_t sleep_after_ms;	  /* ATOLL_SLEEP_AFTER, 10 minutes; 0: never */
	uint64_t page_out_after_ms;	  /* ATOLL_PAGE_OUT_AFTER, 1 minute; 0: never */
	uint64_t backup_every_min_ms;	  /* ATOLL_BACKUP_EVERY_MIN, 1 minute */
	uint64_t backup_bytes;		  /* ATOLL_BACKUP_BYTES, 100G, of one sandbox; 0: any number */
	uint64_t backup_time_ms;	  /* ATOLL_BACKUP_TIME, 1 hour; 0: as long as it takes */
	uint32_t app_timeout_ms;	  /* ATOLL_APP_TIMEOUT; 0: as long as the client waits */
	const char *image;		  /* ATOLL_IMAGE, of sandboxes that name none; NULL: Atoll's own */
	bool pull_missing;		  /* ATOLL_PULL=missing */
	bool tunnels_cloudflared;	  /* ATOLL_TUNNELS=cloudflared */
	const char *user;		  /* ATOLL_USER, atoll: whom to become when started as root */
};

/* Completes the defaults that depend on the address that is listened on ("127.0.0.1:8700", or "" for none). */
void config_listening(struct config *c, const char *address);

int config_read(struct config *ret, struct err *e);
