#include "aws/sigv4.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HASH = 32, PARAMETERS_MAX = 256 };

void aws_date(int64_t wall_ms, char ret[AWS_DATE + 1])
{
	time_t t = (time_t)(wall_ms / 1000);
	struct tm tm;
	gmtime_r(&t, &tm);
	strftime(ret, AWS_DATE + 1, "%Y%m%dT%H%M%SZ", &tm);
}

static void put_hex(const unsigned char *raw, char ret[AWS_HASH_HEX + 1])
{
	for (size_t i = 0; i < HASH; i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
}

void aws_hash(struct str bytes, char ret[AWS_HASH_HEX + 1])
{
	unsigned char raw[HASH] = {0};
	EVP_Digest(bytes.p, bytes.n, raw, NULL, EVP_sha256(), NULL);
	put_hex(raw, ret);
}

/* ---- the canonical request ---- */

static int hex_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static void put_encoded(struct buf *b, unsigned char c, bool keep_slash)
{
	static const char digits[] = "0123456789ABCDEF";
	if (isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && keep_slash)) {
		buf_add_byte(b, (char)c);
		return;
	}
	buf_add_byte(b, '%');
	buf_add_byte(b, digits[c >> 4]);
	buf_add_byte(b, digits[c & 15]);
}

/* Percent-encoded text in the one canonical spelling. */
static void put_normal(struct buf *b, struct str s, bool path)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool escape = c == '%' && i + 2 < s.n && hex_value(s.p[i + 1]) >= 0 && hex_value(s.p[i + 2]) >= 0;
		if (escape) {
			c = (unsigned char)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2]));
			i += 2;
		} else if (c == '+' && !path) {
			c = ' ';
		}
		put_encoded(b, c, path && !escape);
	}
}

static void put_path(struct buf *b, struct str path, bool s3)
{
	auto_buf struct buf once = {.wipe = true};
	put_normal(&once, path, true);
	struct str s = buf_str(&once);
	if (!s.n)
		s = STR("/");
	for (size_t i = 0; i < s.n; i++)
		if (s3)
			buf_add_byte(b, s.p[i]);
		else
			put_encoded(b, (unsigned char)s.p[i], true);
}

static int compare(const void *a, const void *b)
{
	const struct str *x = a, *y = b;
	int r = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
	return r ? r : x->n < y->n ? -1 : x->n > y->n;
}

/* Sorted by name, then by value: '=' would sort behind some characters of names, so it is written as a low byte first.
 */
static bool put_query(struct buf *b, struct str query)
{
	auto_buf struct buf text = {.wipe = true};
	struct str v[PARAMETERS_MAX];
	size_t at[PARAMETERS_MAX + 1], n = 0;
	at[0] = 0;
	while (query.n) {
		struct str value, one = str_split(query, '&', &query), name = str_split(one, '=', &value);
		if (!one.n)
			continue;
		if (n == PARAMETERS_MAX)
			return false;
		put_normal(&text, name, false);
		buf_add_byte(&text, 1);
		put_normal(&text, value, false);
		at[++n] = buf_size(&text);
	}
	for (size_t i = 0; i < n; i++)
		v[i] = str_n(buf_str(&text).p + at[i], at[i + 1] - at[i]);
	qsort(v, n, sizeof *v, compare);
	for (size_t i = 0; i < n; i++) {
		struct str value, name = str_split(v[i], 1, &value);
		if (i)
			buf_add_byte(b, '&');
		buf_add_str(b, name);
		buf_add_byte(b, '=');
		buf_add_str(b, value);
	}
	return true;
}

static int compare_headers(const void *a, const void *b)
{
	const struct aws_header *x = a, *y = b;
	return compare(&x->name, &y->name);
}

/* Blanks in a row count as one. */
static void put_value(struct buf *b, struct str value)
{
	value = str_trim(value);
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] != ' ' || value.p[i - 1] != ' ')
			buf_add_byte(b, value.p[i]);
}

