/*
 * The hellos are those of OpenSSL, whole and cut to pieces.
 */
#include "gate/tls/hello.h"

#include <openssl/ssl.h>

#include "base/buf.h"
#include "test.h"

static struct buf hello_of(const char *name, const char *alpn)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	struct buf b = {0};
	char piece[4096];
	if (name)
		SSL_set_tlsext_host_name(ssl, name);
	if (alpn)
		SSL_set_alpn_protos(ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
	SSL_set_bio(ssl, in, out);
	CHECK(SSL_connect(ssl) < 0);
	for (int n; (n = BIO_read(out, piece, sizeof piece)) > 0;)
		buf_add(&b, piece, (size_t)n);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	CHECK(buf_size(&b) > 100);
	return b;
}

TEST(the_name_and_alpn_are_found)
{
	auto_buf struct buf b = hello_of("PyPI.org", "\x02h2\x08http/1.1");
	struct hello h;
	CHECK_INT(hello_read(buf_str(&b), &h), HELLO_DONE);
	CHECK_CSTR(h.name, "pypi.org");
	CHECK(h.h2 && h.http1 && !h.ech);
	auto_buf struct buf bare = hello_of(NULL, NULL);
	CHECK_INT(hello_read(buf_str(&bare), &h), HELLO_DONE);
	CHECK_CSTR(h.name, "");
	CHECK(!h.h2 && !h.http1);
}

TEST(every_prefix_asks_for_more)
{
	auto_buf struct buf b = hello_of("pypi.org", NULL);
	struct hello h;
	for (size_t n = 0; n < buf_size(&b); n++)
		CHECK_INT(hello_read(str_n(b.p, n), &h), HELLO_MORE);
}

TEST(another_look_is_worth_it_at_the_end_of_the_record)
{
	auto_buf struct buf b = hello_of("pypi.org", NULL);
	size_t whole = buf_size(&b);
	CHECK_INT(hello_wants(str_n(b.p, 1)), 2);
	CHECK_INT(hello_wants(str_n(b.p, 4)), 5);
	CHECK_INT(hello_wants(str_n(b.p, 5)), whole);
	CHECK_INT(hello_wants(str_n(b.p, whole - 1)), whole);
	buf_add(&b, "\x16\x03\x01\x00\x10", 5); /* another record begins */
	CHECK_INT(hello_wants(str_n(b.p, whole)), whole + 1);
	CHECK_INT(hello_wants(str_n(b.p, whole + 5)), whole + 5 + 16);
}

/* The same hello in records of `size` bytes. */
static struct buf in_records(struct str whole, size_t size)
{
	struct buf b = {0};
	struct str body = str_skip(whole, 5);
	while (body.n) {
		size_t n = body.n < size ? body.n : size;
		unsigned char head[5] = {22, 3, 1, (unsigned char)(n >> 8), (unsigned char)n};
		buf_add(&b, head, 5);
		buf_add(&b, body.p, n);
		body = str_skip(body, n);
	}
	return b;
}

TEST(a_hello_cut_into_records_is_the_same)
{
	auto_buf struct buf b = hello_of("files.pythonhosted.org", NULL);
	for (size_t size = 1; size < 300; size = size * 2 + 1) {
		auto_buf struct buf cut = in_records(buf_str(&b), size);
		struct hello h;
		CHECK_INT(hello_read(buf_str(&cut), &h), HELLO_DONE);
		CHECK_CSTR(h.name, "files.pythonhosted.org");
		CHECK_INT(hello_read(str_n(cut.p, buf_size(&cut) - 1), &h), HELLO_MORE);
	}
}

TEST(other_protocols_are_told_apart_by_their_first_bytes)
{
	struct hello h;
	CHECK_INT(hello_read(STR(""), &h), HELLO_MORE);
	CHECK_INT(hello_read(STR("GET / HTTP/1.1\r\n"), &h), HELLO_NOT_TLS);
	CHECK_INT(hello_read(STR("SSH-2.0-x\r\n"), &h), HELLO_NOT_TLS);
	CHECK_INT(hello_read(STR("\x16"), &h), HELLO_MORE);
	CHECK_INT(hello_read(STR("\x16\x02"), &h), HELLO_NOT_TLS);
	CHECK_INT(hello_read(STR("\x16\x03\x01\x00\x00"), &h), HELLO_BAD);
	CHECK_INT(hello_read(STR("\x16\x03\x01\xff\xff"), &h), HELLO_BAD);
	CHECK_INT(hello_read(STR("\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00"), &h), HELLO_BAD);
}

/* Where the bytes of the extension's server name list begin. */
static size_t find(struct buf *b, const char *name)
{
	char *p = memmem(b->p, b->len, name, strlen(name));
	CHECK(p != NULL);
	return (size_t)(p - b->p);
}

TEST(lengths_that_disagree_are_refused)
{
	auto_buf struct buf b = hello_of("pypi.org", NULL);
	size_t at = find(&b, "pypi.org");
	struct hello h;
	/* Lengths of the name, of the list, of the extension: one more and one less. */
	static const int places[] = {-1, -4, -6};
	for (size_t i = 0; i < 3; i++)
		for (int d = -1; d <= 1; d += 2) {
			b.p[at + places[i]] = (char)(b.p[at + places[i]] + d);
			CHECK_INT(hello_read(buf_str(&b), &h), HELLO_BAD);
			b.p[at + places[i]] = (char)(b.p[at + places[i]] - d);
		}
	CHECK_INT(hello_read(buf_str(&b), &h), HELLO_DONE);
	b.p[at] = ' ';
	CHECK_INT(hello_read(buf_str(&b), &h), HELLO_BAD);
	b.p[at] = 'p';
	b.p[at + 4] = 0; /* "pypi\0org" */
	CHECK_INT(hello_read(buf_str(&b), &h), HELLO_BAD);
}

TEST(an_address_is_no_server_name)
{
	auto_buf struct buf b = hello_of("10.0.0.10", NULL);
	CHECK_INT(hello_read(buf_str(&b), &(struct hello){0}), HELLO_BAD);
}

TEST(encrypted_hellos_are_noticed)
{
	auto_buf struct buf b = hello_of("outer.example", NULL);
	struct hello h;
	/* extended_master_secret (0x0017), empty, becomes an ECH extension. */
	char *p = memmem(b.p, b.len, "\x00\x17\x00\x00", 4);
	CHECK(p != NULL);
	p[0] = (char)0xfe;
	p[1] = 0x0d;
	CHECK_INT(hello_read(buf_str(&b), &h), HELLO_DONE);
	CHECK(h.ech);
	CHECK_CSTR(h.name, "outer.example");
}

TEST(a_hello_may_be_long_but_not_endless)
{
	struct buf b = {0};
	struct hello h;
	unsigned char start[] = {22, 3, 1, 0x40, 0, 1, 0, 0x50, 0};
	buf_add(&b, start, sizeof start);
	CHECK_INT(hello_read(buf_str(&b), &h), HELLO_BAD);
	b.p[7] = 0x40;
	CHECK_INT(hello_read(buf_str(&b), &h), HELLO_MORE);
	buf_free(&b);
}

TEST_MAIN()
