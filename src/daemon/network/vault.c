#include "daemon/network/vault.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>

#include "base/base64.h"
#include "base/fd.h"

enum { NONCE = 12, TAG = 16 };

static int read_key(const char *path, struct vault *v, struct err *e)
{
	auto_buf struct buf b = {.max = VAULT_KEY, .wipe = true};
	int r = fd_read_file(AT_FDCWD, path, VAULT_KEY, &b);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, -r, "read the key of secrets from %s", path);
	if (buf_size(&b) != VAULT_KEY)
		return err_set(
			e, ERRC_INTERNAL_ERROR, "%s is not a key of %d bytes: put the right one back", path, VAULT_KEY);
	memcpy(v->key, buf_str(&b).p, VAULT_KEY);
	return 1;
}

int vault_open(const char *dir, struct vault **ret, struct err *e)
{
	char path[4096];
	struct vault *v = xcalloc(1, sizeof *v);
	snprintf(path, sizeof path, "%s/secrets.key", dir);
	int r = read_key(path, v, e);
	if (r == 0) {
		r = RAND_bytes(v->key, VAULT_KEY) == 1 ? fd_replace_file(AT_FDCWD, path, str_n(v->key, VAULT_KEY), 0600)
						       : -EIO;
		if (r < 0)
			err_os(e, ERRC_INTERNAL_ERROR, -r, "write the key of secrets to %s", path);
	}
	if (r < 0) {
		free(v);
		return -1;
	}
	*ret = v;
	return 0;
}

/* One pass of GCM; `tag` is made when sealing and checked when not. */
static bool crypt_text(const struct vault *v, const char *name, bool seal, const unsigned char *nonce, struct str in,
	unsigned char *out, unsigned char *tag)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int n = 0, last = 0;
	bool ok = c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, v->key, nonce, seal) == 1 &&
		  EVP_CipherUpdate(c, NULL, &n, (const unsigned char *)name, (int)strlen(name)) == 1 &&
		  EVP_CipherUpdate(c, out, &n, (const unsigned char *)in.p, (int)in.n) == 1;
	if (ok && !seal)
		ok = EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1;
	ok = ok && EVP_CipherFinal_ex(c, out + n, &last) == 1;
	if (ok && seal)
		ok = EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, tag) == 1;
	EVP_CIPHER_CTX_free(c);
	return ok;
}

int vault_seal(const struct vault *v, const char *name, struct str text, struct buf *ret, struct err *e)
{
	auto_buf struct buf raw = {0};
	unsigned char *p = (unsigned char *)buf_room(&raw, NONCE + text.n + TAG);
	if (!p || RAND_bytes(p, NONCE) != 1 || !crypt_text(v, name, true, p, text, p + NONCE, p + NONCE + text.n))
		return err_set(e, ERRC_INTERNAL_ERROR, "the secret could not be encrypted");
	buf_commit(&raw, NONCE + text.n + TAG);
	base64_append(ret, buf_str(&raw));
	return 0;
}

int vault_unseal(const struct vault *v, const char *name, struct str sealed, struct buf *ret, struct err *e)
{
	auto_buf struct buf raw = {0};
	struct base64_decoder d = {0};
	bool ok = base64_decode(&d, sealed, &raw) && base64_finish(&d) && buf_size(&raw) >= NONCE + TAG;
	size_t n = ok ? buf_size(&raw) - NONCE - TAG : 0;
	unsigned char *p = (unsigned char *)raw.p + raw.off;
	char *out = ok ? buf_room(ret, n + 1) : NULL;
	if (!out || !crypt_text(v, name, false, p, str_n(p + NONCE, n), (unsigned char *)out, p + NONCE + n))
		return err_set(
			e, ERRC_INTERNAL_ERROR, "the secret '%s' cannot be decrypted with this daemon's key", name);
	buf_commit(ret, n);
	return 0;
}

void vault_derive(const struct vault *v, struct str text, char ret[33])
{
	unsigned char raw[32];
	unsigned n = sizeof raw;
	HMAC(EVP_sha256(), v->key, VAULT_KEY, (const unsigned char *)text.p, text.n, raw, &n);
	for (size_t i = 0; i < 16; i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
}
