/*
 * The head of a request with the values of secrets in the place of placeholders, headers that secrets set, and the
 * signature of AWS. Nothing is buffered for it, with one exception: a service that has to know the hash of the body
 * before the head (every one but S3) gets bodies of at most GATE_AWS_BODY_MAX.
 */
#include <stdio.h>

#include "aws/sigv4.h"
#include "base/clock.h"
#include "gate/web.h"

static struct str header(const struct http_request *rq, const char *name)
{
	return http_header_value(&rq->headers, str_of(name));
}

/* ---- which key signs ---- */

static bool is_presigned(const struct http_request *rq)
{
	return rq->query.p && memmem(rq->query.p, rq->query.n, "X-Amz-Signature=", 16);
}

static bool may_sign(const struct web *w, const struct secret *s)
{
	return s && s->is_aws && secret_goes_to(s, w->leg, w->conn->port);
}

/* The key whose placeholder signed the request, or the host's first one when it is unsigned. Another signature is the
 * box's own affair. */
static struct secret *signer(struct web *w, const struct http_request *rq)
{
	const struct secrets *s = web_secrets(w);
	struct str given = header(rq, "Authorization");
	if (given.p || is_presigned(rq)) {
		struct secret *named = given.p ? secrets_find(s, given) : secrets_in_target(s, rq->query);
		return may_sign(w, named) ? named : NULL;
	}
	for (size_t i = 0; s && i < s->n; i++)
		if (may_sign(w, &s->v[i]))
			return &s->v[i];
	return NULL;
}

/* "AWS4-HMAC-SHA256 Credential=key/20260131/region/service/aws4_request, …": what the client thinks it talks to. */
static void client_scope(const struct http_request *rq, struct str *region, struct str *service)
{
	struct str given = header(rq, "Authorization"), rest;
	const char *at = given.p ? memmem(given.p, given.n, "Credential=", 11) : NULL;
	if (!at)
		return;
	struct str scope = str_split(str_skip(given, (size_t)(at - given.p)), ',', &rest);
	str_split(scope, '/', &scope);
	str_split(scope, '/', &scope);
	struct str r = str_split(scope, '/', &scope), v = str_split(scope, '/', &scope);
	if (!region->n)
		*region = r;
	if (!service->n)
		*service = v;
}

static struct aws_key key_of(const struct secret *s, const struct http_request *rq)
{
	struct aws_key k = {.id = str_of(s->aws.id),
		.secret = str_n(s->value, s->value_n),
		.region = str_of(s->aws.region),
		.service = str_of(s->aws.service)};
	client_scope(rq, &k.region, &k.service);
	if (!k.region.n)
		k.region = STR("us-east-1");
	if (!k.service.n)
		k.service = STR("s3");
	return k;
}

/* ---- what it needs ---- */

static bool is_wrapped(const struct http_request *rq)
{
	return str_starts(header(rq, "x-amz-content-sha256"), STR("STREAMING-AWS4-"));
}

enum rewrite_need rewrite_need(struct web *w, const struct http_request *rq)
{
	uint64_t n;
	const struct secret *s = w->tls ? signer(w, rq) : NULL;
	if (!s)
		return w->tls && web_secrets(w) ? REWRITE_HEAD : REWRITE_NONE;
	if (is_wrapped(rq))
		return str_to_u64(header(rq, "x-amz-decoded-content-length"), INT64_MAX, &n) ? REWRITE_HEAD
											     : REWRITE_NO_LENGTH;
	struct aws_key k = key_of(s, rq);
	if (rq->content_length == 0 || str_eq_c(k.service, "s3") || header(rq, "x-amz-content-sha256").p)
		return REWRITE_HEAD;
	return rq->content_length < 0 || rq->content_length > GATE_AWS_BODY_MAX ? REWRITE_TOO_LONG : REWRITE_COLLECT;
}

/* ---- headers ---- */

static bool is_one_of(struct str name, const char *const *list)
{
	for (; *list; list++)
		if (str_eq_nocase(name, str_of(*list)))
			return true;
	return false;
}

/* What the signature replaces, and what goes with the framing of a body that is unwrapped. */
static bool is_dropped(const struct rewrite *r, struct str name)
{
	static const char *const signing[] = {
		"Authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", NULL};
	static const char *const framing[] = {
		"x-amz-decoded-content-length", "x-amz-trailer", "x-amz-sdk-checksum-algorithm", NULL};
	for (size_t i = 0; i < r->add_n; i++)
		if (str_eq_nocase(name, r->add[i].name))
			return true;
	return (r->signs && is_one_of(name, signing)) || (r->unwrap && is_one_of(name, framing));
}

static struct buf *new_value(struct rewrite *r)
{
	r->full |= r->values_n == ARRAY_LEN(r->values);
	if (r->full)
		return NULL;
	struct buf *b = &r->values[r->values_n++];
	*b = (struct buf){.max = HTTP_HEAD_MAX, .wipe = true};
	return b;
}

