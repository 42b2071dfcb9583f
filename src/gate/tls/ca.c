#include "gate/tls/ca.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/map.h"
#include "tls/layer.h"

enum { DAY = 86400, CA_DAYS = 3650, LEAF_DAYS = 30, PEM_MAX = 16 * 1024 };

struct leaf {
	struct list node; /* of ca->order */
	X509 *cert;
	uint64_t made; /* clock_ms */
	char name[NET_NAME_MAX + 1];
};

struct ca {
	EVP_PKEY *key, *leaf_key;
	X509 *cert;
	char *pem;
	SSL_CTX *ctx;
	struct map leaves; /* name → struct leaf */
	struct list order; /* least recently used first */
};

/* ---- certificates ---- */

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	X509_EXTENSION *x = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	bool ok = x && X509_add_ext(cert, x, -1) == 1;
	X509_EXTENSION_free(x);
	return ok;
}

static bool set_serial(X509 *cert)
{
	unsigned char raw[16];
	if (RAND_bytes(raw, sizeof raw) != 1)
		return false;
	raw[0] &= 0x7f;
	BIGNUM *n = BN_bin2bn(raw, sizeof raw, NULL);
	bool ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));
	BN_free(n);
	return ok;
}

/* A certificate with everything but extensions and a signature. */
static X509 *blank(EVP_PKEY *key, const char *common_name, int days)
{
	X509 *cert = X509_new();
	X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
	bool ok = cert && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
		  X509_gmtime_adj(X509_getm_notBefore(cert), -DAY) &&
		  X509_gmtime_adj(X509_getm_notAfter(cert), (long)days * DAY) && X509_set_pubkey(cert, key) == 1 &&
		  X509_NAME_add_entry_by_txt(
			  name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1, 0) == 1;
	if (ok)
		return cert;
	X509_free(cert);
	return NULL;
}

static X509 *make_authority(EVP_PKEY *key)
{
	char name[48];
	unsigned char tag[4];
	if (RAND_bytes(tag, sizeof tag) != 1)
		return NULL;
	snprintf(name, sizeof name, "Atoll sandboxes %02x%02x%02x%02x", tag[0], tag[1], tag[2], tag[3]);
	X509 *cert = blank(key, name, CA_DAYS);
	if (cert && X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
		add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
		add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
		add_extension(cert, cert, NID_subject_key_identifier, "hash") && X509_sign(cert, key, EVP_sha256()))
		return cert;
	X509_free(cert);
	return NULL;
}

/* Names longer than 64 characters do not fit into a common name; only the alternative name counts anyway. */
static X509 *make_leaf(struct ca *ca, const char *name)
{
	char alt[NET_NAME_MAX + 8];
	unsigned char address[16];
	bool is_ip = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
	snprintf(alt, sizeof alt, "%s:%s", is_ip ? "IP" : "DNS", name);
	X509 *cert = blank(ca->leaf_key, strlen(name) <= 64 ? name : "sandbox", LEAF_DAYS);
	if (cert && X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)) == 1 &&
		add_extension(cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
		add_extension(cert, ca->cert, NID_key_usage, "critical,digitalSignature") &&
		add_extension(cert, ca->cert, NID_ext_key_usage, "serverAuth") &&
		add_extension(cert, ca->cert, NID_subject_alt_name, alt) &&
		add_extension(cert, ca->cert, NID_authority_key_identifier, "keyid:always") &&
		X509_sign(cert, ca->key, EVP_sha256()))
		return cert;
	X509_free(cert);
	return NULL;
}

/* ---- leaves ---- */

static void drop_leaf(struct ca *ca, struct leaf *l)
{
	map_del(&ca->leaves, str_of(l->name));
	list_del(&l->node);
	X509_free(l->cert);
	free(l);
}

static X509 *leaf_of(struct ca *ca, const char *name)
{
	struct leaf *l = map_get(&ca->leaves, str_of(name));
	if (l && clock_ms() - l->made < GATE_LEAF_KEEP) {
		list_del(&l->node);
		list_push(&ca->order, &l->node);
		return l->cert;
	}
	if (l)
		drop_leaf(ca, l);
	X509 *cert = make_leaf(ca, name);
	if (!cert)
		return NULL;
	if (ca->leaves.count >= GATE_LEAVES_MAX)
		drop_leaf(ca, list_entry(ca->order.next, struct leaf, node));
	l = xcalloc(1, sizeof *l);
	l->cert = cert;
	l->made = clock_ms();
	snprintf(l->name, sizeof l->name, "%s", name);
	list_push(&ca->order, &l->node);
	map_put(&ca->leaves, str_of(l->name), l);
	return cert;
}

