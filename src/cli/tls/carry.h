/*
 * carry.h - carries one connection of the command line to a daemon through TLS.
 *
 * The command line speaks HTTP on `local`; its bytes go to host:port and the answers come back. Nothing is sent to a
 * daemon without a certificate for that host from a trusted authority (OpenSSL's own list, or SSL_CERT_FILE and
 * SSL_CERT_DIR). If the connection fails, the request is answered with 502 and the API's error envelope, so that the
 * command line prints the reason like any other error.
 *
 * Memory is two buffers; a slow side slows the other. Each connection has its own process, so every call may block.
 */
#pragma once

#include "proto/errc.h"

/* The daemon. `host` is a name or an address. */
struct carry_to {
	const char *host, *port;
};

/* Runs until either side has ended. Takes `local`. */
void carry(int local, const struct carry_to *to);
