#include "s3/s3_call.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "aws/sigv4.h"
#include "base/base64.h"
#include "base/clock.h"

/* One try. */
struct s3_attempt {
	struct s3_call *c;
	struct curl_slist *headers;
	size_t sent;
	uint64_t offset; /* bytes of a get that are there already */
	uint64_t skip;	 /* … of them that this answer repeats */
	bool begun, kms, refused;
	CURL *curl;
	struct err err; /* of on_bytes */
	char md5[33];
};

static void md5_of(struct str bytes, unsigned char ret[16])
{
	unsigned n = 0;
	INVARIANT(EVP_Digest(bytes.p, bytes.n, ret, &n, EVP_md5(), NULL) == 1 && n == 16);
}

/* ---- curl's callbacks ---- */

static size_t on_send(char *p, size_t size, size_t n, void *arg)
{
	struct s3_attempt *t = arg;
	size_t room = size * n, left = t->c->body.n - t->sent, part = left < room ? left : room;
	memcpy(p, t->c->body.p + t->sent, part);
	t->sent += part;
	return part;
}

static int on_rewind(void *arg, curl_off_t offset, int origin)
{
	struct s3_attempt *t = arg;
	if (origin != SEEK_SET || offset < 0 || (size_t)offset > t->c->body.n)
		return CURL_SEEKFUNC_FAIL;
	t->sent = (size_t)offset;
	return CURL_SEEKFUNC_OK;
}

static void keep_tag(struct s3_call *c, struct str value)
{
	value = str_trim(value);
	while (value.n && (value.p[value.n - 1] == '\r' || value.p[value.n - 1] == '\n' || value.p[value.n - 1] == '"'))
		value.n--;
	if (value.n && *value.p == '"')
		value = str_skip(value, 1);
	snprintf(c->tag, sizeof c->tag, "%.*s", (int)(value.n < S3_SETTING_MAX ? value.n : S3_SETTING_MAX), value.p);
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct s3_attempt *t = arg;
	struct str value, name = str_split(str_n(p, size * n), ':', &value);
	if (str_eq_nocase(name, STR("etag")))
		keep_tag(t->c, value);
	else if (str_eq_nocase(name, STR("x-amz-server-side-encryption")))
		t->kms = str_starts(str_trim(value), STR("aws:kms"));
	return size * n;
}

static bool is_good(long status)
{
	return status >= 200 && status < 300;
}

static size_t on_answer(char *p, size_t size, size_t n, void *arg)
{
	struct s3_attempt *t = arg;
	struct s3_call *c = t->c;
	size_t all = size * n;
	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &c->status);
	if (!c->on_bytes || !is_good(c->status))
		return buf_add(&c->answer, p, all) ? all : 0;
	if (c->status == 200 && !t->begun)
		t->skip = t->offset; /* the whole object once more */
	t->begun = true;
	size_t part = t->skip < all ? (size_t)t->skip : all;
	t->skip -= part;
	if (all > part && c->on_bytes(c->arg, p + part, all - part, &t->err) < 0) {
		t->refused = true;
		return 0;
	}
	t->offset += all - part;
	return all;
}

/* ---- one request ---- */

static void header(struct s3_attempt *t, const char *name, const char *value)
{
	auto_buf struct buf line = {0};
	buf_printf(&line, "%s: %s", name, value);
	t->headers = curl_slist_append(t->headers, buf_cstr(&line));
	INVARIANT(t->headers);
}

static bool sign(struct s3 *s, struct s3_attempt *t, const char *path)
{
	struct s3_call *c = t->c;
	char hash[AWS_HASH_HEX + 1];
	auto_buf struct buf value = {0};
	struct aws_key key = {str_of(s->key_id), str_of(s->secret), str_of(s->region), STR("s3")};
	struct aws_request rq = {.method = str_of(c->method), .path = str_of(path), .query = str_of(c->query)};
	aws_hash(c->body, hash);
	aws_date(clock_wall_ms(), rq.date);
	const struct aws_header headers[] = {{STR("host"), str_of(s->host)},
		{STR("x-amz-content-sha256"), str_of(hash)}, {STR("x-amz-date"), str_of(rq.date)}};
	rq.headers = headers;
	rq.headers_n = ARRAY_LEN(headers);
	rq.payload = str_of(hash);
	if (!aws_sign(&key, &rq, &value))
		return false;
	header(t, "x-amz-content-sha256", hash);
	header(t, "x-amz-date", rq.date);
	header(t, "Authorization", buf_cstr(&value));
	return true;
}

/* A get that goes on asks for the rest of the same object. */
static void add_headers(struct s3_attempt *t)
{
	struct s3_call *c = t->c;
	unsigned char sum[16];
	char value[S3_SETTING_MAX + 64];
	header(t, "Expect", "");
	if (c->check_tag) {
		md5_of(c->body, sum);
		for (int i = 0; i < 16; i++)
			snprintf(t->md5 + 2 * i, 3, "%02x", sum[i]);
		memset(value, 0, sizeof value);
		base64_encode(sum, sizeof sum, value);
		header(t, "Content-MD5", value);
	}
	if (t->offset) {
		snprintf(value, sizeof value, "bytes=%llu-", (unsigned long long)t->offset);
		header(t, "Range", value);
		snprintf(value, sizeof value, "\"%s\"", c->tag);
		header(t, "If-Match", value);
	}
}

