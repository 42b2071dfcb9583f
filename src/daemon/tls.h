/*
 * tls.h - TLS for the TCP listeners, with a certificate and a key that another program renews.
 *
 * The two files are read at the start, on SIGHUP, and after one of them has changed (checked every TLS_LOOK ms). New
 * connections get the new certificate; open connections keep the certificate that they began with. If a pair cannot be
 * used, the daemon logs the reason and keeps the old pair.
 *
 * TLS 1.2 with forward secrecy and authenticated encryption, or 1.3; no renegotiation, no compression; HTTP/1.1 by
 * ALPN. Thread: the loop's.
 */
#pragma once

#include "base/loop.h"
#include "daemon/limits.h"
#include "http/server/server.h"
#include "proto/errc.h"

struct tls;

/* The files must be readable for the daemon's user. The paths live as long as the daemon. */
int tls_new(const char *cert, const char *key, struct loop *l, struct tls **ret, struct err *e);
/* Reads the files again, now. */
void tls_reload(struct tls *t);
/* For http_server_set_layer; arg: the struct tls. */
struct http_layer *tls_open(void *arg, int fd);
