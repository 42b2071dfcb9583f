/*
 * carry.h - one connection of the command line, carried to a daemon through TLS.
 *
 * The command line speaks HTTP on `local`; its bytes go to host:port and the answers come back. Nothing is sent to a
 * daemon whose certificate is not one for that host by an authority of this machine (OpenSSL's own list, or
 * SSL_CERT_FILE and SSL_CERT_DIR). When there is no such connection, what asked is answered with the API's error
 * envelope and 502, so that the reason reaches the user by the way that all reasons do.
 *
 * Memory is two buffers; whoever is slow slows the other side. A process for each connection, so all of this may block.
 */
#pragma once

#include "proto/errc.h"

/* Where to. A host may be a name or an address. */
struct carry_to {
	const char *host, *port;
};

/* Until either side has ended. Takes `local`. */
void carry(int local, const struct carry_to *to);
