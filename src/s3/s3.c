#include "s3/s3.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "s3/s3_call.h"

/* ---- settings ---- */

static bool name_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && !strchr("._-/", c))
			return false;
	}
	return s.n <= S3_SETTING_MAX - 2;
}

static int read_url(struct s3 *s, const char *url, struct err *e)
{
	struct str prefix, all = str_of(url);
	if (!str_starts(all, STR("s3://")))
		return err_set(e, ERRC_INVALID_REQUEST, "ATOLL_BACKUP_URL must be s3://bucket or s3://bucket/prefix");
	struct str bucket = str_split(str_skip(all, 5), '/', &prefix);
	while (prefix.n && prefix.p[prefix.n - 1] == '/')
		prefix.n--;
	if (!bucket.n || !name_ok(bucket) || !name_ok(prefix))
		return err_set(e, ERRC_INVALID_REQUEST,
			"bucket and prefix of ATOLL_BACKUP_URL must be letters, digits, '.', '_', '-' and '/'");
	snprintf(s->bucket, sizeof s->bucket, "%.*s", STR_ARG(bucket));
	snprintf(s->prefix, sizeof s->prefix, "%.*s%s", STR_ARG(prefix), prefix.n ? "/" : "");
	return 0;
}

static int take_setting(struct s3 *s, struct str name, struct str value, struct err *e)
{
	const struct {
		const char *name;
		char *to;
	} known[] = {{"endpoint", s->endpoint}, {"region", s->region}, {"access_key_id", s->key_id},
		{"secret_access_key", s->secret}};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq_c(name, known[i].name) && value.n <= S3_SETTING_MAX && !memchr(value.p, 0, value.n)) {
			snprintf(known[i].to, S3_SETTING_MAX + 1, "%.*s", STR_ARG(value));
			return 0;
		}
	return err_set(e, ERRC_INVALID_REQUEST, "'%.*s' is not a setting of an object store, or is too long",
		(int)(name.n < 40 ? name.n : 40), name.p);
}

static int split_endpoint(struct s3 *s, struct err *e)
{
	struct str all = str_of(s->endpoint), path;
	size_t scheme = str_starts(all, STR("https://")) ? 8 : str_starts(all, STR("http://")) ? 7 : 0;
	struct str host = str_split(str_skip(all, scheme), '/', &path);
	while (path.n && path.p[path.n - 1] == '/')
		path.n--;
	if (!scheme || !host.n || !name_ok(path))
		return err_set(e, ERRC_INVALID_REQUEST, "endpoint must be https://host or http://host");
	snprintf(s->host, sizeof s->host, "%.*s", STR_ARG(host));
	snprintf(s->path, sizeof s->path, "%s%.*s", path.n ? "/" : "", STR_ARG(path));
	s->endpoint[scheme + host.n] = 0;
	return 0;
}

static int read_settings(struct s3 *s, const char *file, struct err *e)
{
	auto_buf struct buf text = {.wipe = true};
	struct stat st;
	auto_fd int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_os(e, ERRC_INVALID_REQUEST, errno, "open %s", file);
	if (st.st_mode & 007)
		return err_set(e, ERRC_INVALID_REQUEST, "%s holds a key: others must not read it (chmod 600)", file);
	int r = fd_read_file(AT_FDCWD, file, 64 * 1024, &text);
	if (r < 0)
		return err_os(e, ERRC_INVALID_REQUEST, -r, "read %s", file);
	for (struct str rest = buf_str(&text), line; rest.n;) {
		struct str value;
		line = str_trim(str_split(rest, '\n', &rest));
		if (!line.n || *line.p == '#')
			continue;
		struct str name = str_trim(str_split(line, '=', &value));
		if (take_setting(s, name, str_trim(value), e) < 0)
			return -1;
	}
	if (!*s->endpoint || !*s->key_id || !*s->secret)
		return err_set(
			e, ERRC_INVALID_REQUEST, "%s must have endpoint, access_key_id and secret_access_key", file);
	return split_endpoint(s, e);
}

