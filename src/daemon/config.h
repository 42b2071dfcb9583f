/*
 * config.h - what the environment says: read once at start, absolute and checked, never changed after.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct config {
	const char *listen;	  /* "127.0.0.1:8700"; ATOLL_LISTEN */
	char data[256];		  /* ATOLL_DATA, /var/lib/atoll */
	char state_dir[280];	  /* data/daemon */
	char token_path[280];	  /* data/token */
	char run[80];		  /* ATOLL_RUN, /run/atoll: short, since socket addresses hold 107 bytes */
	char warden_sock[108];	  /* run/warden.sock */
	char api_sock[108];	  /* run/atoll.sock */
	char listen_path[108];	  /* run/listen */
	char preview_domain[256]; /* ATOLL_PREVIEW_DOMAIN, localhost:8700; lower case */
	const char *user;	  /* ATOLL_USER, atoll: whom to become when started as root */
};

int config_read(struct config *ret, struct err *e);
