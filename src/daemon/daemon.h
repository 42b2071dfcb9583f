/*
 * daemon.h - the object that holds the parts of the daemon. main.c makes it; every function that needs a part gets it.
 */
#pragma once

#include "base/loop.h"
#include "base/map.h"
#include "base/tcp_owner.h"
#include "daemon/admit/tokens.h"
#include "daemon/config.h"
#include "daemon/core/state.h"
#include "daemon/metrics.h"
#include "daemon/warden_client.h"
#include "http/client/client.h"
#include "http/server/server.h"
#include "store/store.h"

struct daemon {
	struct config config;
	struct loop *loop;
	struct http_server *server;
	struct tls *tls;	    /* of the TCP listeners; NULL: none */
	struct http_client *client; /* to the agents */
	struct store *store;
	struct warden_client *warden;
	struct gate_client *gate;
	int images_meta;  /* directory: proto/image.h; -1: not known yet */
	struct map pulls; /* canonical reference → struct pull: route/images_pull.c */
	struct secrets *secrets;
	struct approvals *approvals;
	struct network_defaults network; /* the configuration's, with the rules of approvals */
	struct mcp *mcp;
	struct docker *docker;
	struct events *events;
	struct tickets *tickets;
	struct login *login;
	struct audit *audit;
	struct tokens *tokens;
	struct list token_requests;    /* under way, of named tokens: route/tokens_api.c */
	struct loop_timer token_timer; /* the next token ends */
	struct tcp_host tcp;	       /* pass/preview_memory.h */
	struct loop_timer tcp_look;

	struct map boxes;	    /* id → struct sandbox, all but the destroyed ones */
	struct list running;	    /* those of them that run */
	struct map volume_users;    /* name of a volume → who uses it: core/uses.h */
	struct map tunnels;	    /* label of the host → struct tunnel */
	size_t by_state[SB_STATES]; /* without boxes of builds … */
	size_t work_n;		    /* … which are so many */
	struct map volumes;	    /* name → struct volume: storage/volumes.h */
	struct map snapshots;	    /* id → struct snapshot: storage/snapshots.h */
	bool snapshots_left;	    /* deletions of some failed: snapshots_retry */
	struct backups *backups;
	struct backup_jobs *backup_jobs;
	struct image_jobs *image_jobs;
	struct metrics metrics;
	uint64_t started_ms; /* monotonic */
	bool stopping;

	/* Called once, when the warden has first said which boxes live. */
	void (*on_recovered)(struct daemon *d);
	bool recovered; /* it has: until then the states are those of the rows, and may be older than the boxes */
	struct loop_timer serve_timer;
};
