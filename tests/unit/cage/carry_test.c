#include "cage/pool/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cage/limits.h"
#include "dir_rig.h"
#include "test.h"

static int from, to;

static void scene(void)
{
	static const char why[] = "not root: cannot make devices and owners";
	from = dir_rig("from", why);
	to = dir_rig("to", why);
}

static int put(const char *name, const char *text)
{
	int fd = openat(from, name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static struct stat look(int dir, const char *name)
{
	struct stat st;
	CHECK_INT(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

TEST(owners_modes_times_and_attributes_come_along)
{
	scene();
	const struct timespec times[2] = {{1000, 1}, {2000, 123456789}};
	int fd = put("f", "text");
	CHECK_INT(fchown(fd, 1234, 5678), 0);
	CHECK_INT(fchmod(fd, 06755), 0);
	CHECK_INT(fsetxattr(fd, "trusted.overlay.origin", "x", 1, 0), 0);
	CHECK_INT(futimens(fd, times), 0);
	CHECK_INT(mkdirat(from, "d", 01777), 0);
	CHECK_INT(fchmodat(from, "d", 01777, 0), 0);
	CHECK_INT(carry_tree(from, to), 0);
	struct stat st = look(to, "f");
	CHECK(st.st_uid == 1234 && st.st_gid == 5678 && (st.st_mode & 07777) == 06755 && st.st_size == 4);
	CHECK(st.st_mtim.tv_sec == 2000 && st.st_mtim.tv_nsec == 123456789);
	CHECK_INT(look(to, "d").st_mode & 07777, 01777);
	char value[8];
	int copy = openat(to, "f", O_RDONLY);
	CHECK_INT(fgetxattr(copy, "trusted.overlay.origin", value, sizeof value), 1);
	close(copy);
	close(fd);
}

TEST(links_pipes_whiteouts_and_holes_stay_what_they_are)
{
	scene();
	char target[16] = "";
	int fd = put("a", "one");
	CHECK_INT(linkat(from, "a", from, "b", 0), 0);
	CHECK_INT(symlinkat("/etc/passwd", from, "l"), 0);
	CHECK_INT(mkfifoat(from, "p", 0600), 0);
	CHECK_INT(mknodat(from, "w", S_IFCHR | 0600, makedev(0, 0)), 0);
	int hole = put("hole", "begin");
	CHECK_INT(ftruncate(hole, 64 << 20), 0);
	CHECK_INT(carry_tree(from, to), 0);
	CHECK_INT(look(to, "a").st_ino, look(to, "b").st_ino);
	CHECK_INT(look(to, "a").st_nlink, 2);
	CHECK_INT(readlinkat(to, "l", target, sizeof target), strlen("/etc/passwd"));
	CHECK(S_ISFIFO(look(to, "p").st_mode));
	CHECK(S_ISCHR(look(to, "w").st_mode) && look(to, "w").st_rdev == makedev(0, 0));
	CHECK_INT(look(to, "hole").st_size, 64 << 20);
	CHECK(look(to, "hole").st_blocks < 2048);
	close(fd);
	close(hole);
}

/* Directories in each other, so many below `from`. */
static void nest(unsigned depth)
{
	int at = dup(from);
	for (unsigned i = 0; i < depth; i++) {
		CHECK_INT(mkdirat(at, "d", 0755), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(at);
		at = next;
	}
	close(at);
}

TEST(the_deepest_tree_is_copied)
{
	scene();
	nest(CARRY_DEPTH_MAX - 1); /* the root of the layer is one of them */
	CHECK_INT(carry_tree(from, to), 0);
}

TEST(a_deeper_tree_is_refused)
{
	scene();
	nest(CARRY_DEPTH_MAX);
	CHECK_INT(carry_tree(from, to), -ELOOP);
}

TEST_MAIN()