/* Without "aws-chunked". False: nothing is left. */
static bool unwrapped_encoding(struct rewrite *r, struct str *value)
{
	struct buf *out = new_value(r);
	for (struct str rest = *value; out && rest.n;) {
		struct str one = str_trim(str_split(rest, ',', &rest));
		if (!one.n || str_eq_nocase(one, STR("aws-chunked")))
			continue;
		if (buf_size(out))
			buf_add_c(out, ", ");
		buf_add_str(out, one);
	}
	if (out)
		*value = buf_str(out);
	return value->n > 0;
}

static bool pass(struct rewrite *r, struct str name, struct str *value)
{
	if (is_dropped(r, name))
		return false;
	if (r->unwrap && str_eq_nocase(name, STR("Content-Encoding")))
		return unwrapped_encoding(r, value);
	if (!secrets_in_value(r->writer.secrets, *value))
		return true;
	struct buf *out = new_value(r);
	bool replaced = out && secret_put_value(&r->writer, &(struct http_header){name, *value}, out);
	if (replaced)
		*value = buf_str(out);
	r->full |= replaced && out->failed;
	return true;
}

static void free_values(struct rewrite *r, size_t from)
{
	while (r->values_n > from)
		buf_free(&r->values[--r->values_n]);
}

/* Tries all headers: what comes after is sent piece by piece, and cannot be taken back. */
static bool has_room(struct rewrite *r)
{
	size_t before = r->values_n;
	r->trial = true;
	for (size_t i = 0; i < r->rq->headers.n; i++) {
		struct http_header h = r->rq->headers.v[i];
		pass(r, h.name, &h.value);
	}
	r->trial = false;
	free_values(r, before);
	return !r->full && !r->target.failed;
}

static bool filter(void *arg, struct str name, struct str *value)
{
	struct web *w = arg;
	return pass(w->rewrite, name, value);
}

/* A text of the response's head. What has no room in a head is left out, as is a name with a value in it. */
static bool clean(void *arg, struct str *text, bool name)
{
	static struct buf hidden = {.max = HTTP_HEAD_MAX}; /* holds no value; good until the next call */
	const struct web *w = arg;
	buf_clear(&hidden);
	if (!w->conn || !secrets_hide(web_secrets(w), &(struct secret_way){w->leg, w->conn->port}, *text, &hidden))
		return true;
	*text = buf_str(&hidden);
	return !name && !hidden.failed;
}

static void add(struct rewrite *r, const char *name, struct str value)
{
	if (r->add_n < ARRAY_LEN(r->add))
		r->add[r->add_n++] = (struct http_header){str_of(name), value};
}

static void add_headers(struct web *w, struct rewrite *r)
{
	for (size_t i = 0; i < r->writer.secrets->n; i++) {
		struct secret *s = &r->writer.secrets->v[i];
		struct buf *out;
		if (!s->header || !secret_goes_to(s, w->leg, w->conn->port) || !(out = new_value(r)))
			continue;
		secret_put_header(s, out);
		r->writer.used(r, s);
		add(r, s->header, buf_str(out));
	}
}

/* ---- AWS ---- */

static void payload_hash(const struct web *w, struct rewrite *r, bool s3)
{
	struct str given = header(r->rq, "x-amz-content-sha256");
	if (r->unwrap)
		given = STR(AWS_UNSIGNED);
	if (given.n && given.n < sizeof r->hash)
		snprintf(r->hash, sizeof r->hash, "%.*s", STR_ARG(given));
	else if (w->body.p || !s3 || r->rq->content_length == 0)
		aws_hash(w->body.p ? w->body : STR(""), r->hash);
	else
		snprintf(r->hash, sizeof r->hash, AWS_UNSIGNED);
}

/* Without the parameters of a presigned request: the signature stands in the header. */
static void strip_presigned(struct rewrite *r, struct str target)
{
	struct str query, path = str_split(target, '?', &query);
	char before = '?';
	buf_clear(&r->target);
	buf_add_str(&r->target, path);
	while (query.n) {
		struct str one = str_split(query, '&', &query);
		if (str_starts(one, STR("X-Amz-")))
			continue;
		buf_add_byte(&r->target, before);
		buf_add_str(&r->target, one);
		before = '&';
	}
}

static struct str lower(struct rewrite *r, struct str name)
{
	struct buf *b = new_value(r);
	for (size_t i = 0; b && i < name.n; i++)
		buf_add_byte(b, (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] | 32 : name.p[i]));
	return b ? buf_str(b) : STR_NULL;
}

/* Host and every x-amz- header that goes out. */
static size_t signed_headers(struct rewrite *r, struct aws_header *v)
{
	size_t n = 0;
	v[n++] = (struct aws_header){STR("host"), r->rq->host};
	for (size_t i = 0; i < r->rq->headers.n && n < AWS_HEADERS_MAX; i++) {
		struct http_header h = r->rq->headers.v[i];
		if (h.name.n > 6 && str_eq_nocase(str_n(h.name.p, 6), STR("x-amz-")) && pass(r, h.name, &h.value))
			v[n++] = (struct aws_header){lower(r, h.name), h.value};
	}
	for (size_t i = 0; i < r->add_n && n < AWS_HEADERS_MAX; i++)
		if (str_starts(r->add[i].name, STR("x-amz-")))
			v[n++] = (struct aws_header){r->add[i].name, r->add[i].value};
	/* One that is left out of the signature would be refused by the server. */
	r->full |= n == AWS_HEADERS_MAX;
	return n;
}

