#include "proto/image.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "proto/id.h"

static bool is_hex(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!isdigit((unsigned char)s.p[i]) && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
			return false;
	return true;
}

bool image_has_room(int dir)
{
	struct statvfs st;
	if (fstatvfs(dir, &st) < 0)
		return false;
	uint64_t reserve = (uint64_t)st.f_blocks * st.f_frsize / IMAGE_RESERVE_SHARE;
	return (uint64_t)st.f_bavail * st.f_frsize > (reserve < IMAGE_RESERVE_MAX ? reserve : IMAGE_RESERVE_MAX) &&
	       (!st.f_files || st.f_favail > st.f_files / IMAGE_RESERVE_INODES);
}

bool image_hex_ok(struct str s)
{
	return s.n == IMAGE_HEX && is_hex(s);
}

bool image_layer_ok(struct str s)
{
	return image_hex_ok(s) || (box_image_name_ok(s) && !image_key_made_here(s));
}

bool image_layer_next(struct str *rest, struct str *ret, bool *ret_ok)
{
	if (!rest->n)
		return false;
	*ret = str_split(*rest, '\n', rest);
	*ret_ok = image_layer_ok(*ret);
	return true;
}

/* ---- references ---- */

static int ref_bad(struct err *e, const char *why)
{
	return err_field(e, "image", "field 'image' is not an image's name: %s", why);
}

/* Letters, digits and separators; a component begins and ends with a letter or digit. */
static bool path_ok(struct str path)
{
	char before = '/';
	for (size_t i = 0; i < path.n; i++) {
		char c = path.p[i];
		bool plain = islower((unsigned char)c) || isdigit((unsigned char)c);
		if (!plain && !memchr("._-/:", c, 5))
			return false;
		if (!plain && c != '-' && c != '_' && !(isalnum((unsigned char)before)))
			return false;
		before = c;
	}
	return path.n && isalnum((unsigned char)path.p[0]) && isalnum((unsigned char)before);
}

static bool tag_ok(struct str tag)
{
	if (!tag.n || tag.n > 128 || tag.p[0] == '.' || tag.p[0] == '-')
		return false;
	for (size_t i = 0; i < tag.n; i++)
		if (!isalnum((unsigned char)tag.p[i]) && !memchr("._-", tag.p[i], 3))
			return false;
	return true;
}

static int read_digest(struct str text, struct image_ref *r, struct err *e)
{
	enum { FEWEST = 12, KEPT = 56 };
	if (!str_starts(text, STR("sha256:")) && !str_starts(text, STR("sha256-")))
		return ref_bad(e, "a digest is 'sha256:' and hexadecimal digits");
	struct str hex = str_skip(text, 7);
	if (hex.n < FEWEST || hex.n > IMAGE_HEX || !is_hex(hex))
		return ref_bad(e, "a digest has 12 to 64 hexadecimal digits");
	snprintf(r->key, sizeof r->key, "sha256-%.*s", (int)(hex.n < KEPT ? hex.n : KEPT), hex.p);
	return 0;
}

/* The colon of a tag is behind the last slash; the colon of a port is before it. */
static struct str split_tag(struct str text, struct str *ret_tag)
{
	size_t i = text.n;
	*ret_tag = STR("latest");
	while (i > 0 && text.p[i - 1] != ':' && text.p[i - 1] != '/')
		i--;
	if (i == 0 || text.p[i - 1] == '/')
		return text;
	*ret_tag = str_skip(text, i);
	return str_n(text.p, i - 1);
}

int image_ref_parse(struct str text, struct image_ref *ret, struct err *e)
{
	struct image_ref r = {0};
	struct str tag;
	ssize_t at = str_index(text, '@');
	if (text.n > IMAGE_REF_MAX)
		return ref_bad(e, "it is too long");
	if (str_starts(text, STR("sha256:")) || str_starts(text, STR("sha256-"))) {
		if (read_digest(text, &r, e) < 0)
			return -1;
		*ret = r;
		return 0;
	}
	if (at >= 0 && read_digest(str_skip(text, (size_t)at + 1), &r, e) < 0)
		return -1;
	struct str path = split_tag(at >= 0 ? str_n(text.p, (size_t)at) : text, &tag);
	while (str_starts(path, STR("docker.io/")))
		path = str_skip(path, 10);
	while (str_starts(path, STR("library/")))
		path = str_skip(path, 8);
	bool digest = str_eq_c(path, "sha256") || str_starts(path, STR("sha256-")) || str_starts(path, STR("sha256:"));
	if (digest || str_starts(path, STR("docker.io/")))
		return ref_bad(e, "a name does not begin as a digest does");
	if (!path_ok(path))
		return ref_bad(e, "use a-z, 0-9, '.', '_', '-' and '/', and a tag after ':'");
	if (!tag_ok(tag))
		return ref_bad(e, "a tag has letters, digits, '.', '_' and '-', at most 128");
	if (snprintf(r.name, sizeof r.name, "%.*s:%.*s", STR_ARG(path), STR_ARG(tag)) >= IMAGE_REF_MAX)
		return ref_bad(e, "it is too long");
	char file[IMAGE_LINK_MAX + 1], again[IMAGE_REF_MAX + 1];
	image_name_encode(r.name, file);
	if (!image_name_decode(file, again) || strcmp(again, r.name) != 0)
		return ref_bad(e, "it is too long");
	*ret = r;
	return 0;
}

