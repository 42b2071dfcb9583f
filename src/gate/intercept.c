/*
 * TLS that the gate terminates: towards the box with a certificate of the host's own authority, towards the server as
 * any client, with the server's certificate verified. Only connections come here whose name a secret or a hook wants.
 */
#include "gate/web.h"
#include "tls/layer.h"

struct http_layer *intercept_accept(void *arg, int fd)
{
	struct gate *g = arg;
	char address[IP_TEXT];
	const struct web *w = map_get(&g->webs, str_n(&fd, sizeof fd));
	if (!w || !w->conn)
		return NULL;
	const struct passage *c = w->conn;
	SSL *ssl = ca_accept(g->ca, *c->name ? c->name : ip_format(&c->wanted, address), fd);
	return ssl ? tls_layer_new(ssl) : NULL;
}

static void on_shaken(void *arg, SSL *ssl, const char *why, bool late)
{
	struct web *w = arg;
	int fd = take_fd(&w->ready);
	w->shake = NULL;
	if (!ssl) {
		close(fd);
		return web_unreachable(w, why, late);
	}
	w->ready_ssl = ssl;
	web_reached(w, fd);
}

void intercept_dial(struct web *w, int fd)
{
	char address[IP_TEXT];
	intercept_forget(w);
	w->ready = fd;
	w->shake = tls_dial_start(
		w->gate->trust, fd, *w->leg ? w->leg : ip_format(&w->conn->wanted, address), on_shaken, w);
	if (!w->shake)
		web_unreachable(w, "no TLS", false);
}

void intercept_forget(struct web *w)
{
	tls_dial_cancel(w->shake);
	w->shake = NULL;
	SSL_free(w->ready_ssl);
	w->ready_ssl = NULL;
	fd_close(&w->ready);
}

struct http_layer *intercept_layer(struct http_dialer *d, int fd)
{
	struct web *w = container_of(d, struct web, dialer);
	SSL *ssl = w->ready_ssl;
	(void)fd;
	w->ready_ssl = NULL;
	return ssl ? tls_layer_new(ssl) : NULL;
}
