/*
 * Layers, several at once. Each is appended to its file and hashed on the way; what an earlier pull has left in the
 * file is hashed first. A transfer that breaks off goes on behind the last byte (Range), as long as it gets on.
 *
 * From a fast registry they come one after the other, in the order in which they are unpacked: the first one is whole
 * soon, and is unpacked while the next one comes.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/disk.h"
#include "base/fd.h"
#include "images/fetch.h"

struct transfer {
	struct fetch *f;
	struct session *s;
	size_t index;
	uint64_t at; /* bytes that have arrived: those in the file, then `fresh` */
	struct buf fresh;
	struct disk_guard disk;
	uint64_t skip;	/* of this answer: they are there already */
	uint64_t began; /* `at` of this try */
	bool begun;	/* this answer has a body that counts */
	bool earlier;	/* an earlier pull has left some */
	bool authorized;
	unsigned turn;	/* the session's, of this try */
	unsigned tries; /* in a row that brought next to nothing */
	uint64_t not_before;
	EVP_MD_CTX *hash;
	CURL *curl;
	struct curl_slist *headers;
	struct answer answer;
	struct err err; /* of the file */
	enum { WAITS, RUNS, DONE } state;
};

struct transfers {
	struct fetch *f;
	struct session *s;
	CURLM *multi;
	struct transfer v[IMAGE_LAYERS_MAX];
	size_t n, running, left;
	uint64_t told; /* when progress was last told */
	size_t at_once;
	uint64_t looked, had; /* when at_once was last thought about; the bytes that were there */
};

static struct blob *blob_of(const struct transfer *t)
{
	return &t->f->blobs[t->index];
}

/* ---- the file ---- */

static int hash_rest(struct transfer *t, struct err *e)
{
	static char piece[1 << 18];
	struct stat st;
	struct blob *b = blob_of(t);
	t->hash = EVP_MD_CTX_new();
	INVARIANT(t->hash && EVP_DigestInit_ex(t->hash, EVP_sha256(), NULL) == 1);
	if (fstat(b->fd, &st) < 0 || ((uint64_t)st.st_size > b->size && ftruncate(b->fd, 0) < 0))
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "look at what an earlier pull has left");
	uint64_t end = (uint64_t)st.st_size > b->size ? 0 : (uint64_t)st.st_size;
	while (t->at < end) {
		ssize_t n = pread(b->fd, piece, sizeof piece, (off_t)t->at);
		if (n <= 0)
			return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "read what an earlier pull has left");
		EVP_DigestUpdate(t->hash, piece, (size_t)n);
		t->at += (uint64_t)n;
	}
	t->earlier = end > 0;
	return 0;
}

/* curl hands out pieces of 16 KiB; the file takes larger ones in half of the time. */
static int flush(struct transfer *t)
{
	struct str bytes = buf_str(&t->fresh);
	uint64_t at = t->at - bytes.n;
	if (!disk_takes(&t->disk, blob_of(t)->fd, bytes.n))
		return err_set(&t->err, ERRC_NO_SPACE, "%s: keep a layer: the disk has no room besides its reserve",
			t->f->ref);
	EVP_DigestUpdate(t->hash, bytes.p, bytes.n);
	for (size_t done = 0; done < bytes.n;) {
		ssize_t n = pwrite(blob_of(t)->fd, bytes.p + done, bytes.n - done, (off_t)(at + done));
		if (n < 0)
			return err_os(&t->err, errno == ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, errno,
				"%s: keep a layer", t->f->ref);
		done += (size_t)n;
	}
	buf_clear(&t->fresh);
	return 0;
}

static int append(struct transfer *t, struct str bytes)
{
	if (bytes.n > blob_of(t)->size - t->at)
		return err_set(
			&t->err, ERRC_VALIDATION_FAILED, "%s: the registry sent more bytes than it said", t->f->ref);
	buf_add_str(&t->fresh, bytes);
	t->at += bytes.n;
	return buf_size(&t->fresh) < SERVICE_PULL_PIECE ? 0 : flush(t);
}

/* ---- curl's callbacks ---- */

