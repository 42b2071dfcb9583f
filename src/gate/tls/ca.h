/*
 * ca.h - the authority of this host: its key, and certificates in the names of other servers.
 *
 * Boxes that have secrets or an HTTPS interception trust it; nobody else does. The key (P-256) is made at the first
 * start in a directory that only the gate's user can enter, and never leaves the gate. Without a directory it lives as
 * long as the process. Leaf certificates share one key of the process, are made when a name is first asked for and kept
 * for GATE_LEAF_KEEP, at most GATE_LEAVES_MAX of them; the one used longest ago makes room.
 *
 * Thread: the loop's.
 */
#pragma once

#include <openssl/ssl.h>

#include "gate/limits.h"
#include "proto/errc.h"

struct ca;

/* `dir` may be NULL. Reads the key there, or makes it. */
int ca_open(const char *dir, struct ca **ret, struct err *e);
void ca_free(struct ca *ca);
/* The certificate as PEM: what boxes trust. */
const char *ca_pem(const struct ca *ca);

/* The server's side of a connection on `fd` in the name of `name`: a host name or an address. NULL: cannot be made. */
SSL *ca_accept(struct ca *ca, const char *name, int fd);
