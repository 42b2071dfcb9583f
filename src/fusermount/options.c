#include "fusermount/options.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPTION_MAX = FUSE_SOURCE + 64 };

static const struct {
	const char *name;
	uint32_t set, clear;
} flags[] = {
	{"ro", FUSE_READ_ONLY, 0},
	{"rw", 0, FUSE_READ_ONLY},
	{"noexec", FUSE_NO_EXEC, 0},
	{"exec", 0, FUSE_NO_EXEC},
	{"noatime", FUSE_NO_ATIME, 0},
	{"atime", 0, FUSE_NO_ATIME},
	{"nodiratime", FUSE_NO_DIRATIME, 0},
	{"diratime", 0, FUSE_NO_DIRATIME},
	{"sync", FUSE_SYNC, 0},
	{"async", 0, FUSE_SYNC},
	{"allow_other", FUSE_ALLOW_OTHER, 0},
	{"default_permissions", FUSE_DEFAULT_PERMISSIONS, 0},
	/* Always so, or without a meaning for today's kernels. */
	{"nosuid", 0, 0},
	{"nodev", 0, 0},
	{"nonempty", 0, 0},
	{"large_read", 0, 0},
	{"relatime", 0, 0},
	{"defaults", 0, 0},
};

/* What the warden decides; other programs of this name take them out as well. */
static const char *const ignored[] = {"fd=", "rootmode=", "user_id=", "group_id=", "user=", "blksize="};

static bool copy(char *to, size_t size, const char *value)
{
	size_t n = strlen(value);
	if (n >= size)
		return false;
	memset(to, 0, size);
	memcpy(to, value, n);
	return true;
}

static bool take_number(const char *value, uint32_t *ret)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);
	if (!*value || *value == '-' || *end || n > UINT32_MAX)
		return false;
	*ret = (uint32_t)n;
	return true;
}

static bool take_one(const char *option, struct fuse_ask *ask, bool *auto_unmount)
{
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (strcmp(option, flags[i].name) == 0) {
			ask->flags = (ask->flags | flags[i].set) & ~flags[i].clear;
			return true;
		}
	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
		if (strncmp(option, ignored[i], strlen(ignored[i])) == 0)
			return true;
	if (strcmp(option, "auto_unmount") == 0)
		return *auto_unmount = true;
	if (strncmp(option, "fsname=", 7) == 0)
		return copy(ask->source, sizeof ask->source, option + 7);
	if (strncmp(option, "subtype=", 8) == 0)
		return copy(ask->subtype, sizeof ask->subtype, option + 8);
	if (strncmp(option, "max_read=", 9) == 0)
		return take_number(option + 9, &ask->max_read);
	return false;
}

bool options_take(const char *text, struct fuse_ask *ask, bool *ret_auto_unmount, char *ret_bad, size_t bad_size)
{
	char option[OPTION_MAX];
	while (*text) {
		size_t n = 0;
		bool fits = true;
		for (; *text && *text != ','; text++) {
			if (*text == '\\' && text[1])
				text++;
			fits = n + 1 < sizeof option;
			if (fits)
				option[n++] = *text;
			else
				break;
		}
		option[n] = 0;
		if (!fits || (n && !take_one(option, ask, ret_auto_unmount))) {
			snprintf(ret_bad, bad_size, "%s", option);
			return false;
		}
		text += *text == ',';
	}
	return true;
}
