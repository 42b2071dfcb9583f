#include "daemon/admit/secret_text.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/base.h"

void secret_text(char ret[SECRET_TEXT_LEN + 1])
{
	static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char bytes[SECRET_TEXT_LEN];
	INVARIANT(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
	for (size_t i = 0; i < sizeof bytes; i++)
		ret[i] = letters[bytes[i] % 32];
	ret[SECRET_TEXT_LEN] = 0;
}

void secret_hash(struct str secret, char ret[SECRET_HASH_LEN + 1])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	SHA256((const unsigned char *)secret.p, secret.n, digest);
	for (size_t i = 0; i < sizeof digest; i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}