/* Headers of one name are joined by commas. */
static bool put_headers(struct buf *b, const struct aws_request *r, struct buf *names)
{
	struct aws_header v[AWS_HEADERS_MAX];
	if (r->headers_n > AWS_HEADERS_MAX)
		return false;
	memcpy(v, r->headers, r->headers_n * sizeof *v);
	qsort(v, r->headers_n, sizeof *v, compare_headers);
	for (size_t i = 0; i < r->headers_n; i++) {
		bool again = i && str_eq(v[i].name, v[i - 1].name),
		     more = i + 1 < r->headers_n && str_eq(v[i].name, v[i + 1].name);
		if (!again) {
			buf_add_str(b, v[i].name);
			buf_add_byte(b, ':');
			if (buf_size(names))
				buf_add_byte(names, ';');
			buf_add_str(names, v[i].name);
		}
		put_value(b, v[i].value);
		buf_add_byte(b, more ? ',' : '\n');
	}
	return true;
}

bool aws_canonical(const struct aws_request *r, bool s3, struct buf *ret, struct buf *ret_names)
{
	buf_add_str(ret, r->method);
	buf_add_byte(ret, '\n');
	put_path(ret, r->path, s3);
	buf_add_byte(ret, '\n');
	if (!put_query(ret, r->query))
		return false;
	buf_add_byte(ret, '\n');
	if (!put_headers(ret, r, ret_names))
		return false;
	buf_add_byte(ret, '\n');
	buf_add_str(ret, buf_str(ret_names));
	buf_add_byte(ret, '\n');
	buf_add_str(ret, r->payload);
	return !ret->failed && !ret_names->failed;
}

/* ---- the signature ---- */

static bool mac(const unsigned char *key, size_t key_n, struct str text, unsigned char ret[HASH])
{
	unsigned n = HASH;
	return HMAC(EVP_sha256(), key, (int)key_n, (const unsigned char *)text.p, text.n, ret, &n) && n == HASH;
}

static bool derive(const struct aws_key *key, struct str day, unsigned char ret[HASH])
{
	auto_buf struct buf first = {.wipe = true};
	unsigned char a[HASH], b[HASH];
	buf_add_c(&first, "AWS4");
	buf_add_str(&first, key->secret);
	struct str f = buf_str(&first);
	bool ok = mac((const unsigned char *)f.p, f.n, day, a) && mac(a, HASH, key->region, b) &&
		  mac(b, HASH, key->service, a) && mac(a, HASH, STR("aws4_request"), ret);
	OPENSSL_cleanse(a, sizeof a);
	OPENSSL_cleanse(b, sizeof b);
	return ok;
}

bool aws_sign(const struct aws_key *key, const struct aws_request *r, struct buf *ret)
{
	/* A session token is one of the headers, and a secret may stand in the query. */
	auto_buf struct buf canonical = {.wipe = true}, names = {0}, scope = {0}, text = {0};
	struct str day = str_n(r->date, 8);
	unsigned char k[HASH], raw[HASH];
	char hash[AWS_HASH_HEX + 1];
	if (!aws_canonical(r, str_eq_c(key->service, "s3"), &canonical, &names))
		return false;
	aws_hash(buf_str(&canonical), hash);
	buf_printf(&scope, "%.*s/%.*s/%.*s/aws4_request", STR_ARG(day), STR_ARG(key->region), STR_ARG(key->service));
	buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%.*s\n%s", r->date, STR_ARG(buf_str(&scope)), hash);
	bool ok = derive(key, day, k) && mac(k, HASH, buf_str(&text), raw);
	OPENSSL_cleanse(k, sizeof k);
	if (!ok)
		return false;
	put_hex(raw, hash);
	return buf_printf(ret, "AWS4-HMAC-SHA256 Credential=%.*s/%.*s, SignedHeaders=%.*s, Signature=%s",
		STR_ARG(key->id), STR_ARG(buf_str(&scope)), STR_ARG(buf_str(&names)), hash);
}
