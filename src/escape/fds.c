/*
 * Descriptors and directories that lead out of the box, as in CVE-2024-21626 and CVE-2019-5736.
 */
#include "escape/escape.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

/* runc kept a descriptor of the host's /sys/fs/cgroup open across the exec: any number past 2 is one too many. */
static void fd_leak(const struct check *c, struct outcome *o)
{
	(void)c;
	expect(o, "descriptors 0, 1 and 2 only");
	DIR *d = opendir("/proc/self/fd");
	if (!d) {
		errored(o, "/proc/self/fd: %s", errno_name(errno));
		return;
	}
	for (struct dirent *e; (e = readdir(d));) {
		char target[200] = "?";
		int fd = (int)leading_number(e->d_name);
		if (fd <= 2 || fd == dirfd(d))
			continue;
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		escaped(o, "descriptor %d is open: %s", fd, target);
	}
	closedir(d);
	struct stat st;
	for (int fd = 0; fd <= 2; fd++)
		if (fstat(fd, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)))
			escaped(o, "descriptor %d is a %s", fd, S_ISDIR(st.st_mode) ? "directory" : "block device");
	refused(o, "0, 1 and 2 only");
}

/* A path that a descriptor claims must lead to the same file from here; otherwise the file lies outside. */
static void judge_fd(struct outcome *o, int pid, const char *name)
{
	char link[300], target[512], why[160];
	struct stat there, here;
	snprintf(link, sizeof(link), "/proc/%d/fd/%s", pid, name);
	ssize_t n = readlink(link, target, sizeof(target) - 1);
	if (n < 0 && (errno == EACCES || errno == EPERM))
		refused(o, "/proc/%d/fd/*: %s", pid, errno_name(errno));
	if (n < 0 || target[0] != '/')
		return; /* gone, or "socket:[…]", "pipe:[…]", "anon_inode:…" */
	target[n] = 0;
	auto_fd int fd = open(link, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &there) < 0)
		return;
	if (S_ISDIR(there.st_mode)) {
		if (climbs_out(fd, why, sizeof(why)))
			escaped(o, "%s -> %s: %s", link, target, why);
		return;
	}
	if (there.st_nlink == 0 || strncmp(target, "/memfd:", 7) == 0)
		return; /* deleted, or never had a name */
	if (stat(target, &here) < 0 || here.st_ino != there.st_ino || here.st_dev != there.st_dev)
		escaped(o, "%s -> %s: a file that is not in this box", link, target);
}

static void judge_process(struct outcome *o, int pid)
{
	static const char *const dirs[] = {"cwd", "root"};
	char path[64], why[160];
	if (pid == getpid())
		return;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, dirs[i]);
		auto_fd int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && climbs_out(fd, why, sizeof(why)))
			escaped(o, "%s: %s", path, why);
		else if (fd < 0 && errno != EACCES && errno != EPERM && errno != ENOENT && errno != ESRCH)
			errored(o, "%s: %s", path, errno_name(errno));
	}
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *d = opendir(path);
	if (!d) {
		if (errno != ENOENT)
			refused(o, "%s: %s", path, errno_name(errno));
		return;
	}
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			judge_fd(o, pid, e->d_name);
	closedir(d);
	refused(o, "%s: nothing leads out", path);
}

/* The same through the descriptors, working directories and roots of every process here, PID 1 first of all. */
static void fd_leak_processes(const struct check *c, struct outcome *o)
{
	(void)c;
	expect(o, "EACCES, or nothing that leads out");
	each_pid(judge_process, o);
}

/* A command started with its working directory in a leaked directory: getcwd() fails and ".." climbs into the host. */
static void cwd_outside(const struct check *c, struct outcome *o)
{
	(void)c;
	char path[512], why[160];
	expect(o, "a working directory under this root");
	if (!getcwd(path, sizeof(path)))
		escaped(o, "getcwd: %s", errno_name(errno));
	else if (path[0] != '/')
		escaped(o, "getcwd: %s", path);
	if (climbs_out(AT_FDCWD, why, sizeof(why)))
		escaped(o, "going up from the working directory: %s", why);
	refused(o, "%s is inside", path);
}

static void cwd_through_fds(const struct check *c, struct outcome *o)
{
	(void)c;
	char path[64], why[160];
	auto_fd int start = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int tried = 0;
	expect(o, "no directory outside");
	for (int pid = 0; pid <= 1; pid++)
		for (int fd = 0; fd < 256; fd++) {
			snprintf(path, sizeof(path), pid ? "/proc/1/fd/%d" : "/proc/self/fd/%d", fd);
			if ((pid == 0 && fd == start) || chdir(path) < 0)
				continue;
			tried++;
			if (climbs_out(AT_FDCWD, why, sizeof(why)))
				escaped(o, "chdir(%s): %s", path, why);
			(void)!fchdir(start);
		}
	refused(o, "%d descriptors were directories, none outside", tried);
}

