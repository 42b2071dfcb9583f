#include "cli/tls/carry.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"

enum { CHUNK = 16 * 1024, REQUEST_MAX = 64 * 1024, SETUP_SECONDS = 10 };

/* ---- set-up ---- */

/* Time limits for connect and the handshake, which block. */
static void limit_waits(int fd, int seconds)
{
	struct timeval t = {.tv_sec = seconds};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

static int connect_to(const struct carry_to *to, struct err *e)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
	int r = getaddrinfo(to->host, to->port, &hints, &found), fd = -1;
	if (r != 0)
		return err_set(
			e, ERRC_CONTAINER_UNAVAILABLE, "cannot resolve host '%s': %s", to->host, gai_strerror(r));
	for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		limit_waits(fd, SETUP_SECONDS);
		if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
			r = errno == EINPROGRESS ? ETIMEDOUT : errno;
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	if (fd < 0)
		return err_os(e, ERRC_CONTAINER_UNAVAILABLE, r, "no daemon at %s:%s", to->host, to->port);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

static int tls_err(SSL *ssl, const struct carry_to *to, struct err *e)
{
	long verdict = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
	if (verdict != X509_V_OK)
		return err_set(e, ERRC_PERMISSION_DENIED, "the certificate of %s:%s is not trusted: %s", to->host,
			to->port, X509_verify_cert_error_string(verdict));
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	return err_set(e, ERRC_BAD_GATEWAY, "no TLS with %s:%s: %s", to->host, to->port,
		reason ? reason : "the daemon does not answer or closes the connection");
}

static SSL_CTX *make_context(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	if (!ctx || SSL_CTX_set_default_verify_paths(ctx) != 1 ||
		SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
		return NULL;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

/* Sets the name that the certificate must have. An address is checked too, but not sent as SNI. */
static bool expect_host(SSL *ssl, const char *host)
{
	unsigned char address[16];
	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static SSL *shake_hands(int fd, const struct carry_to *to, struct err *e)
{
	static const unsigned char http[] = "\x08http/1.1";
	SSL_CTX *ctx = make_context();
	SSL *ssl = ctx ? SSL_new(ctx) : NULL;
	if (!ssl || !expect_host(ssl, to->host) || SSL_set_alpn_protos(ssl, http, sizeof http - 1) != 0 ||
		SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1) {
		tls_err(ssl, to, e);
		return NULL;
	}
	return ssl;
}

/* ---- error answers to the command line ---- */

static const char *advice(enum errc code)
{
	return code == ERRC_PERMISSION_DENIED ? "Set SSL_CERT_FILE to the PEM file of its authority, and use the host "
						"name in the certificate."
					      : "Check ATOLL_URL, and check that the daemon there has ATOLL_TLS_CERT.";
}

/* Reads the head of the request first: an answer before the request would be ignored. */
static void refuse(int local, const struct err *e)
{
	auto_buf struct buf body = {0}, out = {0}, asked = {.max = REQUEST_MAX};
	char chunk[CHUNK];
	struct json_writer w = json_writer(&body);
	json_object_begin(&w);
	json_member_cstr(&w, "code", errc_info(e->code)->code);
	json_member_cstr(&w, "message", e->msg);
	json_member_cstr(&w, "suggestion", advice(e->code));
	json_object_end(&w);
	buf_printf(&out,
		"HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n%s",
		buf_size(&body), buf_cstr(&body));
	limit_waits(local, SETUP_SECONDS);
	do {
		ssize_t n = recv(local, chunk, sizeof chunk, 0);
		if (n <= 0 || !buf_add(&asked, chunk, (size_t)n))
			return;
	} while (!memmem(asked.p + asked.off, buf_size(&asked), "\r\n\r\n", 4));
	if (fd_write_full(local, out.p + out.off, buf_size(&out)) < 0)
		return;
	shutdown(local, SHUT_WR);
	while (recv(local, chunk, sizeof chunk, 0) > 0)
		;
}

/* ---- bytes ---- */

struct way {
	char bytes[CHUNK];
	size_t at, n;
	bool ended; /* its source has ended */
};

struct pair {
	int local, fd;
	SSL *ssl;
	struct way up, down; /* to the daemon, to the command line */
	bool wants_write;    /* TLS must write before it can go on, also in a read */
	bool over;
};

static void took(struct way *w, size_t n)
{
	w->at += n;
	if (w->at == w->n)
		w->at = w->n = 0;
}

/* -1: nothing now; else the result of read or write. The end and every error end the pair's TLS. */
static int sort_out(struct pair *p, int r)
{
	if (r > 0)
		return r;
	int why = SSL_get_error(p->ssl, r);
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
		return 0;
	p->wants_write |= why == SSL_ERROR_WANT_WRITE;
	return -1;
}

static bool from_local(struct pair *p)
{
	if (p->up.n || p->up.ended)
		return false;
	ssize_t n = recv(p->local, p->up.bytes, sizeof p->up.bytes, 0);
	if (n < 0)
		p->over = errno != EAGAIN;
	else if (n > 0)
		p->up.n = (size_t)n;
	else
		p->up.ended = true;
	/* This side sends no more, but may still receive. */
	if (p->up.ended)
		SSL_shutdown(p->ssl);
	return n >= 0;
}

static bool to_daemon(struct pair *p)
{
	if (!p->up.n)
		return false;
	ERR_clear_error();
	int r = sort_out(p, SSL_write(p->ssl, p->up.bytes + p->up.at, (int)(p->up.n - p->up.at)));
	if (r > 0)
		took(&p->up, (size_t)r);
	p->over |= r == 0;
	return r > 0;
}

static bool from_daemon(struct pair *p)
{
	if (p->down.n || p->down.ended)
		return false;
	ERR_clear_error();
	int r = sort_out(p, SSL_read(p->ssl, p->down.bytes, sizeof p->down.bytes));
	if (r > 0)
		p->down.n = (size_t)r;
	p->down.ended = r == 0;
	return r >= 0;
}

static bool to_local(struct pair *p)
{
	if (!p->down.n) {
		p->over |= p->down.ended;
		return false;
	}
	ssize_t n = send(p->local, p->down.bytes + p->down.at, p->down.n - p->down.at, MSG_NOSIGNAL);
	if (n > 0)
		took(&p->down, (size_t)n);
	p->over |= n < 0 && errno != EAGAIN;
	return n > 0;
}

static void wait_for_more(const struct pair *p)
{
	struct pollfd fds[] = {{.fd = p->local}, {.fd = p->fd}};
	fds[0].events = (short)((p->up.n || p->up.ended ? 0 : POLLIN) | (p->down.n ? POLLOUT : 0));
	fds[1].events = (short)((p->down.n ? 0 : POLLIN) | (p->wants_write ? POLLOUT : 0));
	/* A descriptor that has no event to wait for is left out: its hang-up would wake poll again and again. */
	fds[0].fd = fds[0].events ? p->local : -1;
	fds[1].fd = fds[1].events ? p->fd : -1;
	poll(fds, 2, -1);
}

static void exchange(struct pair *p)
{
	while (!p->over) {
		p->wants_write = false;
		bool moved = from_local(p);
		moved |= to_daemon(p);
		moved |= from_daemon(p);
		moved |= to_local(p);
		if (!moved && !p->over)
			wait_for_more(p);
	}
}

void carry(int local, const struct carry_to *to)
{
	struct err e;
	static struct pair p;
	p.local = local;
	p.fd = connect_to(to, &e);
	p.ssl = p.fd < 0 ? NULL : shake_hands(p.fd, to, &e);
	if (!p.ssl) {
		refuse(local, &e);
		return;
	}
	fcntl(p.fd, F_SETFL, O_NONBLOCK);
	fcntl(local, F_SETFL, O_NONBLOCK);
	exchange(&p);
	SSL_shutdown(p.ssl);
}
