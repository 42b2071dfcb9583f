#include <openssl/evp.h>
#include <stdio.h>
#include <unistd.h>

#include "images/images.h"

void digest_hex(const unsigned char *digest, char ret[IMAGE_HEX + 1])
{
	for (int i = 0; i < IMAGE_HEX / 2; i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

void digest_of(struct str bytes, char ret[IMAGE_HEX + 1])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	INVARIANT(EVP_Digest(bytes.p, bytes.n, digest, NULL, EVP_sha256(), NULL) == 1);
	digest_hex(digest, ret);
}

int digest_file(int fd, uint64_t offset, uint64_t size, char ret[IMAGE_HEX + 1], struct err *e)
{
	static char piece[1 << 18];
	unsigned char digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	INVARIANT(ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
	while (size) {
		ssize_t n = pread(fd, piece, size < sizeof piece ? (size_t)size : sizeof piece, (off_t)offset);
		if (n <= 0)
			break;
		EVP_DigestUpdate(ctx, piece, (size_t)n);
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	EVP_DigestFinal_ex(ctx, digest, NULL);
	EVP_MD_CTX_free(ctx);
	if (size)
		return err_set(e, ERRC_INVALID_REQUEST, "the archive is cut off");
	digest_hex(digest, ret);
	return 0;
}
