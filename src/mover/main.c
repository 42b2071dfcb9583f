#include <linux/landlock.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/mover.h"

_Noreturn void mover_die(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("atoll-mover: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

/* Nothing here executes, binds or connects. Kernels without Landlock leave it to the box. */
static void restrict_self(void)
{
	const struct landlock_ruleset_attr rules = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
				     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SOCK};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
	if (fd < 0)
		return;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_landlock_restrict_self, fd, 0);
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
		bool restricted;
	} verbs[] = {{"unpack", mover_unpack, true}, {"pack", mover_pack, true}, {"run", mover_run, false},
		{"mkdir", mover_mkdir, true}, {"packages", mover_packages, true}};
	if (argc > 1 && strchr(argv[0], '/'))
		unlink(argv[0]);
	umask(0);
	for (size_t i = 0; argc > 1 && i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		if (verbs[i].restricted)
			restrict_self();
		return verbs[i].run(argc - 2, argv + 2);
	}
	mover_die("unknown work; the image service starts this program");
}