int s3_open(const char *url, const char *file, struct s3 **ret, struct err *e)
{
	struct s3 *s = xcalloc(1, sizeof *s);
	snprintf(s->region, sizeof s->region, "us-east-1");
	if (!file || !*file) {
		err_set(e, ERRC_INVALID_REQUEST, "ATOLL_BACKUP_CREDENTIALS must name a file with endpoint and keys");
	} else if (read_url(s, url, e) == 0 && read_settings(s, file, e) == 0) {
		curl_global_init(CURL_GLOBAL_DEFAULT);
		s->curl = curl_easy_init();
		INVARIANT(s->curl);
		*ret = s;
		return 0;
	}
	free(s);
	return -1;
}

void s3_close(struct s3 *s)
{
	curl_easy_cleanup(s->curl);
	free(s);
}

/* ---- objects ---- */

static int run(struct s3 *s, struct s3_call c, struct err *e)
{
	int r = s3_call_run(s, &c, e);
	s3_call_free(&c);
	return r;
}

int s3_put(struct s3 *s, const char *name, struct str bytes, struct err *e)
{
	return run(
		s, (struct s3_call){.method = "PUT", .name = name, .query = "", .body = bytes, .check_tag = true}, e);
}

static int gone_is_fine(int r, struct err *e)
{
	return r < 0 && e->code == ERRC_NOT_FOUND ? 0 : r;
}

int s3_delete(struct s3 *s, const char *name, struct err *e)
{
	return gone_is_fine(run(s, (struct s3_call){.method = "DELETE", .name = name, .query = ""}, e), e);
}

int s3_get(struct s3 *s, const char *name, s3_on_bytes on_bytes, void *arg, struct err *e)
{
	return run(
		s, (struct s3_call){.method = "GET", .name = name, .query = "", .on_bytes = on_bytes, .arg = arg}, e);
}

/* ---- answers ---- */

/* The text of the next element of this name from *rest on; *rest is moved past it. */
static bool next_element(struct str *rest, const char *name, struct str *ret)
{
	char open[40], close[40];
	snprintf(open, sizeof open, "<%s>", name);
	snprintf(close, sizeof close, "</%s>", name);
	const char *a = rest->n ? memmem(rest->p, rest->n, open, strlen(open)) : NULL;
	const char *b = a ? memmem(a, (size_t)(rest->p + rest->n - a), close, strlen(close)) : NULL;
	if (!b)
		return false;
	a += strlen(open);
	*ret = str_n(a, (size_t)(b - a));
	*rest = str_skip(*rest, (size_t)(b - rest->p) + strlen(close));
	return true;
}