static bool sign(struct web *w, struct rewrite *r)
{
	struct aws_key key = key_of(r->signs, r->rq);
	struct aws_header headers[AWS_HEADERS_MAX];
	bool s3 = str_eq_c(key.service, "s3");
	if (is_presigned(r->rq))
		strip_presigned(r, r->rq->target);
	struct str query, path = str_split(r->target.len ? buf_str(&r->target) : r->rq->target, '?', &query);
	struct aws_request q = {.method = r->rq->method_text, .path = path, .query = query, .headers = headers};
	aws_date(clock_wall_ms(), q.date);
	snprintf(r->date, sizeof r->date, "%s", q.date);
	payload_hash(w, r, s3);
	q.payload = str_of(r->hash);
	add(r, "x-amz-date", str_of(r->date));
	if (s3 || header(r->rq, "x-amz-content-sha256").p)
		add(r, "x-amz-content-sha256", q.payload);
	if (*r->signs->aws.token)
		add(r, "x-amz-security-token", str_of(r->signs->aws.token));
	q.headers_n = signed_headers(r, headers);
	struct buf *out = new_value(r);
	if (!out || r->full || !aws_sign(&key, &q, out))
		return false;
	add(r, "Authorization", buf_str(out));
	r->writer.used(r, r->signs);
	return true;
}

/* Takes the framing off an upload. */
static bool unwrap(void *arg, struct str piece, struct buf *out)
{
	struct web *w = arg;
	if (!piece.p)
		return aws_chunked_ended(w->chunked) && w->chunked->total == w->decoded;
	return aws_chunked_feed(w->chunked, piece, out) && w->chunked->total <= w->decoded;
}

static void begin_unwrap(struct web *w, struct rewrite *r, struct http_proxy_options *o)
{
	str_to_u64(header(r->rq, "x-amz-decoded-content-length"), INT64_MAX, &w->decoded);
	free(w->chunked);
	w->chunked = xcalloc(1, sizeof *w->chunked);
	r->unwrap = true;
	o->filter_body = unwrap;
	o->body_length = (int64_t)w->decoded;
}

/* ---- both ---- */

static void on_used(void *arg, struct secret *s)
{
	struct rewrite *r = arg;
	if (!r->trial)
		r->used[s - r->writer.secrets->v] = true;
}

/* Tells the daemon that a secret has gone out. */
static void note_use(const struct web *w, struct secret *s)
{
	uint64_t now = loop_now(w->gate->loop);
	if (s->noted && now - s->noted < GATE_SECRET_NOTE)
		return;
	s->noted = now;
	auto_buf struct buf line = {0};
	struct json_writer j = json_writer(&line);
	json_object_begin(&j);
	json_member_cstr(&j, "op", "used");
	json_member_cstr(&j, "id", box_id(w->conn->box));
	json_member_cstr(&j, "secret", s->name);
	json_member_i64(&j, "time", clock_wall_ms());
	json_object_end(&j);
	buf_add_byte(&line, '\n');
	control_send(w->gate, buf_str(&line));
}

bool rewrite_begin(struct web *w, const struct http_request *rq, struct rewrite *r, struct http_proxy_options *o)
{
	r->rq = rq;
	r->values_n = r->add_n = 0;
	r->unwrap = r->full = r->trial = r->ready = false;
	memset(r->used, 0, sizeof r->used);
	r->target = (struct buf){.max = HTTP_HEAD_MAX, .wipe = true};
	r->writer = (struct secret_writer){
		.secrets = web_secrets(w), .way = {w->leg, w->conn->port}, .used = on_used, .arg = r};
	r->signs = signer(w, rq);
	w->rewrite = r;
	o->wipe = true;
	o->filter_request = filter;
	o->clean_response = clean;
	o->add = r->add;
	add_headers(w, r);
	bool replaced = secret_put_target(&r->writer, rq->target, &r->target);
	if (!has_room(r))
		return r->full = true, false;
	if (!replaced)
		buf_free(&r->target);
	if (r->signs && is_wrapped(rq))
		begin_unwrap(w, r, o);
	if (w->body.p)
		o->body = w->body;
	if (r->signs && !sign(w, r))
		return false;
	if (buf_size(&r->target))
		o->target = buf_str(&r->target);
	o->add_n = r->add_n;
	r->ready = true;
	return true;
}

void rewrite_end(const struct web *w, struct rewrite *r)
{
	for (size_t i = 0; r->ready && i < r->writer.secrets->n; i++)
		if (r->used[i])
			note_use(w, &r->writer.secrets->v[i]);
	free_values(r, 0);
	buf_free(&r->target);
}
