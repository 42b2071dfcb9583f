/*
 * network.h - the `network` of a sandbox: read from JSON, checked, merged with the daemon's defaults.
 *
 * A sandbox keeps the text of what was asked for, with the members that were given and no others; "{}" asks for
 * nothing. Rules of ATOLL_NETWORK_ALLOW and ATOLL_NETWORK_DENY stand before the sandbox's own, its mode is
 * ATOLL_NETWORK's where it has none; with `defaults` false, nothing is allowed for all sandboxes. Pure functions;
 * proto/policy.h knows what rules mean.
 */
#pragma once

#include "base/json.h"
#include "daemon/config.h"
#include "proto/policy.h"
#include "proto/warden.h"

/* The object with its known members, written anew; VALIDATION_FAILED names what is wrong. `own` is what the sandbox
 * has: members that are not given stay as they are, null takes one away. "{}" for a new one. Where that is
 * NETWORK_UNKNOWN, the mode must be given: nobody knows what the rest would be added to. The caller frees. */
int network_change(const char *own, const struct json *object, char **ret, struct err *e);

/* The same with one more rule in `key` ("allow" or "deny"), unless it is there. */
int network_add_rule(const char *own, const char *key, const char *rule, char **ret, struct err *e);

/* Members of the whole policy: mode, allow, deny, ask, askTimeout, rateBps, maxConnections. `missing`: why the mode is
 * `off` whatever was asked for, which becomes the member `reason`; or NULL. */
void network_write(struct json_writer *w, const struct network_defaults *d, const char *own, const char *missing);
/* The mode that was asked for. */
struct str network_mode(const struct network_defaults *d, const char *own);
/* What a sandbox has whose box was found without a row: nobody knows its policy. Off until it starts again, or until
 * somebody sets one. */
#define NETWORK_UNKNOWN "{\"mode\":\"off\",\"unknown\":true}"
bool network_is_unknown(const char *own);
/* Why this sandbox has no network, whatever its policy says; NULL: it has. The host cannot steer connections (a kernel
 * before 5.9), or its box was started before it could, or could not be steered, or its policy is not known. */
struct sandbox;
const char *network_missing(const struct sandbox *s);
/* enum warden_steer that the whole policy needs. */
uint32_t network_steer(const struct network_defaults *d, const char *own);