/* Appended to a query; entities of XML are undone first. */
static void put_encoded(struct buf *out, struct str text)
{
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		if (c == '&' && str_starts(str_skip(text, i), STR("&amp;")))
			i += 4;
		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("._-~", c))
			buf_add_byte(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

static int tell_names(const struct s3 *s, struct str xml, s3_on_name on_name, void *arg, struct err *e)
{
	struct str key, prefix = str_of(s->prefix);
	char name[S3_NAME_MAX + 1];
	while (next_element(&xml, "Key", &key)) {
		if (!str_starts(key, prefix) || !name_ok(key))
			continue;
		key = str_skip(key, prefix.n);
		if (!key.n || memchr(key.p, '/', key.n))
			continue;
		snprintf(name, sizeof name, "%.*s", STR_ARG(key));
		if (on_name(arg, name, e) < 0)
			return -1;
	}
	return 0;
}

int s3_list(struct s3 *s, s3_on_name on_name, void *arg, struct err *e)
{
	auto_buf struct buf token = {0};
	for (unsigned page = 0; page < S3_PAGES_MAX; page++) {
		auto_buf struct buf query = {0};
		struct str more = STR(""), next = STR(""), rest;
		if (buf_size(&token))
			buf_printf(&query, "continuation-token=%s&", buf_cstr(&token));
		buf_add_c(&query, "list-type=2&prefix=");
		put_encoded(&query, str_of(s->prefix));
		struct s3_call c = {.method = "GET", .query = buf_cstr(&query)};
		int r = s3_call_run(s, &c, e);
		rest = buf_str(&c.answer);
		if (r == 0)
			r = tell_names(s, rest, on_name, arg, e);
		if (r == 0 && next_element(&rest, "IsTruncated", &more) && str_eq_c(more, "true")) {
			rest = buf_str(&c.answer);
			next_element(&rest, "NextContinuationToken", &next);
		}
		buf_clear(&token);
		put_encoded(&token, next);
		s3_call_free(&c);
		if (r < 0 || !buf_size(&token))
			return r;
	}
	return err_set(e, ERRC_BAD_GATEWAY, "the list of %s has no end", s->bucket);
}

/* ---- parts ---- */

int s3_upload_begin(struct s3 *s, const char *name, struct s3_upload *ret, struct err *e)
{
	struct s3_call c = {.method = "POST", .name = name, .query = "uploads="};
	struct str id = STR(""), rest;
	int r = s3_call_run(s, &c, e);
	rest = buf_str(&c.answer);
	if (r == 0 && (!next_element(&rest, "UploadId", &id) || !id.n || id.n > S3_SETTING_MAX))
		r = err_set(e, ERRC_BAD_GATEWAY, "%s began no upload of %s", s->host, name);
	if (r == 0) {
		*ret = (struct s3_upload){.s = s};
		snprintf(ret->name, sizeof ret->name, "%s", name);
		snprintf(ret->id, sizeof ret->id, "%.*s", STR_ARG(id));
	}
	s3_call_free(&c);
	return r;
}

int s3_upload_part(struct s3_upload *u, struct str bytes, struct err *e)
{
	auto_buf struct buf query = {0};
	if (u->parts >= S3_PARTS_MAX)
		return err_set(e, ERRC_PAYLOAD_TOO_LARGE, "%s has more than %d parts", u->name, S3_PARTS_MAX);
	buf_printf(&query, "partNumber=%u&uploadId=", u->parts + 1);
	put_encoded(&query, str_of(u->id));
	struct s3_call c = {
		.method = "PUT", .name = u->name, .query = buf_cstr(&query), .body = bytes, .check_tag = true};
	int r = s3_call_run(u->s, &c, e);
	if (r == 0)
		buf_printf(&u->tags, "<Part><PartNumber>%u</PartNumber><ETag>&quot;%s&quot;</ETag></Part>", ++u->parts,
			c.tag);
	s3_call_free(&c);
	return r;
}

int s3_upload_end(struct s3_upload *u, struct err *e)
{
	auto_buf struct buf query = {0}, body = {0};
	struct str tag, rest;
	buf_add_c(&query, "uploadId=");
	put_encoded(&query, str_of(u->id));
	buf_printf(&body, "<CompleteMultipartUpload>%s</CompleteMultipartUpload>", buf_cstr(&u->tags));
	struct s3_call c = {.method = "POST", .name = u->name, .query = buf_cstr(&query), .body = buf_str(&body)};
	int r = s3_call_run(u->s, &c, e);
	rest = buf_str(&c.answer);
	/* The server may find an error after it has begun to answer 200. */
	if (r == 0 && !next_element(&rest, "ETag", &tag))
		r = err_set(e, ERRC_BAD_GATEWAY, "%s did not put the parts of %s together", u->s->host, u->name);
	s3_call_free(&c);
	return r;
}

int s3_upload_abort(struct s3 *s, const char *name, const char *id, struct err *e)
{
	auto_buf struct buf query = {0};
	buf_add_c(&query, "uploadId=");
	put_encoded(&query, str_of(id));
	struct s3_call c = {.method = "DELETE", .name = name, .query = buf_cstr(&query)};
	int r = s3_call_run(s, &c, e);
	s3_call_free(&c);
	/* Stores that know no abort (405, 501) drop old uploads by themselves. */
	return r < 0 && (c.status == 404 || c.status == 405 || c.status == 501) ? 0 : r;
}

void s3_upload_free(struct s3_upload *u)
{
	buf_free(&u->tags);
}
