/*
 * user.h - a user of an image, by the text of its /etc/passwd and /etc/group: `USER` of a build and of boxes.
 *
 * Both texts are the image's and hostile: lines that are not well-formed are left out. Pure: no file is read here.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "proto/errc.h"

enum { USER_GROUPS_MAX = 64 };
#define USER_DB_MAX (1024u * 1024) /* of /etc/passwd and /etc/group */

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[USER_GROUPS_MAX]; /* further ones, when no group is named */
	size_t groups_n;
	char home[256];
};

/* "", "name", "1000", "name:group", "1000:1000". A number needs no line. -1: VALIDATION_FAILED with the missing name.
 */
int user_find(struct str passwd, struct str group, struct str who, struct user *ret, struct err *e);
