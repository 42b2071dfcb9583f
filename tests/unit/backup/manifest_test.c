#include "backup/backup.h"
#include "test.h"

static const struct backup_key key = {"0123456789abcdef0123456789abcdef"};
static const char description[] = "{\"id\":\"bak-0123456789abcdef\",\"parent\":\"\"}";

static void make(struct buf *ret)
{
	struct manifest m = {.size = 7, .bytes = 9};
	memset(m.sha256, 'a', BACKUP_HASH);
	manifest_write(&key, str_of(description), &m, ret);
}

static int parse(const struct backup_key *k, const char *id, struct str text)
{
	struct manifest m = {0};
	struct err e;
	int r = manifest_parse(k, id, text, &m, &e);
	manifest_free(&m);
	return r;
}

TEST(a_manifest_comes_back_as_it_was)
{
	auto_buf struct buf text = {0};
	struct manifest m;
	struct err e;
	make(&text);
	CHECK_INT(manifest_parse(&key, "bak-0123456789abcdef", buf_str(&text), &m, &e), 0);
	CHECK(m.size == 7 && m.bytes == 9 && !*m.parent && strlen(m.seal) == BACKUP_HASH);
	manifest_free(&m);
}

TEST(every_changed_byte_is_found)
{
	auto_buf struct buf text = {0};
	make(&text);
	struct str all = buf_str(&text);
	for (size_t i = 0; i < all.n; i++) {
		text.p[text.off + i] ^= 1;
		CHECK_INT(parse(&key, "bak-0123456789abcdef", all), -1);
		text.p[text.off + i] ^= 1;
	}
	for (size_t i = 0; i < all.n; i++)
		CHECK_INT(parse(&key, "bak-0123456789abcdef", str_n(all.p, i)), -1);
	CHECK_INT(parse(&key, "bak-0123456789abcdef", all), 0);
}

TEST(another_key_or_another_backup_is_refused)
{
	auto_buf struct buf text = {0};
	static const struct backup_key other = {"0123456789abcdef0123456789abcdeg"};
	make(&text);
	CHECK_INT(parse(&other, "bak-0123456789abcdef", buf_str(&text)), -1);
	CHECK_INT(parse(&key, "bak-0123456789abcdee", buf_str(&text)), -1);
}

TEST(frames_are_followed_in_pieces_of_any_size)
{
	static const char stream[] = "btrfs-stream\0\1\0\0\0\3\0\0\0\4\0crc.abc\0\0\0\0\25\0crc.";
	for (size_t piece = 1; piece < sizeof stream; piece++) {
		struct frame f = {0};
		for (size_t at = 0; at < sizeof stream - 1; at += piece) {
			CHECK(!f.ended);
			CHECK(frame_feed(
				&f, stream + at, sizeof stream - 1 - at < piece ? sizeof stream - 1 - at : piece));
		}
		CHECK(f.ended);
		CHECK(!frame_feed(&f, "x", 1));
	}
}

TEST(ids_have_one_form)
{
	CHECK(backup_id_ok(STR("bak-0123456789abcdef")));
	CHECK(!backup_id_ok(STR("bak-0123456789abcdeF")));
	CHECK(!backup_id_ok(STR("bak-0123456789abcde")));
	CHECK(!backup_id_ok(STR("bak-0123456789abcdef0")));
	CHECK(!backup_id_ok(STR("../-0123456789abcdef")));
}

TEST_MAIN()
