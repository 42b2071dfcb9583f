#include "daemon/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "daemon/limits.h"
#include "tls/layer.h"

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

/* ---- one connection ---- */

struct http_layer *tls_open(void *arg, int fd)
{
	struct tls *t = arg;
	SSL *ssl = SSL_new(t->ctx);
	if (!ssl || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_accept_state(ssl);
	return tls_layer_new(ssl);
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
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	return tls_layer_rules(ctx);
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
