/*
 * What comes from a box on the way of a FUSE mount: records, options, and names in the kernel's list of mounts. The
 * first byte says which.
 */
#include <string.h>

#include "fusermount/options.h"
#include "fuzz.h"
#include "warden/fuse/fuse_mounts.h"

static void try_options(struct str text)
{
	struct fuse_ask ask = {.magic = FUSE_MAGIC, .op = FUSE_MOUNT, .path = "/m"};
	char bad[64];
	bool stays = false;
	char *copy = str_dup(text);
	bool ok = options_take(copy, &ask, &stays, bad, sizeof bad);
	MUST(fuse_text_ok(ask.source, sizeof ask.source) && fuse_text_ok(ask.subtype, sizeof ask.subtype));
	MUST(!ok || !(ask.flags & ~(uint32_t)FUSE_MOUNT_FLAGS));
	free(copy);
}

static void try_record(struct str bytes)
{
	static struct fuse_ask ask;
	memset(&ask, 0, sizeof ask);
	memcpy(&ask, bytes.p, bytes.n < sizeof ask ? bytes.n : sizeof ask);
	if (!fuse_ask_ok(&ask))
		return;
	MUST(strlen(ask.path) < sizeof ask.path && ask.path[0] == '/');
	MUST(!strpbrk(ask.subtype, ", \\\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = str_n(data, size);
	struct fuse_mounts m;
	uint64_t id;
	if (!size)
		return 0;
	rest = str_skip(rest, 1);
	if (data[0] % 4 == 0) {
		try_options(rest);
	} else if (data[0] % 4 == 1) {
		try_record(rest);
	} else if (data[0] % 4 == 2) {
		fuse_mounts_read(rest, 36, &m);
		MUST(m.found || (!m.is_fuse && !m.has_user && !m.closed));
		MUST(!m.is_fuse || m.fuse);
	} else {
		fuse_mount_id(rest, &id);
	}
	return 0;
}
