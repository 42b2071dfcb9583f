#include <fcntl.h>

#include "base/fd.h"
#include "mover/mover.h"

static void read_db(const char *path, struct buf *ret)
{
	fd_read_file(AT_FDCWD, path, USER_DB_MAX, ret); /* an image may have none */
}

void mover_user(const char *text, struct user *ret)
{
	auto_buf struct buf passwd = {0}, group = {0};
	struct err e;
	read_db("/etc/passwd", &passwd);
	read_db("/etc/group", &group);
	if (user_find(buf_str(&passwd), buf_str(&group), str_of(text), ret, &e) < 0)
		mover_die("%s", e.msg);
}
