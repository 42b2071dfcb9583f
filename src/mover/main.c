#include <fcntl.h>
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

/* Nothing here executes, binds or connects. Kernels without Landlock leave it to the box, and so do those whose
 * Landlock forbids hard links between directories whatever a ruleset says (before 5.19): images have such links. */
static void restrict_self(void)
{
	const struct landlock_ruleset_attr rules = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
				     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SOCK |
				     LANDLOCK_ACCESS_FS_REFER};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
	if (fd < 0)
		return;
	/* Hard links between directories, which every ruleset forbids that does not allow them. */
	const struct landlock_path_beneath_attr links = {
		.parent_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), .allowed_access = LANDLOCK_ACCESS_FS_REFER};
	syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &links, 0);
	close(links.parent_fd);
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
		{"mkdir", mover_mkdir, true}, {"places", mover_places, true}, {"unplace", mover_unplace, true},
		{"packages", mover_packages, true}};
	if (argc > 1 && strcmp(argv[1], "--keep") == 0) {
		argc--;
		argv++;
	} else if (argc > 1 && strchr(argv[0], '/')) {
		unlink(argv[0]);
	}
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
