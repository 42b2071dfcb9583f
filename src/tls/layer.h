/*
 * layer.h - a TLS connection of OpenSSL as the layer of an HTTP connection (http/layer.h).
 *
 * The SSL object has its socket and knows its side (SSL_set_accept_state, or a client's finished handshake). Contexts
 * need tls_layer_rules: the rest of an output may be sent from another place, idle connections hold no buffers, no
 * renegotiation, no compression. Thread: the loop's.
 */
#pragma once

#include <openssl/ssl.h>

#include "http/layer.h"

/* What every context behind a layer needs. False: OpenSSL refuses. */
bool tls_layer_rules(SSL_CTX *ctx);
/* Owns `ssl` from now on. */
struct http_layer *tls_layer_new(SSL *ssl);
