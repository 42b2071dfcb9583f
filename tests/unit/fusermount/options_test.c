#include "fusermount/options.h"

#include <stdlib.h>

#include "test.h"

static struct fuse_ask ask;
static bool stays;
static char bad[64];

static bool take(const char *text)
{
	ask = (struct fuse_ask){.magic = FUSE_MAGIC};
	stays = false;
	bad[0] = 0;
	return options_take(text, &ask, &stays, bad, sizeof bad);
}

TEST(what_libfuse_and_its_programs_write_is_understood)
{
	CHECK(take("rw,nosuid,nodev,subtype=squashfuse"));
	CHECK_INT(ask.flags, 0);
	CHECK_CSTR(ask.subtype, "squashfuse");
	CHECK(take("ro,fsname=s3fs,allow_other,default_permissions,max_read=131072,auto_unmount,noatime,noexec"));
	CHECK_INT(
		ask.flags, FUSE_READ_ONLY | FUSE_ALLOW_OTHER | FUSE_DEFAULT_PERMISSIONS | FUSE_NO_ATIME | FUSE_NO_EXEC);
	CHECK_INT(ask.max_read, 131072);
	CHECK_CSTR(ask.source, "s3fs");
	CHECK(stays);
	CHECK(take(",,"));
	CHECK(take(""));
}

TEST(a_backslash_takes_the_next_character_as_it_is)
{
	CHECK(take("fsname=a\\,b\\\\c,ro"));
	CHECK_CSTR(ask.source, "a,b\\c");
	CHECK_INT(ask.flags, FUSE_READ_ONLY);
}

TEST(the_last_of_two_opposites_counts)
{
	CHECK(take("ro,rw"));
	CHECK_INT(ask.flags, 0);
	CHECK(take("rw,ro"));
	CHECK_INT(ask.flags, FUSE_READ_ONLY);
}

TEST(what_the_warden_decides_is_left_out)
{
	CHECK(take("fd=7,rootmode=40000,user_id=0,group_id=0"));
	CHECK_INT(ask.uid, 0);
}

TEST(what_is_not_known_is_named)
{
	CHECK(!take("ro,suid"));
	CHECK_CSTR(bad, "suid");
	CHECK(!take("dev"));
	CHECK(!take("max_read=-1"));
	CHECK(!take("max_read=99999999999"));
	CHECK(!take("max_read="));
}

TEST(texts_have_limits)
{
	char text[FUSE_SOURCE + 100] = "fsname=";
	memset(text + 7, 'x', FUSE_SOURCE - 1);
	CHECK(take(text));
	CHECK_INT(strlen(ask.source), FUSE_SOURCE - 1);
	text[7 + FUSE_SOURCE - 1] = 'x';
	CHECK(!take(text));
	memset(text + 7, 'x', sizeof text - 8);
	CHECK(!take(text));
}

TEST_MAIN()
