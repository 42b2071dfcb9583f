/* The authority: kept on disk, its leaves verify, and as a client's TLS sees them. */
#include "gate/tls/ca.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "test.h"

static SSL_CTX *trusting(const char *pem)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	BIO *in = BIO_new_mem_buf(pem, -1);
	X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);
	CHECK(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert) == 1);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	X509_free(cert);
	BIO_free(in);
	return ctx;
}

/* Whether a client that expects `wanted` accepts the server's side for `name`. */
static bool shakes_hands(struct ca *ca, SSL_CTX *ctx, const char *name, const char *wanted)
{
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
	SSL *server = ca_accept(ca, name, pair[0]), *client = SSL_new(ctx);
	CHECK(server && SSL_set_fd(client, pair[1]) == 1 && SSL_set1_host(client, wanted) == 1);
	int r = 0;
	for (int i = 0; i < 20 && r != 1; i++) {
		r = SSL_connect(client);
		SSL_do_handshake(server);
	}
	SSL_free(server);
	SSL_free(client);
	close(pair[0]);
	close(pair[1]);
	return r == 1;
}

TEST(leaves_have_their_names)
{
	struct ca *ca = NULL;
	struct err e;
	CHECK(ca_open(NULL, &ca, &e) == 0);
	SSL_CTX *ctx = trusting(ca_pem(ca));
	CHECK(shakes_hands(ca, ctx, "api.example.com", "api.example.com"));
	CHECK(shakes_hands(ca, ctx, "api.example.com", "api.example.com"));
	CHECK(!shakes_hands(ca, ctx, "api.example.com", "example.com"));
	CHECK(!shakes_hands(ca, ctx, "api.example.com", "x.api.example.com"));
	char name[NET_NAME_MAX + 1];
	memset(name, 'a', sizeof name);
	for (size_t i = 50; i < sizeof name; i += 50)
		name[i] = '.';
	name[NET_NAME_MAX] = 0;
	CHECK(shakes_hands(ca, ctx, name, name));
	SSL_CTX_free(ctx);
	ca_free(ca);
}

TEST(more_names_than_are_kept)
{
	struct ca *ca = NULL;
	struct err e;
	CHECK(ca_open(NULL, &ca, &e) == 0);
	SSL_CTX *ctx = trusting(ca_pem(ca));
	for (int i = 0; i < GATE_LEAVES_MAX + 10; i++) {
		char name[32];
		snprintf(name, sizeof name, "n%d.example.com", i);
		SSL *ssl = ca_accept(ca, name, 0);
		CHECK(ssl);
		SSL_free(ssl);
	}
	CHECK(shakes_hands(ca, ctx, "n0.example.com", "n0.example.com"));
	SSL_CTX_free(ctx);
	ca_free(ca);
}

TEST(the_key_is_kept)
{
	char dir[] = "/tmp/atoll-ca-XXXXXX", path[64];
	struct stat st = {0};
	struct ca *first = NULL, *second = NULL;
	struct err e;
	CHECK(mkdtemp(dir) && ca_open(dir, &first, &e) == 0 && ca_open(dir, &second, &e) == 0);
	snprintf(path, sizeof path, "%s/ca.pem", dir);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	CHECK_CSTR(ca_pem(first), ca_pem(second));
	CHECK(!strstr(ca_pem(first), "PRIVATE"));
	SSL_CTX *ctx = trusting(ca_pem(first));
	CHECK(shakes_hands(second, ctx, "a.example", "a.example"));
	SSL_CTX_free(ctx);
	ca_free(first);
	ca_free(second);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	close(fd);
	CHECK(ca_open(dir, &first, &e) < 0 && strstr(e.msg, "delete it"));
	unlink(path);
	rmdir(dir);
}

TEST_MAIN()
