#include "tls/layer.h"

#include <openssl/err.h>

struct tls_layer {
	struct http_layer base;
	SSL *ssl;
	bool dead; /* an error that TLS does not survive: not even a goodbye is allowed */
};

static struct tls_layer *layer_of(const struct http_layer *l)
{
	return container_of(l, struct tls_layer, base);
}

/* The result of SSL_read or SSL_write in the form of recv and send. */
static ssize_t outcome(struct tls_layer *t, int r, enum layer_wants *wants)
{
	int why = SSL_get_error(t->ssl, r), os = errno;
	*wants = why == SSL_ERROR_WANT_WRITE ? LAYER_WANTS_WRITE : LAYER_WANTS_READ;
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	if (why == SSL_ERROR_ZERO_RETURN)
		return 0;
	t->dead = true;
	return why == SSL_ERROR_SYSCALL && os ? -os : -EPROTO;
}

/* OpenSSL takes one record at a time from the socket: the rest stays where epoll sees it. */
static ssize_t layer_read(struct http_layer *l, char *p, size_t n, enum layer_wants *wants)
{
	enum { RECORD = SSL3_RT_MAX_PLAIN_LENGTH };
	struct tls_layer *t = layer_of(l);
	size_t got = 0;
	int r = 1;
	ERR_clear_error();
	while (n - got >= RECORD && (r = SSL_read(t->ssl, p + got, (int)(n - got))) > 0)
		got += (size_t)r;
	if (got)
		return (ssize_t)got;
	return outcome(t, r, wants);
}

static ssize_t layer_write(struct http_layer *l, const char *p, size_t n)
{
	struct tls_layer *t = layer_of(l);
	enum layer_wants wants;
	size_t put = 0;
	int r = 1;
	ERR_clear_error();
	while (put < n && (r = SSL_write(t->ssl, p + put, (int)(n - put < INT32_MAX ? n - put : INT32_MAX))) > 0)
		put += (size_t)r;
	if (put == n || put > 0)
		return (ssize_t)put;
	ssize_t result = outcome(t, r, &wants);
	return result ? result : -EPIPE;
}

static bool layer_ready(const struct http_layer *l)
{
	return SSL_is_init_finished(layer_of(l)->ssl);
}

static void layer_goodbye(struct http_layer *l)
{
	struct tls_layer *t = layer_of(l);
	ERR_clear_error();
	if (!t->dead && SSL_is_init_finished(t->ssl))
		SSL_shutdown(t->ssl);
}

static void layer_free(struct http_layer *l)
{
	SSL_free(layer_of(l)->ssl);
	free(layer_of(l));
}

static const struct http_layer_ops layer_ops = {
	.read = layer_read,
	.write = layer_write,
	.ready = layer_ready,
	.goodbye = layer_goodbye,
	.free = layer_free,
};

bool tls_layer_rules(SSL_CTX *ctx)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(
		ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

struct http_layer *tls_layer_new(SSL *ssl)
{
	struct tls_layer *l = xcalloc(1, sizeof *l);
	l->base.ops = &layer_ops;
	l->ssl = ssl;
	return &l->base;
}
