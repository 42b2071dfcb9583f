#include "gate/tls/tls_dial.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "tls/layer.h"

struct tls_trust {
	struct loop *loop;
	SSL_CTX *ctx;
	const char *file;
	struct stat seen;
	uint64_t looked;
};

struct tls_dial {
	struct tls_trust *trust;
	SSL *ssl;
	struct loop_io io;
	struct loop_timer timer;
	tls_dial_on_done on_done;
	void *arg;
};

/* ---- the host's trust store ---- */

static SSL_CTX *load(void)
{
	static const unsigned char http[] = "\x08http/1.1";
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	if (ctx && tls_layer_rules(ctx) && SSL_CTX_set_default_verify_paths(ctx) == 1 &&
		SSL_CTX_set_alpn_protos(ctx, http, sizeof http - 1) == 0) {
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
		/* The end of a body without a length must be told from a cut. */
		SSL_CTX_clear_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
		return ctx;
	}
	SSL_CTX_free(ctx);
	return NULL;
}

static struct stat look_at(const char *path)
{
	struct stat st = {0};
	if (stat(path, &st) < 0)
		st = (struct stat){0};
	return st;
}

static SSL_CTX *context(struct tls_trust *t)
{
	uint64_t now = loop_now(t->loop);
	if (now - t->looked < GATE_TRUST_LOOK)
		return t->ctx;
	t->looked = now;
	struct stat st = look_at(t->file);
	if (st.st_ino == t->seen.st_ino && st.st_size == t->seen.st_size && st.st_mtime == t->seen.st_mtime)
		return t->ctx;
	SSL_CTX *fresh = load();
	if (fresh) {
		SSL_CTX_free(t->ctx);
		t->ctx = fresh;
		t->seen = st;
		log_event(LOG_INFO, "the trust store was read again", "file=%s", LOG_Q(t->file));
	}
	return t->ctx;
}

int tls_trust_open(struct loop *l, struct tls_trust **ret, struct err *e)
{
	struct tls_trust *t = xcalloc(1, sizeof *t);
	const char *file = getenv(X509_get_default_cert_file_env());
	t->loop = l;
	t->file = file && *file ? file : X509_get_default_cert_file();
	t->seen = look_at(t->file);
	t->looked = loop_now(l);
	t->ctx = load();
	*ret = t;
	if (t->ctx)
		return 0;
	free(t);
	return err_set(e, ERRC_INTERNAL_ERROR, "cannot read the host's trust store");
}

/* ---- one handshake ---- */

void tls_dial_cancel(struct tls_dial *d)
{
	if (!d)
		return;
	loop_del(&d->io);
	loop_timer_stop(&d->timer);
	SSL_free(d->ssl);
	free(d);
}

static void done(struct tls_dial *d, SSL *ssl, const char *why, bool late)
{
	tls_dial_on_done on_done = d->on_done;
	void *arg = d->arg;
	if (ssl)
		d->ssl = NULL;
	tls_dial_cancel(d);
	on_done(arg, ssl, why, late);
}

static const char *reason(SSL *ssl)
{
	long verdict = SSL_get_verify_result(ssl);
	if (verdict != X509_V_OK)
		return X509_verify_cert_error_string(verdict);
	const char *text = ERR_reason_error_string(ERR_peek_last_error());
	return text ? text : "the server broke off the handshake";
}

static void step(struct tls_dial *d)
{
	ERR_clear_error();
	int r = SSL_connect(d->ssl);
	int why = r == 1 ? SSL_ERROR_NONE : SSL_get_error(d->ssl, r);
	if (r == 1)
		return done(d, d->ssl, NULL, false);
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
		return done(d, NULL, reason(d->ssl), false);
	loop_set_events(&d->io, why == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
	(void)events;
	step(container_of(io, struct tls_dial, io));
}

static void on_late(struct loop_timer *t)
{
	done(container_of(t, struct tls_dial, timer), NULL, "the server did not finish the TLS handshake in time",
		true);
}

/* The name that the certificate must have. An address is checked too, but not sent as SNI. */
static bool expect(SSL *ssl, const char *name)
{
	unsigned char address[16];
	if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct tls_dial *tls_dial_start(struct tls_trust *t, int fd, const char *name, tls_dial_on_done on_done, void *arg)
{
	struct tls_dial *d = xcalloc(1, sizeof *d);
	*d = (struct tls_dial){.trust = t, .ssl = SSL_new(context(t)), .on_done = on_done, .arg = arg};
	if (!d->ssl || !expect(d->ssl, name) || SSL_set_fd(d->ssl, fd) != 1 ||
		loop_add(t->loop, &d->io, fd, EPOLLOUT, on_ready) < 0) {
		tls_dial_cancel(d);
		return NULL;
	}
	SSL_set_connect_state(d->ssl);
	loop_timer_set(t->loop, &d->timer, GATE_TLS_TIMEOUT, on_late);
	return d;
}