static void set_up(struct s3 *s, struct s3_attempt *t, const char *url)
{
	struct s3_call *c = t->c;
	CURL *h = s->curl;
	curl_easy_reset(h);
	curl_easy_setopt(h, CURLOPT_URL, url);
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_PROXY, "");
	curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, S3_CONNECT_MS);
	curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, S3_STALL_S);
	curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(h, CURLOPT_HTTPHEADER, t->headers);
	curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(h, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, c->method);
	if (!c->body.n && strcmp(c->method, "PUT") != 0 && strcmp(c->method, "POST") != 0)
		return;
	curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->body.n);
	curl_easy_setopt(h, CURLOPT_READFUNCTION, on_send);
	curl_easy_setopt(h, CURLOPT_READDATA, t);
	curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, on_rewind);
	curl_easy_setopt(h, CURLOPT_SEEKDATA, t);
}

static CURLcode send_once(struct s3 *s, struct s3_attempt *t)
{
	struct s3_call *c = t->c;
	char path[4 * S3_SETTING_MAX + S3_NAME_MAX], url[6 * S3_SETTING_MAX + S3_NAME_MAX];
	snprintf(path, sizeof path, "%s/%s%s%s%s", s->path, s->bucket, c->name ? "/" : "", c->name ? s->prefix : "",
		c->name ? c->name : "");
	snprintf(url, sizeof url, "%s%s%s%s", s->endpoint, path, *c->query ? "?" : "", c->query);
	buf_clear(&c->answer);
	c->status = 0;
	t->headers = NULL;
	t->sent = 0;
	t->skip = 0;
	t->begun = t->kms = false;
	add_headers(t);
	if (!sign(s, t, path))
		return CURLE_OUT_OF_MEMORY;
	set_up(s, t, url);
	CURLcode r = curl_easy_perform(s->curl);
	curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &c->status);
	curl_slist_free_all(t->headers);
	return r;
}

/* ---- again ---- */

static bool may_pass(CURLcode r, long status)
{
	if (r != CURLE_OK)
		return r != CURLE_URL_MALFORMAT && r != CURLE_PEER_FAILED_VERIFICATION &&
		       r != CURLE_UNSUPPORTED_PROTOCOL;
	return status == 408 || status == 429 || (status >= 500 && status != 501);
}

static void pause_before(unsigned attempt)
{
	uint64_t most = S3_PAUSE, r = 0;
	for (unsigned i = 1; i < attempt && most < S3_PAUSE_MAX; i++)
		most *= 2;
	most = most < S3_PAUSE_MAX ? most : S3_PAUSE_MAX;
	INVARIANT(getrandom(&r, sizeof r, 0) == sizeof r);
	r = r % most + 1;
	struct timespec t = {.tv_sec = (time_t)(r / 1000), .tv_nsec = (long)(r % 1000) * 1000000};
	nanosleep(&t, NULL);
}

/* The text of an element, "" without. */
static struct str element(struct str xml, const char *open, const char *close)
{
	const char *a = xml.n ? memmem(xml.p, xml.n, open, strlen(open)) : NULL;
	if (!a)
		return STR("");
	a += strlen(open);
	const char *b = memmem(a, (size_t)(xml.p + xml.n - a), close, strlen(close));
	return b ? str_n(a, (size_t)(b - a)) : STR("");
}

static int answer_error(const struct s3 *s, const struct s3_call *c, struct err *e)
{
	struct str code = element(buf_str(&c->answer), "<Code>", "</Code>");
	struct str message = element(buf_str(&c->answer), "<Message>", "</Message>");
	return err_set(e, c->status == 404 ? ERRC_NOT_FOUND : ERRC_BAD_GATEWAY,
		"%s answered %ld to %s %.80s: %.*s %.*s", s->host, c->status, c->method, c->name ? c->name : s->bucket,
		(int)(code.n < 40 ? code.n : 40), code.p, (int)(message.n < 80 ? message.n : 80), message.p);
}

static int outcome(const struct s3 *s, struct s3_attempt *t, CURLcode r, struct err *e)
{
	struct s3_call *c = t->c;
	if (t->refused) {
		*e = t->err;
		return -1;
	}
	if (r != CURLE_OK)
		return err_set(e, ERRC_BAD_GATEWAY, "%s %s at %s: %s", c->method, c->name ? c->name : s->bucket,
			s->host, curl_easy_strerror(r));
	if (!is_good(c->status))
		return answer_error(s, c, e);
	if (c->check_tag && !t->kms && strcmp(c->tag, t->md5) != 0)
		return err_set(e, ERRC_BAD_GATEWAY, "%s has kept something else than was sent to %s", s->host,
			c->name ? c->name : s->bucket);
	return 0;
}

int s3_call_run(struct s3 *s, struct s3_call *c, struct err *e)
{
	struct s3_attempt t = {.c = c, .curl = s->curl};
	c->answer.max = S3_ANSWER_MAX;
	for (unsigned n = 1;; n++) {
		uint64_t before = t.offset;
		CURLcode r = send_once(s, &t);
		if (outcome(s, &t, r, e) == 0)
			return 0;
		bool other = r == CURLE_OK && is_good(c->status); /* a wrong ETag */
		if (t.refused || (!other && !may_pass(r, c->status)) || n >= S3_TRIES)
			return -1;
		if (t.offset > before)
			n = 1;
		pause_before(n);
	}
}

void s3_call_free(struct s3_call *c)
{
	buf_free(&c->answer);
}