SSL *ca_accept(struct ca *ca, const char *name, int fd)
{
	X509 *cert = leaf_of(ca, name);
	SSL *ssl = cert ? SSL_new(ca->ctx) : NULL;
	if (!ssl || SSL_use_certificate(ssl, cert) != 1 || SSL_use_PrivateKey(ssl, ca->leaf_key) != 1 ||
		SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_accept_state(ssl);
	return ssl;
}

/* ---- the key on disk ---- */

static int fail(struct err *e, const char *what)
{
	return err_set(e, ERRC_INTERNAL_ERROR, "cannot %s the authority of HTTPS interceptions", what);
}

/* Key and certificate in one file, so that one never lies there without the other. */
static bool parse(struct ca *ca, struct str text)
{
	BIO *in = BIO_new_mem_buf(text.p, (int)text.n);
	ca->key = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, (void *)"") : NULL;
	ca->cert = ca->key ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
	BIO_free(in);
	return ca->cert && X509_check_private_key(ca->cert, ca->key) == 1;
}

static int save(const struct ca *ca, const char *path, struct err *e)
{
	BIO *out = BIO_new(BIO_s_mem());
	char *p = NULL;
	int r = -ENOMEM;
	if (out && PEM_write_bio_PrivateKey(out, ca->key, NULL, NULL, 0, NULL, NULL) == 1 &&
		PEM_write_bio_X509(out, ca->cert) == 1) {
		long n = BIO_get_mem_data(out, &p);
		r = fd_replace_file(AT_FDCWD, path, str_n(p, (size_t)n), 0600);
		OPENSSL_cleanse(p, (size_t)n);
	}
	BIO_free(out);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "write the authority's key to %s", path) : 0;
}

static int make(struct ca *ca, const char *path, struct err *e)
{
	ca->key = EVP_EC_gen("P-256");
	ca->cert = ca->key ? make_authority(ca->key) : NULL;
	if (!ca->cert)
		return fail(e, "make");
	return path ? save(ca, path, e) : 0;
}

static int load_or_make(struct ca *ca, const char *dir, struct err *e)
{
	auto_buf struct buf text = {.max = PEM_MAX};
	char path[4096];
	if (!dir)
		return make(ca, NULL, e);
	if (snprintf(path, sizeof path, "%s/ca.pem", dir) >= (int)sizeof path)
		return fail(e, "name the file of");
	int r = fd_read_file(AT_FDCWD, path, PEM_MAX, &text);
	if (r == -ENOENT)
		return make(ca, path, e);
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "read the authority's key from %s", path);
	bool ok = parse(ca, buf_str(&text));
	OPENSSL_cleanse(text.p, text.cap);
	return ok ? 0
		  : err_set(e, ERRC_INTERNAL_ERROR, "%s has no key and certificate: delete it to get new ones", path);
}

static int choose_protocol(
	SSL *ssl, const unsigned char **out, unsigned char *out_n, const unsigned char *in, unsigned in_n, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	(void)ssl, (void)arg;
	int r = SSL_select_next_proto((unsigned char **)out, out_n, ours, sizeof ours - 1, in, in_n);
	return r == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

static int prepare(struct ca *ca, struct err *e)
{
	BIO *out = BIO_new(BIO_s_mem());
	char *p = NULL;
	if (out && PEM_write_bio_X509(out, ca->cert) == 1) {
		long n = BIO_get_mem_data(out, &p);
		ca->pem = str_dup(str_n(p, (size_t)n));
	}
	BIO_free(out);
	ca->leaf_key = EVP_EC_gen("P-256");
	ca->ctx = SSL_CTX_new(TLS_server_method());
	if (!ca->pem || !ca->leaf_key || !ca->ctx || !tls_layer_rules(ca->ctx))
		return fail(e, "prepare");
	SSL_CTX_set_alpn_select_cb(ca->ctx, choose_protocol, NULL);
	/* Tickets would only cost: each connection is short of a millisecond. */
	SSL_CTX_set_num_tickets(ca->ctx, 0);
	return 0;
}

int ca_open(const char *dir, struct ca **ret, struct err *e)
{
	struct ca *ca = xcalloc(1, sizeof *ca);
	list_init(&ca->order);
	if (load_or_make(ca, dir, e) < 0 || prepare(ca, e) < 0) {
		ca_free(ca);
		return -1;
	}
	*ret = ca;
	return 0;
}

void ca_free(struct ca *ca)
{
	if (!ca)
		return;
	while (!list_empty(&ca->order))
		drop_leaf(ca, list_entry(ca->order.next, struct leaf, node));
	map_free(&ca->leaves);
	SSL_CTX_free(ca->ctx);
	EVP_PKEY_free(ca->leaf_key);
	EVP_PKEY_free(ca->key);
	X509_free(ca->cert);
	free(ca->pem);
	free(ca);
}

const char *ca_pem(const struct ca *ca)
{
	return ca->pem;
}
