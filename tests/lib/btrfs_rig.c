#include "btrfs_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static char dir[] = "/tmp/atoll-btrfs-test-XXXXXX";
static char file[64], mnt[64], beside[64];
static int fs = -1;

static void run(const char *const *argv, const char *what)
{
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		TEST_SKIP(what);
	CHECK_INT(status, 0);
}

static void clean(void)
{
	close(fs);
	umount2(mnt, MNT_DETACH);
	unlink(file);
	rmdir(mnt);
	run((const char *const[]){"rm", "-rf", dir, NULL}, "no rm");
}

int btrfs_rig(void)
{
	if (geteuid() != 0)
		TEST_SKIP("not root: cannot mount btrfs");
	CHECK(mkdtemp(dir));
	snprintf(file, sizeof file, "%s/img", dir);
	snprintf(mnt, sizeof mnt, "%s/mnt", dir);
	snprintf(beside, sizeof beside, "%s/beside", dir);
	CHECK_INT(mkdir(mnt, 0700), 0);
	CHECK_INT(mkdir(beside, 0700), 0);
	atexit(clean);
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(ftruncate(fd, 512 << 20), 0);
	close(fd);
	run((const char *const[]){"mkfs.btrfs", "-q", "-m", "single", file, NULL}, "no mkfs.btrfs (btrfs-progs)");
	run((const char *const[]){"mount", "-o", "loop", file, mnt, NULL}, "no mount(8)");
	fs = open(mnt, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fs >= 0);
	return fs;
}

const char *btrfs_rig_path(void)
{
	return mnt;
}

const char *btrfs_rig_beside(void)
{
	return beside;
}

int btrfs_rig_open(int in, const char *name)
{
	int fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

size_t btrfs_rig_fill(int in, const char *name, size_t want)
{
	static char block[1 << 16];
	memset(block, 'x', sizeof block);
	int fd = openat(in, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	size_t done = 0;
	CHECK(fd >= 0);
	while (done < want) {
		ssize_t n = write(fd, block, sizeof block);
		if (n < 0) {
			CHECK(errno == EDQUOT || errno == ENOSPC);
			break;
		}
		done += (size_t)n;
	}
	fsync(fd);
	close(fd);
	return done;
}
