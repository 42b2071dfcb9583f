#include "proto/user.h"

#include <stdio.h>
#include <string.h>

enum { FIELDS = 7, NAME = 64, ID_MAX = 65535 };

/* Splits "a:b:c" into at most FIELDS parts. */
static size_t split(struct str line, struct str ret[FIELDS])
{
	size_t n = 0;
	while (n < FIELDS) {
		bool last = memchr(line.p, ':', line.n) == NULL;
		ret[n++] = str_split(line, ':', &line);
		if (last)
			break;
	}
	return n;
}

static bool to_id(struct str text, uid_t *ret)
{
	uint64_t id;
	if (!str_to_u64(text, ID_MAX, &id))
		return false;
	*ret = (uid_t)id;
	return true;
}

static bool find_user(struct str passwd, struct str who, struct user *ret, char name[NAME])
{
	uid_t number = 0;
	bool numeric = to_id(who, &number);
	for (struct str rest = passwd; rest.n;) {
		struct str f[FIELDS], line = str_split(rest, '\n', &rest);
		uid_t uid, gid;
		if (!line.n || split(line, f) < 6 || !to_id(f[2], &uid) || !to_id(f[3], &gid))
			continue;
		if (!str_eq(f[0], who) && !(numeric && uid == number))
			continue;
		ret->uid = uid;
		ret->gid = gid;
		snprintf(name, NAME, "%.*s", STR_ARG(f[0]));
		snprintf(ret->home, sizeof ret->home, "%.*s", STR_ARG(f[5]));
		return true;
	}
	ret->uid = number;
	ret->gid = 0;
	return numeric;
}

static bool find_group(struct str groups, struct str group, const char *member, struct user *ret)
{
	uid_t number;
	bool found = to_id(group, &number);
	if (found)
		ret->gid = number;
	for (struct str rest = groups; rest.n;) {
		struct str f[FIELDS], line = str_split(rest, '\n', &rest);
		uid_t gid;
		if (!line.n || split(line, f) < 4 || !to_id(f[2], &gid))
			continue;
		if (group.n && str_eq(f[0], group)) {
			ret->gid = gid;
			found = true;
		}
		for (struct str names = f[3]; !group.n && *member && names.n;)
			if (str_eq_c(str_split(names, ',', &names), member) && ret->groups_n < USER_GROUPS_MAX)
				ret->groups[ret->groups_n++] = gid;
	}
	return found;
}

int user_find(struct str passwd, struct str group, struct str who, struct user *ret, struct err *e)
{
	struct str group_name, name = str_split(who, ':', &group_name);
	char found[NAME] = "";
	struct user u = {.home = "/root"};
	if (name.n && !find_user(passwd, name, &u, found))
		return err_set(e, ERRC_VALIDATION_FAILED, "the image has no user '%.*s' in /etc/passwd", STR_ARG(name));
	if (!find_group(group, group_name, found, &u) && group_name.n)
		return err_set(
			e, ERRC_VALIDATION_FAILED, "the image has no group '%.*s' in /etc/group", STR_ARG(group_name));
	*ret = u;
	return 0;
}
