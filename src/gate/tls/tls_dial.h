/*
 * tls_dial.h - the client's side of TLS to a server that was reached: handshake, and proof that it is that server.
 *
 * The certificate must lead to an authority that the host itself trusts (OpenSSL's default file and directory, or
 * SSL_CERT_FILE and SSL_CERT_DIR of the gate's environment), be valid now, and have the name. There is no way around
 * that: a secret goes nowhere else. Only HTTP/1.1 is offered. A changed trust store is read again within
 * GATE_TRUST_LOOK. Thread: the loop's.
 */
#pragma once

#include <openssl/ssl.h>

#include "base/loop.h"
#include "gate/limits.h"
#include "proto/errc.h"

struct tls_trust;
struct tls_dial;

int tls_trust_open(struct loop *l, struct tls_trust **ret, struct err *e);

/* From the loop, once; the dial is freed behind. `ssl` is NULL when it failed: *why says so, and `late` that it took
 * more than GATE_TLS_TIMEOUT. Otherwise `ssl` is the callee's and its socket is `fd`. */
typedef void (*tls_dial_on_done)(void *arg, SSL *ssl, const char *why, bool late);

/* Does not own `fd`, which is connected. NULL: no memory. */
struct tls_dial *tls_dial_start(struct tls_trust *t, int fd, const char *name, tls_dial_on_done on_done, void *arg);
/* NULL is fine. Nothing is called any more. */
void tls_dial_cancel(struct tls_dial *d);
