#include "daemon/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "daemon/limits.h"

/* The identity of a file at the time it was read: shows whether the file has changed since. */
struct tls_file {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime, ctime;
};

struct tls {
	const char *cert, *key;
	SSL_CTX *ctx;
	struct tls_file seen[2];
	struct err failure; /* why the files on disk were refused; zero: they were accepted */
	struct loop *loop;
	struct loop_timer look;
};

struct tls_layer {
	struct http_layer base;
	SSL *ssl;
	bool dead; /* an error that TLS does not survive: not even a goodbye is allowed */
};

/* ---- one connection ---- */

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

struct http_layer *tls_open(void *arg, int fd)
{
	struct tls *t = arg;
	SSL *ssl = SSL_new(t->ctx);
	if (!ssl || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_accept_state(ssl);
	struct tls_layer *l = xcalloc(1, sizeof *l);
	l->base.ops = &layer_ops;
	l->ssl = ssl;
	return &l->base;
}

/* ---- the certificate ---- */

static int tls_err(struct err *e, const char *what, const char *path)
{
	unsigned long code = ERR_get_error();
	const char *why = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
	ERR_clear_error();
	return err_set(e, ERRC_INVALID_REQUEST, "%s %s: %s (the daemon's user must be able to read it)", what, path,
		why ? why : "unknown error");
}

/* A key under a password would be asked for on the terminal. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf, (void)size, (void)rwflag, (void)arg;
	return -1;
}

static int choose_protocol(
	SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in, unsigned in_n, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	(void)ssl, (void)arg;
	int r = SSL_select_next_proto((unsigned char **)out, out_n, ours, sizeof ours - 1, in, in_n);
	return r == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

static bool set_rules(SSL_CTX *ctx)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	/* The rest of an output may be sent from another place; an idle connection holds no buffers. */
	SSL_CTX_set_mode(
		ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

static int load(const struct tls *t, SSL_CTX **ret, struct err *e)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int r = 0;
	if (!ctx || !set_rules(ctx))
		r = tls_err(e, "set up TLS for", t->cert);
	else if (SSL_CTX_use_certificate_chain_file(ctx, t->cert) != 1)
		r = tls_err(e, "read the certificate", t->cert);
	else if (SSL_CTX_use_PrivateKey_file(ctx, t->key, SSL_FILETYPE_PEM) != 1)
		r = tls_err(e, "read the key", t->key);
	if (r < 0)
		SSL_CTX_free(ctx);
	else
		*ret = ctx;
	return r;
}

static struct tls_file look_at(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return (struct tls_file){0};
	return (struct tls_file){
		.dev = st.st_dev, .ino = st.st_ino, .size = st.st_size, .mtime = st.st_mtim, .ctime = st.st_ctim};
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same_file(const struct tls_file *a, const struct tls_file *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && same_time(a->mtime, b->mtime) &&
	       same_time(a->ctime, b->ctime);
}

void tls_reload(struct tls *t)
{
	SSL_CTX *fresh;
	struct err e;
	t->seen[0] = look_at(t->cert);
	t->seen[1] = look_at(t->key);
	if (load(t, &fresh, &e) < 0) {
		/* Said once, tried at every look. */
		if (strcmp(e.msg, t->failure.msg) != 0)
			log_event(LOG_ERROR, "certificate not taken, the old one stays", "error=%s", LOG_Q(e.msg));
		t->failure = e;
		return;
	}
	t->failure = (struct err){0};
	/* Connections that began with the old one hold it. */
	SSL_CTX_free(t->ctx);
	t->ctx = fresh;
	log_event(LOG_INFO, "certificate loaded", "file=%s", LOG_Q(t->cert));
}

/* The two files are rarely replaced, or made readable, in one moment: a refused pair is tried again. */
static void on_look(struct loop_timer *timer)
{
	struct tls *t = container_of(timer, struct tls, look);
	struct tls_file cert = look_at(t->cert), key = look_at(t->key);
	if (t->failure.code || !same_file(&cert, &t->seen[0]) || !same_file(&key, &t->seen[1]))
		tls_reload(t);
	loop_timer_set(t->loop, &t->look, TLS_LOOK, on_look);
}

int tls_new(const char *cert, const char *key, struct loop *l, struct tls **ret, struct err *e)
{
	struct tls *t = xcalloc(1, sizeof *t);
	t->cert = cert;
	t->key = key;
	t->loop = l;
	t->seen[0] = look_at(cert);
	t->seen[1] = look_at(key);
	if (load(t, &t->ctx, e) < 0) {
		free(t);
		return -1;
	}
	loop_timer_set(l, &t->look, TLS_LOOK, on_look);
	*ret = t;
	return 0;
}
