#include "warden/fuse/fuse_mounts.h"

static bool is_fuse(struct str type)
{
	return str_eq(type, STR("fuse")) || str_eq(type, STR("fuseblk")) || str_starts(type, STR("fuse."));
}

static bool is_closed(struct str type, struct str at)
{
	static const char *const types[] = {"proc", "sysfs", "devpts", "cgroup", "cgroup2", "securityfs", "debugfs"};
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_eq(type, str_of(types[i])))
			return true;
	static const char *const places[] = {"/dev", "/proc", "/sys"};
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct str place = str_of(places[i]), below = str_skip(at, place.n);
		if (str_starts(at, place) && (!below.n || below.p[0] == '/'))
			return true;
	}
	return false;
}

static void read_user(struct str options, struct fuse_mounts *ret)
{
	while (options.n) {
		struct str one = str_split(options, ',', &options);
		uint64_t n;
		if (!str_starts(one, STR("user_id=")) || !str_to_u64(str_skip(one, 8), UINT32_MAX, &n))
			continue;
		ret->has_user = true;
		ret->user = (uint32_t)n;
	}
}

/* "36 35 98:0 /root /at rw,noatime master:1 - type source options": spaces in names are written as \040. */
static void read_line(struct str line, uint64_t id, struct fuse_mounts *ret)
{
	uint64_t number;
	struct str at = {0}, rest;
	if (!str_to_u64(str_split(line, ' ', &rest), UINT64_MAX, &number))
		return;
	for (int field = 1; field <= 4; field++)
		at = str_split(rest, ' ', &rest);
	while (rest.n && !str_eq(str_split(rest, ' ', &rest), STR("-")))
		;
	struct str type = str_split(rest, ' ', &rest);
	bool fuse = is_fuse(type);
	ret->fuse += fuse;
	if (number != id)
		return;
	ret->found = true;
	ret->is_fuse = fuse;
	ret->closed = is_closed(type, at);
	str_split(rest, ' ', &rest); /* source */
	if (fuse)
		read_user(rest, ret);
}

void fuse_mounts_read(struct str mountinfo, uint64_t id, struct fuse_mounts *ret)
{
	*ret = (struct fuse_mounts){0};
	while (mountinfo.n)
		read_line(str_split(mountinfo, '\n', &mountinfo), id, ret);
}

bool fuse_mount_id(struct str fdinfo, uint64_t *ret)
{
	while (fdinfo.n) {
		struct str line = str_split(fdinfo, '\n', &fdinfo);
		if (str_starts(line, STR("mnt_id:\t")))
			return str_to_u64(str_skip(line, 8), UINT64_MAX, ret);
	}
	return false;
}
