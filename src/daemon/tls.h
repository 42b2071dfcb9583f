/*
 * tls.h - TLS for the TCP listeners, from a certificate and a key that somebody else keeps fresh.
 *
 * The two files are read at the start, on SIGHUP, and whenever one of them has changed (they are looked at every
 * TLS_LOOK ms). New connections get the new certificate; those that are there go on with the one they began with. A
 * pair that cannot be used is logged and the old one stays.
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
