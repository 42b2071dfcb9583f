#include "dir_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

/* Not in /tmp, which may be a tmpfs without trusted attributes. */
static char on_disk[] = "/var/tmp/atoll-test-XXXXXX", in_memory[] = "/dev/shm/atoll-test-XXXXXX";
static char *root = on_disk;

static void clean(void)
{
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s", root);
	if (system(command) != 0)
		perror("rm");
}

static void begin(const char *why)
{
	static bool begun;
	if (geteuid() != 0)
		TEST_SKIP(why);
	if (begun)
		return;
	begun = true;
	CHECK(mkdtemp(root));
	atexit(clean);
}

void dir_rig_in_memory(void)
{
	root = in_memory;
}

int dir_rig(const char *name, const char *why)
{
	char path[128];
	begin(why);
	snprintf(path, sizeof path, "%s/%s", root, name);
	CHECK_INT(mkdir(path, 0755), 0);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}