/* Does this answer go on where we are? A server without ranges sends everything again. */
static bool begin_body(struct transfer *t)
{
	long status = 0;
	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	t->begun = (status == 206 && t->answer.from == t->at) || status == 200;
	t->skip = status == 200 ? t->at : 0;
	return t->begun;
}

static size_t on_bytes(char *p, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	struct str bytes = str_n(p, size * n);
	if (!t->begun && !begin_body(t))
		return bytes.n; /* the text of an error */
	size_t known = bytes.n < t->skip ? bytes.n : (size_t)t->skip;
	t->skip -= known;
	bytes = str_skip(bytes, known);
	return append(t, bytes) < 0 ? 0 : size * n;
}

/* ---- one try ---- */

static void start(struct transfers *all, struct transfer *t)
{
	char path[IMAGE_REF_MAX + IMAGE_HEX + 32], range[32];
	struct blob *b = blob_of(t);
	snprintf(path, sizeof path, "/v2/%s/blobs/sha256:%s", all->s->place->repo, b->hex);
	t->curl = curl_easy_init();
	INVARIANT(t->curl);
	t->headers = session_prepare(all->s, t->curl, path, NULL, &t->answer);
	t->answer.from = UINT64_MAX;
	t->begun = false;
	t->began = t->at;
	t->turn = all->s->turn;
	if (t->at) {
		snprintf(range, sizeof range, "%llu-", (unsigned long long)t->at);
		curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
	}
	curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(t->curl, CURLOPT_HEADERFUNCTION, answer_header);
	curl_easy_setopt(t->curl, CURLOPT_HEADERDATA, &t->answer);
	curl_easy_setopt(t->curl, CURLOPT_PRIVATE, t);
	curl_multi_add_handle(all->multi, t->curl);
	t->state = RUNS;
	all->running++;
}

static void stop(struct transfers *all, struct transfer *t)
{
	curl_multi_remove_handle(all->multi, t->curl);
	curl_easy_cleanup(t->curl);
	curl_slist_free_all(t->headers);
	t->curl = NULL;
	t->headers = NULL;
	t->state = WAITS;
	all->running--;
}

static int finish(struct transfers *all, struct transfer *t, struct err *e)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char hex[IMAGE_HEX + 1];
	EVP_DigestFinal_ex(t->hash, digest, NULL);
	digest_hex(digest, hex);
	t->state = DONE;
	all->left--;
	if (strcmp(hex, blob_of(t)->hex) != 0)
		return err_set(e, ERRC_VALIDATION_FAILED, "%s: the registry sent bytes with another digest%s",
			t->f->ref, t->earlier ? ", now or in an earlier pull; pull again" : "");
	note_send(all->f, &(struct note){.kind = NOTE_BLOB, .index = (int32_t)t->index});
	return 0;
}

/* The connection broke, or the server was busy: wait a little and go on. */
static int again(struct transfers *all, struct transfer *t, CURLcode code, struct err *e)
{
	t->tries = t->at - t->began >= SERVICE_PULL_STEP ? 1 : t->tries + 1;
	if (t->tries >= SERVICE_PULL_TRIES) {
		if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
			return session_explain(all->s, code, e);
		return err_set(e, ERRC_BAD_GATEWAY, "%s: the connection was cut %u times", t->f->ref, t->tries);
	}
	note_say(all->f, "the connection was cut; fetching what is missing");
	t->not_before = clock_ms() + (uint64_t)SERVICE_PULL_PAUSE * t->tries;
	return 0;
}

static bool may_pass(CURLcode code, long status)
{
	switch ((int)code) {
	case CURLE_OK:
		return status == 408 || status == 429 || status >= 500;
	case CURLE_PARTIAL_FILE:
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_HTTP2:
		return true;
	default:
		return false;
	}
}