bool image_is_sandbox(const char *name)
{
	return str_starts(str_of(name), STR("cloudflare/sandbox:"));
}

void image_key_of(const char *hex, char ret[BOX_IMAGE_NAME_MAX + 1])
{
	snprintf(ret, BOX_IMAGE_NAME_MAX + 1, "sha256-%.56s", hex);
}

bool image_key_made_here(struct str key)
{
	return (key.n == BOX_IMAGE_NAME_MAX && str_starts(key, STR("sha256-"))) || str_eq_c(key, IMAGE_SCRATCH);
}

/* ---- file names ---- */

void image_name_encode(const char *name, char ret[IMAGE_LINK_MAX + 1])
{
	size_t n = 0;
	for (; *name && n + 4 <= IMAGE_LINK_MAX; name++) {
		bool plain = isalnum((unsigned char)*name) || *name == '_' || *name == '-' || (*name == '.' && n);
		n += (size_t)snprintf(ret + n, IMAGE_LINK_MAX + 1 - n, plain ? "%c" : "%%%02X", (unsigned char)*name);
	}
	ret[n] = 0;
}

bool image_name_decode(const char *file, char ret[IMAGE_REF_MAX + 1])
{
	size_t n = 0;
	for (; *file && n < IMAGE_REF_MAX; n++) {
		unsigned byte = (unsigned char)*file;
		if (*file == '%' && sscanf(file, "%%%2X", &byte) != 1)
			return false;
		file += *file == '%' ? 3 : 1;
		ret[n] = (char)byte;
	}
	ret[n] = 0;
	return !*file && n;
}

/* ---- looking up ---- */

static int read_link(int meta, const char *name, char ret_key[BOX_IMAGE_NAME_MAX + 1], struct err *e)
{
	char file[IMAGE_LINK_MAX + 1], path[IMAGE_LINK_MAX + 16], key[BOX_IMAGE_NAME_MAX + 2];
	image_name_encode(name, file);
	snprintf(path, sizeof path, "names/%s", file);
	ssize_t n = readlinkat(meta, path, key, sizeof key);
	if (n < 0 && errno == ENOENT)
		return 1;
	if (n < 0 || !box_image_name_ok(str_n(key, (size_t)n)))
		return err_set(e, ERRC_IMAGE_NOT_FOUND, "image '%s' cannot be read", name);
	memcpy(ret_key, key, (size_t)n);
	ret_key[n] = 0;
	return 0;
}

/* The one image whose key begins so. */
static int find_key(int meta, const char *prefix, char ret_key[BOX_IMAGE_NAME_MAX + 1], struct err *e)
{
	int fd = openat(meta, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	size_t found = 0, n = strlen(prefix);
	if (!d)
		return err_os(e, ERRC_IMAGE_NOT_FOUND, errno, "read the images");
	for (struct dirent *entry; (entry = readdir(d));) {
		struct str file = str_of(entry->d_name);
		if (strncmp(entry->d_name, prefix, n) != 0 || !str_ends(file, STR(".layers")) ||
			file.n - 7 > BOX_IMAGE_NAME_MAX)
			continue;
		found++;
		memcpy(ret_key, file.p, file.n - 7);
		ret_key[file.n - 7] = 0;
	}
	closedir(d);
	if (found > 1)
		return err_set(e, ERRC_IMAGE_NOT_FOUND, "%zu images begin with '%s': give more digits", found, prefix);
	return found ? 0 : 1;
}

int image_lookup(int meta, const struct image_ref *ref, char ret_key[BOX_IMAGE_NAME_MAX + 1], struct err *e)
{
	if (*ref->key)
		return find_key(meta, ref->key, ret_key, e);
	if (strcmp(ref->name, IMAGE_SCRATCH ":latest") == 0) {
		snprintf(ret_key, BOX_IMAGE_NAME_MAX + 1, IMAGE_SCRATCH);
		return 0;
	}
	return read_link(meta, ref->name, ret_key, e);
}

/* ---- names that look alike ---- */

/* Levenshtein's distance, at most `limit`. */
static size_t distance(struct str a, struct str b, size_t limit)
{
	size_t row[IMAGE_REF_MAX + 1];
	if (a.n > b.n + limit || b.n > a.n + limit)
		return limit + 1;
	for (size_t j = 0; j <= b.n; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.n; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			size_t change = diagonal + (a.p[i - 1] != b.p[j - 1]);
			size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
			diagonal = row[j];
			row[j] = change < other ? change : other;
		}
	}
	return row[b.n];
}

static struct str without_tag(const char *name)
{
	struct str tag;
	return split_tag(str_of(name), &tag);
}

void image_near(int meta, const char *name, struct buf *ret)
{
	enum { SHOWN = 3, FAR = 2 };
	int fd = openat(meta, "names", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;
	if (distance(without_tag(name), STR("default"), FAR) <= FAR)
		buf_printf(ret, "%s'default'", n++ ? " or " : " Did you mean ");
	for (struct dirent *entry; d && n < SHOWN && (entry = readdir(d));) {
		char other[IMAGE_REF_MAX + 1];
		if (*entry->d_name == '.' || !image_name_decode(entry->d_name, other) ||
			distance(without_tag(name), without_tag(other), FAR) > FAR)
			continue;
		buf_printf(ret, "%s'%s'", n++ ? " or " : " Did you mean ", other);
	}
	if (d)
		closedir(d);
	if (n)
		buf_add_c(ret, "?");
}
