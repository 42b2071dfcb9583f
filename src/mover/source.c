#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_*: EVP would bring all of libcrypto into a static program */
#include <archive.h>
#include <archive_entry.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "mover/mover.h"

struct archive_source {
	struct archive *raw; /* takes the compression off */
	SHA256_CTX hash;
	uint64_t bytes, max;
	bool ended;
};

static void check_size(struct archive_source *s)
{
	uint64_t packed = (uint64_t)archive_filter_bytes(s->raw, -1);
	if (s->bytes > s->max)
		mover_die("the archive is larger than %llu bytes when it is unpacked", (unsigned long long)s->max);
	if (s->bytes > MOVER_RATIO_FROM && s->bytes / MOVER_RATIO_MAX > packed)
		mover_die("the archive inflates to more than %u times its size", MOVER_RATIO_MAX);
}

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	struct archive_source *s = arg;
	size_t n = 0;
	la_int64_t offset = 0;
	(void)a;
	if (s->ended)
		return 0;
	int r = archive_read_data_block(s->raw, ret, &n, &offset);
	if (r == ARCHIVE_EOF) {
		s->ended = true;
		return 0;
	}
	if (r != ARCHIVE_OK)
		mover_die("the archive is damaged: %s", archive_error_string(s->raw));
	SHA256_Update(&s->hash, *ret, n);
	s->bytes += n;
	check_size(s);
	return (la_ssize_t)n;
}

struct archive *source_open(uint64_t max_bytes, struct archive_source **ret)
{
	static struct archive_source s;
	struct archive_entry *whole;
	s.max = max_bytes;
	SHA256_Init(&s.hash);
	s.raw = archive_read_new();
	archive_read_support_format_raw(s.raw);
	archive_read_support_format_empty(s.raw);
	archive_read_support_filter_gzip(s.raw);
	archive_read_support_filter_zstd(s.raw);
	archive_read_support_filter_xz(s.raw);
	archive_read_support_filter_bzip2(s.raw);
	if (archive_read_open_fd(s.raw, 0, 1 << 17) != ARCHIVE_OK)
		mover_die("the archive cannot be read: %s", archive_error_string(s.raw));
	int r = archive_read_next_header(s.raw, &whole);
	if (r == ARCHIVE_EOF)
		s.ended = true;
	else if (r != ARCHIVE_OK)
		mover_die("the archive cannot be read: %s", archive_error_string(s.raw));
	struct archive *tar = archive_read_new();
	archive_read_support_format_tar(tar);
	archive_read_support_format_empty(tar);
	if (archive_read_open(tar, &s, NULL, on_read, NULL) != ARCHIVE_OK)
		mover_die("this is no tar archive: %s", archive_error_string(tar));
	*ret = &s;
	return tar;
}

void source_finish(struct archive_source *s, char *hex, uint64_t *ret_bytes)
{
	const void *rest;
	unsigned char digest[SHA256_DIGEST_LENGTH];
	while (on_read(NULL, s, &rest) > 0)
		;
	SHA256_Final(digest, &s->hash);
	for (int i = 0; i < SHA256_DIGEST_LENGTH; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	*ret_bytes = s->bytes;
}
