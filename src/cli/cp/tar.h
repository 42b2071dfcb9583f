/*
 * tar.h - the header of a tar entry (GNU's format: names of any length through 'L' and 'K' entries, sizes in base 256).
 */
#pragma once

#include "base/base.h"

enum { TAR_BLOCK = 512, TAR_NAME = 100, TAR_LONG_MAX = 64 * 1024 };

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
	char type;
	char link[100], magic[8], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a tar header is one block");

static inline unsigned tar_checksum(const struct tar_header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof *h; i++) {
		bool own = i >= offsetof(struct tar_header, checksum) && i < offsetof(struct tar_header, type);
		sum += own ? ' ' : p[i];
	}
	return sum;
}

/* Bytes from n up to a whole block. */
static inline uint64_t tar_padding(uint64_t n)
{
	return (TAR_BLOCK - n % TAR_BLOCK) % TAR_BLOCK;
}
