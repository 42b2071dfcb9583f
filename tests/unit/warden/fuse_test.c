/*
 * The records of FUSE mounts, and the kernel's list of mounts that decides about them.
 */
#include "proto/fuse.h"
#include "test.h"
#include "warden/fuse/fuse_mounts.h"

static const char list[] = "787 1 0:64 / / rw,nosuid,nodev,relatime - overlay overlay rw,lowerdir=x\n"
			   "788 787 0:65 / /proc ro,nosuid - proc proc rw\n"
			   "789 788 0:66 /null /proc/kcore ro,nosuid - tmpfs tmpfs rw\n"
			   "790 787 0:66 / /dev ro,nosuid - tmpfs tmpfs rw\n"
			   "791 790 0:66 /shm /dev/shm rw - tmpfs tmpfs rw\n"
			   "1216 787 0:264 / /tmp/a\\040b rw,nosuid,nodev,relatime shared:1 master:2 - fuse.sshfs "
			   "me@\\054:- rw,user_id=1000,group_id=0\n"
			   "1217 787 0:265 / /developer rw - fuse x rw,user_id=0\n"
			   "1218 787 0:266 / /f rw - fusectl x rw\n"
			   "nonsense\n"
			   "1219 787 0:267 / /cut - fuse";

static struct fuse_mounts look(uint64_t id)
{
	struct fuse_mounts m;
	fuse_mounts_read(STR(list), id, &m);
	return m;
}

TEST(fuse_mounts_are_counted)
{
	CHECK_INT(look(787).fuse, 3);
}

TEST(a_mount_is_found_by_its_number_with_its_user)
{
	CHECK(look(1216).found && look(1216).is_fuse && look(1216).has_user && !look(1216).closed);
	CHECK_INT(look(1216).user, 1000);
	CHECK(look(1217).is_fuse && look(1217).has_user);
	CHECK(!look(1218).is_fuse);
	CHECK(look(787).found && !look(787).is_fuse && !look(787).has_user);
	CHECK(!look(5).found);
	CHECK(look(1219).is_fuse && !look(1219).has_user);
}

TEST(the_kernels_own_places_are_closed)
{
	CHECK(look(788).closed && look(789).closed && look(790).closed && look(791).closed);
	CHECK(!look(787).closed && !look(1217).closed);
}

TEST(the_number_of_a_descriptors_mount_is_read)
{
	uint64_t id = 0;
	CHECK(fuse_mount_id(STR("pos:\t0\nflags:\t010000000\nmnt_id:\t1216\nino:\t1\n"), &id));
	CHECK_INT(id, 1216);
	CHECK(!fuse_mount_id(STR("pos:\t0\nmnt_id:\t\n"), &id));
	CHECK(!fuse_mount_id(STR(""), &id));
}

static struct fuse_ask good(void)
{
	struct fuse_ask a = {.magic = FUSE_MAGIC, .op = FUSE_MOUNT, .flags = FUSE_MOUNT_FLAGS};
	snprintf(a.path, sizeof a.path, "/tmp/m");
	snprintf(a.subtype, sizeof a.subtype, "s3fs");
	return a;
}

TEST(a_record_is_taken_only_in_its_form)
{
	struct fuse_ask a = good();
	CHECK(fuse_ask_ok(&a));
	a.magic++;
	CHECK(!fuse_ask_ok(&a));
	a = good();
	a.op = 3;
	CHECK(!fuse_ask_ok(&a));
	a = good();
	a.flags |= FUSE_LAZY;
	CHECK(!fuse_ask_ok(&a));
	a.op = FUSE_UNMOUNT;
	a.flags = FUSE_LAZY;
	CHECK(fuse_ask_ok(&a));
	a.flags |= FUSE_READ_ONLY;
	CHECK(!fuse_ask_ok(&a));
	a = good();
	a.path[0] = 'x';
	CHECK(!fuse_ask_ok(&a));
	a = good();
	a.path[100] = 'x'; /* behind the end */
	CHECK(!fuse_ask_ok(&a));
	a = good();
	memset(a.path, '/', sizeof a.path);
	CHECK(!fuse_ask_ok(&a));
	a.path[sizeof a.path - 1] = 0;
	CHECK(fuse_ask_ok(&a));
	a = good();
	a.subtype[1] = ',';
	CHECK(!fuse_ask_ok(&a));
}

TEST_MAIN()
