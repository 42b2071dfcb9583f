/*
 * control.h - requests to a box that lives: signal, freeze, thaw, inspect, new limits, network, sockets.
 */
#pragma once

#include "proto/warden.h"
#include "warden/server.h"

/* The living box that the request names. Otherwise replies with an error and returns NULL. */
struct box *control_living(struct warden *w, const struct warden_request *rq, struct warden_asker *who);
void control_signal(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void control_freeze(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void control_thaw(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void control_inspect(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void control_trust(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void control_network(struct warden *w, const struct warden_request *rq, struct warden_asker who);
void control_limits(struct warden *w, const struct warden_request *rq, struct warden_asker who);

/* Fills defaults into fields that are 0 and checks all against the host. */
int limits_check(const struct warden_host *offer, struct box_limits *l, struct err *e);

/* Sockets of the box's network, for atolld (sockets.c). */
/* One for the image service. */
int sockets_one(struct warden *w, struct box *b, int *ret, struct err *e);
void sockets_make(struct warden *w, const struct warden_request *rq, struct warden_asker who);
