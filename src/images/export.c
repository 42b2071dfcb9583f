/*
 * An image as an archive. All layers together become one: the box's overlay shows them as one tree.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "images/registry.h"

enum { BLOCK = 512 };

/* In a box that sees the image alone: the programs that other boxes have are no part of it. */
int export_rootfs(struct store *s, struct work *w, const char *key, int out, struct err *e)
{
	static const char *const argv[] = {"pack", "/", NULL};
	struct mover_call m = {.argv = argv, .in = -1, .out = out};
	return work_box_bare(w, s, key, IMAGE_READS, e) < 0 ? -1 : work_mover(w, &m, e);
}

/* ---- a plain tar of files ---- */

static void put_number(char *to, size_t n, uint64_t v)
{
	if (v >> (3 * (n - 1)) == 0) {
		snprintf(to, n, "%0*llo", (int)n - 1, (unsigned long long)v);
		return;
	}
	for (size_t i = n; i-- > 0; v >>= 8)
		to[i] = (char)(v & 0xff);
	to[0] = (char)0x80;
}

/* Everything belongs to this program's user: skopeo unpacks the archive as that user and sets owners. */
static int put_header(int out, const char *name, char type, uint64_t size, struct err *e)
{
	char h[BLOCK] = {0};
	unsigned sum = 0;
	snprintf(h, 100, "%s", name);
	put_number(h + 100, 8, type == '5' ? 0755 : 0644);
	put_number(h + 108, 8, getuid());
	put_number(h + 116, 8, getgid());
	put_number(h + 124, 12, size);
	put_number(h + 136, 12, 0);
	h[156] = type;
	memcpy(h + 257, "ustar\00000", 8);
	memset(h + 148, ' ', 8);
	for (int i = 0; i < BLOCK; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
	int r = fd_write_full(out, h, BLOCK);
	return r < 0 ? err_os(e, r == -ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, -r, "write the archive") : 0;
}

static int put_padding(int out, uint64_t size, struct err *e)
{
	static const char zero[BLOCK];
	int r = fd_write_full(out, zero, (size_t)(-size % BLOCK));
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "write the archive") : 0;
}

int tar_put_text(int out, const char *name, struct str text, struct err *e)
{
	if (put_header(out, name, '0', text.n, e) < 0)
		return -1;
	int r = fd_write_full(out, text.p, text.n);
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "write the archive") : put_padding(out, text.n, e);
}

static int put_blob(int out, struct str text, char ret_digest[IMAGE_HEX + 1], struct err *e)
{
	char name[IMAGE_HEX + 32];
	digest_of(text, ret_digest);
	snprintf(name, sizeof name, "blobs/sha256/%s", ret_digest);
	return tar_put_text(out, name, text, e);
}

static int put_file(int out, int from, uint64_t size, const char *digest, struct err *e)
{
	static char piece[1 << 17];
	char name[IMAGE_HEX + 32];
	snprintf(name, sizeof name, "blobs/sha256/%s", digest);
	if (put_header(out, name, '0', size, e) < 0)
		return -1;
	for (uint64_t at = 0; at < size;) {
		ssize_t n = pread(from, piece, sizeof piece, (off_t)at);
		int r = n <= 0 ? -EIO : fd_write_full(out, piece, (size_t)n);
		if (r < 0)
			return err_os(e, r == -ENOSPC ? ERRC_NO_SPACE : ERRC_FILESYSTEM_ERROR, -r, "write the archive");
		at += (uint64_t)n;
	}
	return put_padding(out, size, e);
}

/* ---- the layout ---- */

static void put_descriptor(struct buf *to, const char *type, const char *digest, uint64_t size)
{
	buf_printf(to, "{\"mediaType\":\"application/vnd.oci.image.%s\",\"digest\":\"sha256:%s\",\"size\":%llu", type,
		digest, (unsigned long long)size);
}

/* The configuration with the one layer that the archive has; a diff_id has its algorithm in front. */
static void write_config(const struct image_config *own, const char *layer, struct buf *ret)
{
	auto_config struct image_config c = {0};
	char diff_id[IMAGE_HEX + 16];
	config_copy(&c, own);
	words_free(&c.layers);
	words_free(&c.history);
	snprintf(diff_id, sizeof diff_id, "sha256:%s", layer);
	words_add(&c.layers, str_of(diff_id));
	config_write(&c, ret);
}

static int put_descriptions(
	int out, const struct image_config *own, const char *layer, uint64_t size, const char *name, struct err *e)
{
	auto_buf struct buf config = {0}, manifest = {0}, index = {0};
	char config_digest[IMAGE_HEX + 1], manifest_digest[IMAGE_HEX + 1];
	write_config(own, layer, &config);
	if (put_blob(out, buf_str(&config), config_digest, e) < 0)
		return -1;
	buf_printf(&manifest,
		"{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"config\":");
	put_descriptor(&manifest, "config.v1+json", config_digest, buf_size(&config));
	buf_printf(&manifest, "},\"layers\":[");
	put_descriptor(&manifest, "layer.v1.tar", layer, size);
	buf_printf(&manifest, "}]}");
	if (put_blob(out, buf_str(&manifest), manifest_digest, e) < 0)
		return -1;
	buf_printf(&index, "{\"schemaVersion\":2,\"manifests\":[");
	put_descriptor(&index, "manifest.v1+json", manifest_digest, buf_size(&manifest));
	buf_printf(&index, ",\"annotations\":{\"org.opencontainers.image.ref.name\":");
	json_put_cstr(&index, *name ? name : "latest");
	buf_printf(&index, "}}]}");
	if (tar_put_text(out, "index.json", buf_str(&index), e) < 0 ||
		tar_put_text(out, "oci-layout", STR("{\"imageLayoutVersion\":\"1.0.0\"}"), e) < 0)
		return -1;
	return 0;
}

int export_oci(struct store *s, struct work *w, const char *key, const char *name, int out, struct err *e)
{
	static const char zero[2 * BLOCK];
	auto_config struct image_config c = {0};
	char layer[IMAGE_HEX + 1];
	struct stat st;
	auto_fd int tree = temp_file(e);
	if (tree < 0 || config_load(s, key, &c, e) < 0 || export_rootfs(s, w, key, tree, e) < 0)
		return -1;
	if (fstat(tree, &st) < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, errno, "read the image's files");
	if (digest_file(tree, 0, (uint64_t)st.st_size, layer, e) < 0 || put_header(out, "blobs/", '5', 0, e) < 0 ||
		put_header(out, "blobs/sha256/", '5', 0, e) < 0 ||
		put_file(out, tree, (uint64_t)st.st_size, layer, e) < 0 ||
		put_descriptions(out, &c, layer, (uint64_t)st.st_size, name, e) < 0)
		return -1;
	int r = fd_write_full(out, zero, sizeof zero);
	return r < 0 ? err_os(e, ERRC_FILESYSTEM_ERROR, -r, "write the archive") : 0;
}
