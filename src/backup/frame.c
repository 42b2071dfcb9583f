#include <string.h>

#include "backup/backup.h"
#include "proto/stream.h"

static unsigned byte(const struct frame *f, size_t i)
{
	return (unsigned char)f->head[i];
}

/* A whole head is there. */
static void take_head(struct frame *f)
{
	f->have = 0;
	if (!f->begun) {
		f->begun = true;
		f->bad = memcmp(f->head, "btrfs-stream", STREAM_MAGIC) != 0;
		return;
	}
	f->skip = byte(f, 0) | byte(f, 1) << 8 | byte(f, 2) << 16 | (uint64_t)byte(f, 3) << 24;
	f->ended = (byte(f, 4) | byte(f, 5) << 8) == STREAM_C_END;
	f->bad = f->ended && f->skip != 0;
}

bool frame_feed(struct frame *f, const char *p, size_t n)
{
	while (n && !f->bad) {
		if (f->ended)
			f->bad = true;
		size_t part = f->skip < n ? (size_t)f->skip : n;
		f->skip -= part;
		p += part;
		n -= part;
		size_t want = f->begun ? STREAM_COMMAND_HEAD : STREAM_HEAD;
		part = want - f->have < n ? want - f->have : n;
		memcpy(f->head + f->have, p, part);
		f->have += part;
		p += part;
		n -= part;
		if (f->have == want)
			take_head(f);
	}
	return !f->bad;
}
