#include "proto/user.h"
#include "test.h"

#define PASSWD "root:x:0:0::/root:/bin/sh\nbroken\nnode:x:1000:1001::/home/node:\nbig:x:99999999:0::/:/\nlast:x:7:7::/l"
#define GROUP  "root:x:0:\nnode:x:1001:\naudio:x:29:other,node\nvideo:x:44:node"

static int find(const char *who, struct user *ret)
{
	struct err e;
	return user_find(STR(PASSWD), STR(GROUP), str_of(who), ret, &e);
}

TEST(names_and_numbers_are_found)
{
	struct user u;
	CHECK_INT(find("", &u), 0);
	CHECK(u.uid == 0 && u.gid == 0 && strcmp(u.home, "/root") == 0);
	CHECK_INT(find("node", &u), 0);
	CHECK(u.uid == 1000 && u.gid == 1001 && u.groups_n == 2 && u.groups[0] == 29 && u.groups[1] == 44);
	CHECK(strcmp(u.home, "/home/node") == 0);
	CHECK_INT(find("1000", &u), 0);
	CHECK(u.uid == 1000 && u.gid == 1001 && u.groups_n == 2);
	CHECK_INT(find("4242", &u), 0);
	CHECK(u.uid == 4242 && u.gid == 0 && u.groups_n == 0);
	CHECK_INT(find("node:audio", &u), 0);
	CHECK(u.uid == 1000 && u.gid == 29 && u.groups_n == 0);
	CHECK_INT(find("last:9", &u), 0);
	CHECK(u.uid == 7 && u.gid == 9);
}

TEST(a_name_that_is_not_there_is_told)
{
	struct user u;
	struct err e;
	CHECK_INT(find("broken", &u), -1);
	CHECK_INT(find("big", &u), -1);
	CHECK_INT(find("65536", &u), -1);
	CHECK_INT(user_find(STR(PASSWD), STR(GROUP), STR("node:nobody"), &u, &e), -1);
	CHECK(strcmp(e.msg, "the image has no group 'nobody' in /etc/group") == 0);
}

TEST(an_image_without_the_files_has_numbers)
{
	struct user u;
	struct err e;
	CHECK_INT(user_find(STR(""), STR(""), STR("5:6"), &u, &e), 0);
	CHECK(u.uid == 5 && u.gid == 6);
	CHECK_INT(user_find(STR(""), STR(""), STR("root"), &u, &e), -1);
}

TEST_MAIN()