/* The file is the same as init's own program: a helper of the agent between fork and exec, or the agent itself. */
static void judge_exe(struct outcome *o, int pid)
{
	char path[64], again[64];
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	auto_fd int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		if (errno == EACCES || errno == EPERM)
			refused(o, "%s cannot even be reached: %s", path, errno_name(errno));
		else if (errno != ENOENT)
			errored(o, "%s: %s", path, errno_name(errno));
		return;
	}
	snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
	/* ETXTBSY protects only as long as a process runs the file: access() tells whether the mode protects it too. */
	int may = faccessat(AT_FDCWD, again, W_OK, AT_EACCESS) < 0 ? errno : 0;
	auto_fd int w = open(again, O_WRONLY | O_CLOEXEC);
	int os = w < 0 ? errno : 0;
	if (w >= 0)
		escaped(o, "%s opened for writing", path);
	else if (may == 0)
		escaped(o, "%s is writable once nothing runs it (open: %s)", path, errno_name(os));
	else if (may == EROFS || may == EACCES || may == EPERM)
		refused(o, "%s: %s (open: %s)", path, errno_name(may), errno_name(os));
	else
		errored(o, "%s: %s, open: %s", path, errno_name(may), errno_name(os));
}

static void exe_overwrite(const struct check *c, struct outcome *o)
{
	(void)c;
	expect(o, "EROFS, EACCES or EPERM even when nothing runs it");
	judge_exe(o, 1);
}

static void exe_metadata(const struct check *c, struct outcome *o)
{
	(void)c;
	struct stat st;
	auto_fd int fd = open("/proc/1/exe", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		TRY(o, "open(/proc/1/exe)", -1, EACCES, EPERM);
		return;
	}
	if (fstat(fd, &st) < 0) {
		errored(o, "fstat: %s", errno_name(errno));
		return;
	}
	/* Sets the values that they have already: a success changes nothing. */
	TRY(o, "fchmod", fchmod(fd, st.st_mode & 07777), EPERM, EROFS);
	TRY(o, "fchown", fchown(fd, st.st_uid, st.st_gid), EPERM, EROFS, EINVAL, EOVERFLOW);
	TRY(o, "linkat", linkat(AT_FDCWD, "/proc/1/exe", AT_FDCWD, "/var/tmp/atoll-exe", AT_SYMLINK_FOLLOW), EXDEV,
		EPERM);
	unlink("/var/tmp/atoll-exe");
}

/* Copying a descriptor out of init would give its listening socket, and with it the daemon's requests. */
static void steal_agent_socket(const struct check *c, struct outcome *o)
{
	(void)c;
	auto_fd int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
	if (pidfd < 0) {
		TRY(o, "pidfd_open(1)", -1, EPERM, ENOSYS);
		return;
	}
	for (int fd = 0; fd < 64; fd++) {
		long got = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
		if (got >= 0) {
			escaped(o, "pidfd_getfd(init, %d) succeeded", fd);
			close((int)got);
		} else {
			TRY(o, "pidfd_getfd(init)", -1, EPERM, ENOSYS);
		}
	}
}

static const struct check checks[] = {
	{"fd-leak", "CVE-2024-21626: descriptors of the host left open across the exec", "close_range before exec",
		fd_leak, NULL, CHECK_DEMO},
	{"fd-leak-processes", "CVE-2024-21626: host files through /proc/PID/{fd,cwd,root}, PID 1 included",
		"mount namespace, non-dumpable init", fd_leak_processes, NULL, 0},
	{"cwd-outside", "CVE-2024-21626: working directory outside the root", "mount namespace, own root", cwd_outside,
		NULL, 0},
	{"cwd-through-fds", "CVE-2024-21626: chdir(/proc/self/fd/N) into a leaked directory", "close_range before exec",
		cwd_through_fds, NULL, 0},
	{"exe-overwrite", "CVE-2019-5736: overwrite the host's agent program through /proc/1/exe",
		"non-dumpable init, sealed copy in memory", exe_overwrite, NULL, CHECK_DEMO},
	{"exe-metadata", "chmod, chown or link the host's agent program through /proc/1/exe",
		"non-dumpable init, sealed copy in memory", exe_metadata, NULL, CHECK_DEMO},
	{"steal-agent-socket", "pidfd_getfd: take the agent's listening socket from PID 1", "non-dumpable init",
		steal_agent_socket, NULL, CHECK_DEMO},
};
const struct check_group group_fds = {"fds", checks, ARRAY_LEN(checks)};
