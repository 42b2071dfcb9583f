/*
 * sock_owner.h - whose a TCP socket of this host is. The kernel is asked (sock_diag); no privilege is needed.
 *
 * Any user of the machine can connect to loopback, and listen there: this tells users apart.
 */
#pragma once

#include <stdint.h>

/* The user of the other end of a connection over IPv4 loopback; -1: not known. */
int64_t sock_owner_peer(int fd);
/* The user who listens on 127.0.0.1:`port`, or on that port of every address; -1: nobody. */
int64_t sock_owner_listener(uint16_t port);
