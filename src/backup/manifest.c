#include <fcntl.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "backup/backup.h"
#include "backup/target.h"
#include "base/fd.h"

#define HEAD "atoll-backup 1 "

bool backup_id_ok(struct str id)
{
	if (!str_starts(id, STR("bak-")) || id.n != 20)
		return false;
	for (size_t i = 4; i < id.n; i++)
		if (!strchr("0123456789abcdef", id.p[i]))
			return false;
	return true;
}

static void to_hex(const unsigned char *bytes, size_t n, char *ret)
{
	for (size_t i = 0; i < n; i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

/* ---- the key ---- */

static int key_make(const char *path, struct err *e)
{
	struct backup_key k;
	char hex[2 * sizeof k.bytes + 1], part[4096];
	INVARIANT(getrandom(&k, sizeof k, 0) == sizeof k);
	to_hex(k.bytes, sizeof k.bytes, hex);
	snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
	auto_fd int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	/* A link fails if another process was faster: its key is the one. */
	bool made = fd >= 0 && dprintf(fd, "%s\n", hex) == (int)sizeof hex && fsync(fd) == 0 &&
		    (link(part, path) == 0 || errno == EEXIST);
	int os = errno;
	unlink(part);
	return made ? 0 : err_os(e, ERRC_FILESYSTEM_ERROR, os, "make the key of backups, %s", path);
}

static bool from_hex(struct str hex, unsigned char *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned v;
		char two[3] = {0};
		if (hex.n != 2 * n)
			return false;
		memcpy(two, hex.p + 2 * i, 2);
		if (strspn(two, "0123456789abcdef") != 2 || sscanf(two, "%2x", &v) != 1)
			return false;
		ret[i] = (unsigned char)v;
	}
	return true;
}

int backup_key_load(const char *path, struct backup_key *ret, struct err *e)
{
	auto_buf struct buf text = {.wipe = true};
	struct str rest;
	if (access(path, F_OK) < 0 && errno == ENOENT && key_make(path, e) < 0)
		return -1;
	int r = fd_read_file(AT_FDCWD, path, 256, &text);
	if (r < 0)
		return err_os(e, ERRC_FILESYSTEM_ERROR, -r, "read the key of backups, %s", path);
	if (!from_hex(str_split(buf_str(&text), '\n', &rest), ret->bytes, sizeof ret->bytes))
		return err_set(e, ERRC_FILESYSTEM_ERROR, "the key of backups, %s, is not 64 hexadecimal digits", path);
	return 0;
}

static void seal(const struct backup_key *k, struct str json, char ret[BACKUP_HASH + 1])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	INVARIANT(HMAC(EVP_sha256(), k->bytes, sizeof k->bytes, (const unsigned char *)json.p, json.n, mac, &n));
	to_hex(mac, n, ret);
}

/* ---- the text ---- */

void manifest_write(const struct backup_key *k, struct str description, const struct manifest *m, struct buf *ret)
{
	auto_buf struct buf json = {0};
	char mac[BACKUP_HASH + 1];
	struct json_writer w = json_writer(&json);
	json_object_begin(&w);
	json_key(&w, "backup");
	json_raw(&w, description);
	json_key(&w, "object");
	json_object_begin(&w);
	json_member_u64(&w, "size", m->size);
	json_member_u64(&w, "bytes", m->bytes);
	json_member_cstr(&w, "sha256", m->sha256);
	json_object_end(&w);
	json_member_cstr(&w, "parentSeal", m->parent_seal);
	json_object_end(&w);
	seal(k, buf_str(&json), mac);
	buf_printf(ret, HEAD "%s\n%s\n", mac, buf_cstr(&json));
}

static bool take(const struct json *object, const char *key, size_t max, char *ret)
{
	const char *text = NULL;
	if (json_read_cstr(object, key, &text, NULL) < 0 || !text || strlen(text) > max)
		return false;
	snprintf(ret, max + 1, "%s", text);
	return true;
}

static bool take_all(const struct json *root, struct manifest *m)
{
	const struct json *b = json_get(root, "backup"), *o = json_get(root, "object");
	m->size = m->bytes = UINT64_MAX;
	json_read_u64(o, "size", 0, UINT64_MAX - 1, &m->size, NULL);
	json_read_u64(o, "bytes", 0, UINT64_MAX - 1, &m->bytes, NULL);
	return take(b, "id", BACKUP_ID_MAX, m->id) && take(b, "parent", BACKUP_ID_MAX, m->parent) &&
	       take(o, "sha256", BACKUP_HASH, m->sha256) && take(root, "parentSeal", BACKUP_HASH, m->parent_seal) &&
	       m->size != UINT64_MAX && m->bytes != UINT64_MAX;
}

int manifest_parse(const struct backup_key *k, const char *id, struct str text, struct manifest *ret, struct err *e)
{
	struct str json, head = str_split(text, '\n', &json);
	struct manifest m = {0};
	if (!str_starts(head, STR(HEAD)) || head.n != sizeof HEAD - 1 + BACKUP_HASH || !json.n ||
		json.p[json.n - 1] != '\n')
		return err_set(e, ERRC_BACKUP_RESTORE_FAILED, "the manifest of backup '%s' is damaged", id);
	json.n--;
	seal(k, json, m.seal);
	if (!str_eq_secret(str_skip(head, sizeof HEAD - 1), str_of(m.seal)))
		return err_set(e, ERRC_BACKUP_RESTORE_FAILED,
			"the manifest of backup '%s' was changed, or made with another key", id);
	auto_json struct json_doc *doc = json_parse(json, e);
	if (!doc)
		return -1;
	if (!take_all(json_root(doc), &m) || strcmp(m.id, id) != 0)
		return err_set(e, ERRC_BACKUP_RESTORE_FAILED, "the manifest of backup '%s' is of another one", id);
	buf_add_str(&m.json, json);
	*ret = m;
	return 0;
}

void manifest_free(struct manifest *m)
{
	buf_free(&m->json);
}

int manifest_fetch(struct backup_run *r, const char *id, struct manifest *ret, struct err *e)
{
	auto_buf struct buf text = {.max = BACKUP_MANIFEST_MAX};
	char name[BACKUP_NAME_MAX + 1];
	snprintf(name, sizeof name, "%s.json", id);
	if (target_get_text(r->t, name, &text, e) < 0)
		return -1;
	return manifest_parse(&r->key, id, buf_str(&text), ret, e);
}
