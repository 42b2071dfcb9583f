/*
 * The outside of an image archive: which files it has and where their bytes lie. Plain tar only (ustar, GNU long names,
 * pax sizes and paths). The archive is hostile: every number is checked against the file's size, every name is a key
 * to look up and never a path.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "images/images.h"

enum { BLOCK = 512, NAME_MAX_HERE = 4096, EXTENSION_MAX = 65536 };

struct reader {
	int fd;
	uint64_t at, size;
	char *long_name; /* for the next entry */
	uint64_t pax_size;
	bool has_pax_size;
	EVP_MD_CTX *hash; /* NULL: none is wanted */
};

static int broken(struct err *e, const char *why)
{
	return err_set(e, ERRC_INVALID_REQUEST, "the archive is malformed: %s", why);
}

static bool number(const unsigned char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	if (p[0] & 0x80) {
		for (size_t i = n - 8; i < n; i++)
			v = v << 8 | p[i];
		*ret = v;
		return p[0] == 0x80;
	}
	size_t i = 0;
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v * 8 + (uint64_t)(p[i] - '0');
	*ret = v;
	return i == n || p[i] == 0 || p[i] == ' ';
}

static bool sum_ok(const unsigned char *h)
{
	uint64_t wanted, sum = 0;
	for (int i = 0; i < BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : h[i];
	return number(h + 148, 8, &wanted) && wanted == sum;
}

static int read_extension(struct reader *r, uint64_t size, struct buf *ret, struct err *e)
{
	char *room = size <= EXTENSION_MAX ? buf_room(ret, size + 1) : NULL;
	if (!room || pread(r->fd, room, size, (off_t)r->at) != (ssize_t)size)
		return broken(e, "an extension header");
	buf_commit(ret, size);
	return 0;
}

/* "27 path=some/name\n" … */
static int read_pax(struct reader *r, struct str text, struct err *e)
{
	while (text.n) {
		uint64_t length;
		struct str rest, value, count = str_split(text, ' ', &rest);
		if (!str_to_u64(count, text.n, &length) || length <= count.n + 1)
			return broken(e, "a pax header");
		struct str record = str_n(rest.p, (size_t)length - count.n - 2);
		struct str key = str_split(record, '=', &value);
		if (str_eq_c(key, "path") && value.n < NAME_MAX_HERE) {
			free(r->long_name);
			r->long_name = str_dup(value);
		}
		if (str_eq_c(key, "size"))
			r->has_pax_size = str_to_u64(value, UINT64_MAX, &r->pax_size);
		text = str_skip(text, (size_t)length);
	}
	return 0;
}

static char *entry_name(struct reader *r, const unsigned char *h)
{
	if (r->long_name)
		return take_ptr(&r->long_name);
	auto_buf struct buf name = {0};
	size_t prefix = strnlen((const char *)h + 345, 155);
	if (memcmp(h + 257, "ustar", 5) == 0 && prefix)
		buf_printf(&name, "%.*s/", (int)prefix, h + 345);
	buf_add(&name, h, strnlen((const char *)h, 100));
	return str_dup(buf_str(&name));
}

static void add(struct members *m, int fd, char *name, uint64_t offset, uint64_t size)
{
	if ((m->n & (m->n - 1)) == 0)
		m->v = xrealloc(m->v, (m->n ? m->n * 2 : 1) * sizeof *m->v);
	m->v[m->n++] = (struct member){name, offset, size, fd};
}

/* The header without its time, and so without its sum; then the content. */
static int hash_entry(struct reader *r, const unsigned char *h, uint64_t size, struct err *e)
{
	char piece[1 << 16];
	unsigned char timeless[BLOCK];
	memcpy(timeless, h, BLOCK);
	memset(timeless + 136, 0, 20);
	EVP_DigestUpdate(r->hash, timeless, BLOCK);
	for (uint64_t at = 0; at < size;) {
		size_t most = size - at < sizeof piece ? (size_t)(size - at) : sizeof piece;
		ssize_t n = pread(r->fd, piece, most, (off_t)(r->at + at));
		if (n <= 0)
			return broken(e, "it is cut off");
		EVP_DigestUpdate(r->hash, piece, (size_t)n);
		at += (uint64_t)n;
	}
	return 0;
}

static int read_entry(struct reader *r, const unsigned char *h, struct members *m, struct err *e)
{
	uint64_t size;
	if (!sum_ok(h))
		return broken(e, "a header has the wrong sum");
	if (!number(h + 124, 12, &size))
		return broken(e, "a size");
	char type = (char)h[156];
	if (r->has_pax_size && type != 'x' && type != 'g') {
		size = r->pax_size;
		r->has_pax_size = false;
	}
	if (size > r->size - r->at)
		return broken(e, "it is cut off");
	if (r->hash && hash_entry(r, h, size, e) < 0)
		return -1;
	auto_buf struct buf text = {0};
	if (type == 'x' || type == 'L') {
		if (read_extension(r, size, &text, e) < 0 || (type == 'x' && read_pax(r, buf_str(&text), e) < 0))
			return -1;
		if (type == 'L') {
			free(r->long_name);
			r->long_name = str_dup(str_of(buf_cstr(&text)));
		}
	} else if (type == '0' || type == 0) {
		if (m->n >= SERVICE_MEMBERS_MAX)
			return broken(e, "it has too many files");
		add(m, r->fd, entry_name(r, h), r->at, size);
	} else {
		free(entry_name(r, h));
	}
	r->at += (size + BLOCK - 1) / BLOCK * BLOCK;
	return 0;
}

static int walk(int fd, EVP_MD_CTX *hash, struct members *ret, struct err *e)
{
	struct stat st;
	unsigned char h[BLOCK];
	static const unsigned char zero[BLOCK];
	*ret = (struct members){0};
	if (fstat(fd, &st) < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "read the archive");
	struct reader r = {.fd = fd, .size = (uint64_t)st.st_size, .hash = hash};
	int result = 0;
	while (result == 0 && r.at + BLOCK <= r.size) {
		if (pread(fd, h, BLOCK, (off_t)r.at) != BLOCK)
			result = broken(e, "it is cut off");
		r.at += BLOCK;
		if (memcmp(h, zero, BLOCK) == 0)
			break;
		result = result < 0 ? result : read_entry(&r, h, ret, e);
	}
	free(r.long_name);
	if (result < 0)
		members_free(ret);
	return result;
}

int members_read(int fd, struct members *ret, struct err *e)
{
	return walk(fd, NULL, ret, e);
}

int members_digest(int fd, char ret[IMAGE_HEX + 1], struct err *e)
{
	struct members m;
	unsigned char digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	INVARIANT(hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1);
	int r = walk(fd, hash, &m, e);
	EVP_DigestFinal_ex(hash, digest, NULL);
	EVP_MD_CTX_free(hash);
	if (r < 0)
		return -1;
	members_free(&m);
	digest_hex(digest, ret);
	return 0;
}

static const char *without_dot(const char *name)
{
	return strncmp(name, "./", 2) == 0 ? name + 2 : name;
}

const struct member *members_find(const struct members *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(without_dot(m->v[i].name), name) == 0)
			return &m->v[i];
	return NULL;
}

void members_free(struct members *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->v[i].name);
	free(m->v);
	*m = (struct members){0};
}
