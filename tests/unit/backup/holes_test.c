#include "backup/holes.h"
#include "proto/stream.h"
#include "test.h"

#include <stdlib.h>

/* A stream that is written by hand, fed in pieces, and what comes out. */
static char bytes[1 << 20], out[1 << 20];
static size_t n, out_n, head;

static void put(const void *p, size_t size)
{
	memcpy(bytes + n, p, size);
	n += size;
}

static void put16(unsigned v)
{
	unsigned char b[2] = {(unsigned char)v, (unsigned char)(v >> 8)};
	put(b, 2);
}

static void command(unsigned number)
{
	head = n;
	put("\0\0\0\0", 4);
	put16(number);
	put("\0\0\0\0", 4);
}

static void attribute(unsigned type, const void *p, size_t size)
{
	put16(type);
	put16((unsigned)size);
	put(p, size);
	unsigned length = (unsigned)(n - head - STREAM_COMMAND_HEAD);
	memcpy(bytes + head, &length, 4);
}

static void begin(unsigned first)
{
	n = out_n = 0;
	put("btrfs-stream\0\1\0\0\0", STREAM_HEAD);
	command(first);
	attribute(STREAM_A_PATH, "layer", 5);
}

static void write_at(const char *path, uint64_t at, char byte, size_t size)
{
	static char data[60000];
	memset(data, byte, size);
	command(STREAM_C_WRITE);
	attribute(STREAM_A_PATH, path, strlen(path));
	attribute(STREAM_A_FILE_OFFSET, &at, sizeof at);
	attribute(STREAM_A_DATA, data, size);
}

static int on_bytes(void *arg, const char *p, size_t size, struct err *e)
{
	(void)arg;
	(void)e;
	memcpy(out + out_n, p, size);
	out_n += size;
	return 0;
}

static int feed(size_t piece, uint64_t *ret_zeros)
{
	struct holes *h = calloc(1, sizeof *h);
	struct err e;
	int r = 0;
	h->on_bytes = on_bytes;
	out_n = 0;
	command(STREAM_C_END);
	for (size_t at = 0; r == 0 && at < n; at += piece)
		r = holes_feed(h, bytes + at, n - at < piece ? n - at : piece, &e);
	*ret_zeros = h->zeros;
	free(h);
	return r;
}

/* Numbers of the commands that came out, as letters. */
static const char *commands(void)
{
	static char ret[64];
	size_t count = 0;
	for (size_t at = STREAM_HEAD; at < out_n;) {
		uint32_t size;
		memcpy(&size, out + at, 4);
		ret[count++] = (char)('a' + out[at + 4]);
		at += STREAM_COMMAND_HEAD + size;
		CHECK(at <= out_n);
	}
	ret[count] = 0;
	return ret;
}

#define SNAP  "c" /* STREAM_C_SNAPSHOT */
#define WRITE "p" /* STREAM_C_WRITE */
#define PUNCH "x" /* STREAM_C_PUNCH */
#define END   "v"

TEST(zeros_of_a_known_file_become_one_hole)
{
	uint64_t zeros;
	for (size_t piece = 1; piece < 200000; piece = piece * 7 + 1) {
		begin(STREAM_C_SNAPSHOT);
		write_at("f", 4096, 0, 49152);
		write_at("f", 4096 + 49152, 0, 49152);
		write_at("f", 4096 + 2 * 49152, 0, 100); /* the end of the file, shorter than a block */
		write_at("f", 200000, 'x', 4096);
		CHECK_INT(feed(piece, &zeros), 0);
		CHECK_STR(str_of(commands()), SNAP PUNCH WRITE END);
		CHECK_INT(zeros, 2 * 49152 + 100);
	}
}

TEST(zeros_that_do_not_follow_each_other_are_holes_of_their_own)
{
	uint64_t zeros;
	begin(STREAM_C_SNAPSHOT);
	write_at("f", 0, 0, 4096);
	write_at("f", 8192, 0, 4096);
	write_at("g", 12288, 0, 4096);
	CHECK_INT(feed(4096, &zeros), 0);
	CHECK_STR(str_of(commands()), SNAP PUNCH PUNCH PUNCH END);
}

TEST(few_zeros_and_other_bytes_stay)
{
	uint64_t zeros;
	begin(STREAM_C_SNAPSHOT);
	write_at("f", 0, 0, 4095);
	write_at("f", 8192, 'y', 49152);
	CHECK_INT(feed(4096, &zeros), 0);
	CHECK_STR(str_of(commands()), SNAP WRITE WRITE END);
	CHECK_INT(out_n, n);
	CHECK(memcmp(out, bytes, n) == 0);
}

TEST(whole_streams_and_new_files_keep_their_zeros)
{
	uint64_t zeros;
	begin(STREAM_C_SUBVOL);
	write_at("f", 0, 0, 49152);
	CHECK_INT(feed(4096, &zeros), 0);
	CHECK_INT(zeros, 0);
	begin(STREAM_C_SNAPSHOT);
	command(STREAM_C_MKFILE);
	attribute(STREAM_A_PATH, "o257-7-0", 8);
	command(STREAM_C_RENAME);
	attribute(STREAM_A_PATH, "o257-7-0", 8);
	attribute(STREAM_A_PATH_TO, "new", 3);
	write_at("new", 0, 0, 49152);
	write_at("old", 0, 0, 49152);
	CHECK_INT(feed(4096, &zeros), 0);
	CHECK_INT(zeros, 49152);
}

TEST(a_command_may_be_as_long_as_the_limit_and_no_longer)
{
	uint64_t zeros;
	uint32_t size = BACKUP_COMMAND_MAX - STREAM_COMMAND_HEAD;
	begin(STREAM_C_SNAPSHOT);
	command(STREAM_C_CHMOD);
	memcpy(bytes + head, &size, 4);
	n += size;
	CHECK_INT(feed(65536, &zeros), 0);
	begin(STREAM_C_SNAPSHOT);
	command(STREAM_C_CHMOD);
	size++;
	memcpy(bytes + head, &size, 4);
	n += size;
	CHECK_INT(feed(65536, &zeros), -1);
}

TEST(broken_writes_are_handed_on)
{
	uint64_t zeros, at = UINT64_MAX - 10;
	char path[BACKUP_PATH_MAX + 2];
	begin(STREAM_C_SNAPSHOT);
	write_at("f", at, 0, 4096); /* past the longest file */
	command(STREAM_C_WRITE);    /* nothing in it */
	command(STREAM_C_WRITE);    /* an attribute that is longer than the command */
	put("\17\0\377\377", 4);
	uint32_t size = 4;
	memcpy(bytes + head, &size, 4);
	memset(path, 'p', sizeof path);
	path[BACKUP_PATH_MAX + 1] = 0;
	write_at(path, 0, 0, 4096); /* a path that no file has */
	size_t all = n + STREAM_COMMAND_HEAD;
	CHECK_INT(feed(4096, &zeros), 0);
	CHECK_INT(zeros, 0);
	CHECK_INT(out_n, all);
}

TEST_MAIN()
