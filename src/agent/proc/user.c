#include "agent/proc/user.h"

#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

static struct user user;
static bool is_set;

/* The box may have put anything there: a FIFO must not hold the agent. An image may have none. */
static void read_db(const char *path, struct buf *ret)
{
	struct stat st = {0};
	auto_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > USER_DB_MAX)
		return;
	char *room = buf_room(ret, USER_DB_MAX);
	ssize_t n = room ? pread(fd, room, USER_DB_MAX, 0) : -1;
	if (n > 0)
		buf_commit(ret, (size_t)n);
}

int box_user_set(const char *who, struct err *e)
{
	auto_buf struct buf passwd = {0}, group = {0};
	struct user found;
	read_db("/etc/passwd", &passwd);
	read_db("/etc/group", &group);
	if (user_find(buf_str(&passwd), buf_str(&group), str_of(who), &found, e) < 0)
		return -1;
	user = found;
	is_set = user.uid || user.gid;
	return 0;
}

const struct user *box_user(void)
{
	return is_set ? &user : NULL;
}

int box_user_give(const char *path)
{
	return is_set && lchown(path, user.uid, user.gid) < 0 ? -errno : 0;
}

int box_user_give_fd(int fd)
{
	return is_set && fchown(fd, user.uid, user.gid) < 0 ? -errno : 0;
}

/* Without CAP_SYS_PTRACE the kernel compares the user for files with the process's. */
ssize_t box_user_readlink(const char *path, char *ret, size_t size)
{
	if (!is_set)
		return readlink(path, ret, size);
	setfsgid(user.gid);
	setfsuid(user.uid);
	ssize_t n = readlink(path, ret, size);
	int os = errno;
	setfsuid(0);
	setfsgid(0);
	errno = os;
	return n;
}

/* Not the C library's: it would change all threads of the agent, whose memory the child shares. */
int box_user_become(void)
{
	if (!is_set)
		return 0;
	if (syscall(SYS_setgroups, user.groups_n, user.groups) < 0 ||
		syscall(SYS_setresgid, user.gid, user.gid, user.gid) < 0)
		return -1;
	return (int)syscall(SYS_setresuid, user.uid, user.uid, user.uid);
}
