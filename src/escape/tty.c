/*
 * Terminals: typing into a terminal of another process, and the line disciplines behind terminals.
 */
#include "escape/escape.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>

/* The slave side of a new terminal that this process controls; -1 with an error told. */
static int own_terminal(struct outcome *o)
{
	auto_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	const char *name = master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 ? ptsname(master) : NULL;
	setsid();
	int slave = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
	if (slave < 0) {
		errored(o, "no terminal to try it on: %s", errno_name(errno));
		return -1;
	}
	ioctl(slave, TIOCSCTTY, 0);
	(void)take_fd(&master); /* stays open: a hung-up terminal would refuse everything with EIO */
	return slave;
}

/* The kernel looks at 32 bits of the command; a filter that compares 64 is walked around by setting one above. */
static void try_both(struct outcome *o, int fd, const char *name, unsigned long cmd, void *arg)
{
	char what[80];
	snprintf(what, sizeof(what), "ioctl(%s)", name);
	TRY(o, what, syscall(SYS_ioctl, fd, cmd, arg), EPERM);
	snprintf(what, sizeof(what), "ioctl(%s + high bits)", name);
	TRY(o, what, syscall(SYS_ioctl, fd, cmd | 0x100000000ul, arg), EPERM);
}

static void tiocsti(const struct check *c, struct outcome *o)
{
	(void)c;
	char key = ' ';
	auto_fd int tty = own_terminal(o);
	if (tty >= 0)
		try_both(o, tty, "TIOCSTI", TIOCSTI, &key);
}

static void tioclinux(const struct check *c, struct outcome *o)
{
	(void)c;
	char paste[8] = {3}; /* paste the selection */
	auto_fd int tty = own_terminal(o);
	if (tty >= 0)
		try_both(o, tty, "TIOCLINUX", 0x541c, paste);
}

static void line_disciplines(const struct check *c, struct outcome *o)
{
	(void)c;
	/* The null discipline, which does nothing, goes first: a kernel that allows it is not asked for slip … hdlc,
	 * gsm0710.
	 */
	static const int all[] = {27, 1, 2, 3, 5, 13, 15, 21, 24};
	char what[48];
	auto_fd int tty = own_terminal(o);
	for (size_t i = 0; tty >= 0 && i < ARRAY_LEN(all) && o->verdict <= VERDICT_REFUSED; i++) {
		int n = all[i];
		snprintf(what, sizeof(what), "TIOCSETD %d", n);
		try_both(o, tty, what, TIOCSETD, &n);
	}
}

static void console_takeover(const struct check *c, struct outcome *o)
{
	(void)c;
	auto_fd int tty = own_terminal(o);
	if (tty >= 0)
		try_both(o, tty, "TIOCCONS", TIOCCONS, NULL);
}

/* devpts is an instance of its own: only terminals that this box made. */
static void foreign_terminals(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const consoles[] = {
		"/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/vcs", "/dev/vcsa", "/dev/hvc0"};
	struct stat before, pts, root;
	int shown = 0;
	expect(o, "own devpts, no console");
	for (size_t i = 0; i < ARRAY_LEN(consoles); i++) {
		if (stat(consoles[i], &before) == 0 && !(S_ISCHR(before.st_mode) && major(before.st_rdev) >= 136))
			escaped(o, "%s is here", consoles[i]);
	}
	DIR *d = opendir("/dev/pts");
	for (struct dirent *e; d && (e = readdir(d));)
		shown += e->d_name[0] >= '0' && e->d_name[0] <= '9';
	if (d)
		closedir(d);
	auto_fd int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	const char *name = master >= 0 ? ptsname(master) : NULL;
	if (!name || stat(name, &pts) < 0 || stat("/dev/pts", &root) < 0)
		errored(o, "no terminal: %s", errno_name(errno));
	else if (pts.st_dev != root.st_dev)
		escaped(o, "new terminals come from another devpts");
	else if (leading_number(name + strlen("/dev/pts/")) > shown)
		escaped(o, "the new terminal is %s though %d are shown: others are hidden", name, shown);
	else
		refused(o, "new terminal %s, %d before it", name, shown);
}

static const struct check checks[] = {
	{"tiocsti", "CVE-2017-5226, CVE-2019-10063: type into the terminal, also with high bits set", "seccomp",
		tiocsti, NULL, CHECK_DEMO},
	{"tioclinux", "CVE-2023-28100: paste into the console", "seccomp", tioclinux, NULL, CHECK_DEMO},
	{"line-disciplines", "CVE-2017-2636, CVE-2020-14416 …: load another line discipline", "seccomp",
		line_disciplines, NULL, CHECK_DEMO},
	{"console-takeover", "take over what the host writes to its console", "capabilities", console_takeover, NULL,
		0},
	{"foreign-terminals", "CVE-2025-52565: the host's console and terminals", "own devpts, own /dev",
		foreign_terminals, NULL, CHECK_DEMO},
};
const struct check_group group_tty = {"tty", checks, ARRAY_LEN(checks)};