static int ended(struct transfers *all, struct transfer *t, CURLcode code, struct err *e)
{
	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->answer.status);
	stop(all, t);
	if (t->err.code || flush(t) < 0) {
		*e = t->err;
		return -1;
	}
	if (t->at == blob_of(t)->size && t->begun)
		return finish(all, t, e);
	if (code == CURLE_OK && t->answer.status == 401 && t->turn != all->s->turn)
		return 0; /* another transfer has got a token meanwhile */
	if (code == CURLE_OK && t->answer.status == 401 && !t->authorized) {
		t->authorized = true;
		return session_authorize(all->s, &t->answer, e);
	}
	if (t->at != t->began)
		t->authorized = false; /* tokens last for minutes, blobs for hours */
	/* An answer that ends early by its own count is cut as well; so is one that does not begin where we are. */
	if (may_pass(code, t->answer.status) || (code == CURLE_OK && t->answer.status / 100 == 2))
		return again(all, t, code, e);
	return code != CURLE_OK ? session_explain(all->s, code, e) : session_refused(all->s, &t->answer, e);
}

/* ---- all of them ---- */

static void tell_progress(struct transfers *all, bool now)
{
	struct note n = {.kind = NOTE_BYTES};
	if (!now && clock_ms() - all->told < SERVICE_PROGRESS)
		return;
	all->told = clock_ms();
	for (size_t i = 0; i < all->n; i++) {
		n.bytes += all->v[i].at;
		n.of += blob_of(&all->v[i])->size;
	}
	note_send(all->f, &n);
}

/* One connection to a registry that is far away, or limits each, does not bring what several do. */
static void choose_at_once(struct transfers *all, uint64_t now)
{
	uint64_t have = 0, took = now - all->looked;
	if (took < SERVICE_PULL_LOOK)
		return;
	for (size_t i = 0; i < all->n; i++)
		have += all->v[i].at;
	all->at_once = (have - all->had) * 1000 / took < SERVICE_PULL_FAST ? SERVICE_PULL_AT_ONCE : 1;
	all->looked = now;
	all->had = have;
}

static int start_some(struct transfers *all, struct err *e)
{
	uint64_t now = clock_ms();
	choose_at_once(all, now);
	for (size_t i = 0; i < all->n && all->running < all->at_once; i++) {
		struct transfer *t = &all->v[i];
		if (t->state != WAITS || t->not_before > now)
			continue;
		if (t->at == blob_of(t)->size) { /* an earlier pull has it whole */
			if (finish(all, t, e) < 0)
				return (int)i + 1;
			continue;
		}
		start(all, t);
	}
	return 0;
}

/* 0, or -1 and *ret_bad. */
static int one_turn(struct transfers *all, int *ret_bad, struct err *e)
{
	int n = 0, bad = start_some(all, e);
	if (bad) {
		*ret_bad = (int)all->v[bad - 1].index;
		return -1;
	}
	curl_multi_perform(all->multi, &n);
	for (CURLMsg *m; (m = curl_multi_info_read(all->multi, &n));) {
		struct transfer *t = NULL;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
		CURLcode code = session_result(&t->answer, m->data.result);
		if (ended(all, t, code, e) < 0) {
			*ret_bad = e->code == ERRC_VALIDATION_FAILED ? (int)t->index : -1;
			return -1;
		}
	}
	for (size_t i = 0; i < all->n; i++)
		if (buf_size(&all->v[i].fresh) && flush(&all->v[i]) < 0) {
			*e = all->v[i].err;
			return -1;
		}
	tell_progress(all, false);
	if (all->left)
		curl_multi_poll(all->multi, NULL, 0,
			all->at_once < SERVICE_PULL_AT_ONCE ? SERVICE_PULL_LOOK : SERVICE_PROGRESS, NULL);
	return 0;
}

int fetch_blobs(struct fetch *f, struct session *s, int *ret_bad, struct err *e)
{
	static struct transfers all;
	all = (struct transfers){.f = f, .s = s, .multi = curl_multi_init(), .at_once = 1};
	*ret_bad = -1;
	INVARIANT(all.multi);
	for (size_t i = 0; i < f->blobs_n; i++) {
		struct transfer *t = &all.v[all.n];
		if (f->blobs[i].fd < 0)
			continue;
		*t = (struct transfer){.f = f, .s = s, .index = i};
		if (hash_rest(t, e) < 0)
			return -1;
		all.n++;
		all.left++;
		all.had += t->at;
	}
	all.looked = clock_ms();
	while (all.left)
		if (one_turn(&all, ret_bad, e) < 0)
			return -1;
	tell_progress(&all, true);
	return 0;
}
