/*
 * New namespaces (each is a fresh capability set and a large part of the kernel to attack) and foreign ones.
 */
#include "escape/escape.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static const struct {
	const char *name;
	unsigned long flag;
} kinds[] = {{"user", CLONE_NEWUSER}, {"mnt", CLONE_NEWNS}, {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET},
	{"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP}, {"time", CLONE_NEWTIME}};

static int unshare_one(void *arg)
{
	return unshare((int)*(unsigned long *)arg) == 0 ? 0 : errno;
}

static void judge_code(struct outcome *o, const char *what, int code, int right)
{
	char text[64];
	snprintf(text, sizeof(text), "%s", errno_name(right));
	expect(o, text);
	if (code == 0)
		escaped(o, "%s succeeded", what);
	else if (code == right)
		refused(o, "%s: %s", what, text);
	else
		errored(o, "%s: %s, expected %s", what, code < 256 ? errno_name(code) : "killed", text);
}

static void unshare_user(const struct check *c, struct outcome *o)
{
	(void)c;
	unsigned long flag = CLONE_NEWUSER, both = CLONE_NEWUSER | CLONE_NEWNS;
	judge_code(o, "unshare(CLONE_NEWUSER)", in_child(unshare_one, &flag), EPERM);
	judge_code(o, "unshare(CLONE_NEWUSER|CLONE_NEWNS)", in_child(unshare_one, &both), EPERM);
}

static void unshare_any(const struct check *c, struct outcome *o)
{
	(void)c;
	char what[64];
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		unsigned long flag = kinds[i].flag;
		snprintf(what, sizeof(what), "unshare(%s)", kinds[i].name);
		judge_code(o, what, in_child(unshare_one, &flag), EPERM);
	}
}

/* The child of a clone that worked ends at once. */
static void reap(struct outcome *o, const char *what, long pid, int os, bool enosys)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, __WALL);
	if (enosys)
		attempt(o, what, pid, os, (const int[]){ENOSYS, EPERM, 0});
	else
		attempt(o, what, pid, os, (const int[]){EPERM, 0});
}

static void clone_any(const struct check *c, struct outcome *o)
{
	(void)c;
	char what[64];
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (kinds[i].flag == CLONE_NEWTIME)
			continue; /* its bit lies in clone's signal number */
		snprintf(what, sizeof(what), "clone(%s)", kinds[i].name);
		long pid = syscall(SYS_clone, kinds[i].flag | SIGCHLD, 0, 0, 0, 0);
		reap(o, what, pid, errno, false);
		/* The filter must look at the flags' 32 bits and not be put off by the rest. */
		snprintf(what, sizeof(what), "clone(%s + high bits)", kinds[i].name);
		pid = syscall(SYS_clone, kinds[i].flag | SIGCHLD | 0x100000000ul, 0, 0, 0, 0);
		reap(o, what, pid, errno, false);
	}
}

/* clone3 takes its flags by pointer, where no filter can look: it has to be absent altogether. */
static void clone3_any(const struct check *c, struct outcome *o)
{
	(void)c;
	char what[64];
	struct clone_args plain = {.exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, &plain, sizeof(plain));
	reap(o, "clone3(nothing new)", pid, errno, true);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct clone_args a = {.flags = kinds[i].flag, .exit_signal = SIGCHLD};
		snprintf(what, sizeof(what), "clone3(%s)", kinds[i].name);
		pid = syscall(SYS_clone3, &a, sizeof(a));
		reap(o, what, pid, errno, true);
	}
}

static int setns_fd(void *arg)
{
	const long *a = arg;
	return syscall(SYS_setns, a[0], a[1]) == 0 ? 0 : errno;
}

static void setns_any(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const of[] = {"/proc/1/ns/", "/proc/self/ns/"};
	char path[64], what[96];
	for (size_t p = 0; p < ARRAY_LEN(of); p++)
		for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
			snprintf(path, sizeof(path), "%s%s", of[p], kinds[i].name);
			auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd < 0 && errno == ENOENT && kinds[i].flag == CLONE_NEWTIME)
				continue;
			if (fd < 0) {
				TRY(o, path, -1, EACCES, EPERM);
				continue;
			}
			long a[2] = {fd, 0};
			snprintf(what, sizeof(what), "setns(%s)", path);
			judge_code(o, what, in_child(setns_fd, a), EPERM);
		}
	auto_fd int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
	long a[2] = {pidfd, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET};
	if (pidfd >= 0)
		judge_code(o, "setns(pidfd of init)", in_child(setns_fd, a), EPERM);
}

/* The numbers of the host's first namespaces are fixed in the kernel; net and mnt have none and are judged elsewhere.
 */
static void not_initial(const struct check *c, struct outcome *o)
{
	(void)c;
	static const struct {
		const char *name;
		unsigned long ino;
	} initial[] = {{"ipc", 0xEFFFFFFFul}, {"uts", 0xEFFFFFFEul}, {"user", 0xEFFFFFFDul}, {"pid", 0xEFFFFFFCul},
		{"cgroup", 0xEFFFFFFBul}, {"time", 0xEFFFFFFAul}};
	char path[64], link[64], first[64];
	expect(o, "none is the host's");
	for (size_t i = 0; i < ARRAY_LEN(initial); i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", initial[i].name);
		snprintf(first, sizeof(first), "%s:[%lu]", initial[i].name, initial[i].ino);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		if (n < 0 && errno == ENOENT && strcmp(initial[i].name, "time") == 0)
			continue; /* this kernel has none */
		if (n <= 0)
			errored(o, "%s: %s", path, errno_name(errno));
		else if (strcmp(link, first) == 0)
			escaped(o, "the %s namespace is the host's", initial[i].name);
		else
			refused(o, "own %s", initial[i].name);
	}
}

/* From a namespace to its parent, which is the host's. */
static void parent_namespace(const struct check *c, struct outcome *o)
{
	(void)c;
	auto_fd int user = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	auto_fd int pid = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	if (user < 0 || pid < 0) {
		errored(o, "/proc/self/ns: %s", errno_name(errno));
		return;
	}
	TRY(o, "NS_GET_PARENT of user", ioctl(user, NS_GET_PARENT), EPERM);
	TRY(o, "NS_GET_PARENT of pid", ioctl(pid, NS_GET_PARENT), EPERM);
	TRY(o, "NS_GET_USERNS of user", ioctl(user, NS_GET_USERNS), EPERM);
}

/* A second write to the maps would add host root. */
static void id_map_write(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const paths[] = {"/proc/self/uid_map", "/proc/self/gid_map", "/proc/1/uid_map"};
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		auto_fd int fd = open(paths[i], O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			TRY(o, paths[i], -1, EACCES, EPERM, EROFS);
		else
			TRY(o, paths[i], write(fd, "0 0 1\n", 6), EPERM);
	}
}

static int chroot_out(void *arg)
{
	const char *dir = arg;
	auto_fd int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat before, after;
	if (top < 0 || fstat(top, &before) < 0)
		return errno;
	if (chroot(dir) < 0)
		return errno;
	if (fchdir(top) < 0)
		return errno;
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return errno;
	if (chroot(".") < 0 || stat("/", &after) < 0)
		return errno;
	return after.st_dev == before.st_dev && after.st_ino == before.st_ino ? 201 : 0;
}

/* Out of a chroot by a directory kept open: it must end at the box's root, where the mount namespace ends too. */
static void chroot_escape(const struct check *c, struct outcome *o)
{
	(void)c;
	char dir[128];
	snprintf(dir, sizeof(dir), "%s/jail", scratch_dir());
	mkdir(dir, 0700);
	int code = in_child(chroot_out, dir);
	expect(o, "EPERM, or the box's own root");
	if (code == 201)
		refused(o, "going up ends at the box's root");
	else
		judge_code(o, "chroot", code, EPERM);
	rmdir(dir);
}

static void pivot(const struct check *c, struct outcome *o)
{
	(void)c;
	TRY(o, "pivot_root(., .)", syscall(SYS_pivot_root, ".", "."), EPERM);
	TRY(o, "pivot_root(/proc, /proc)", syscall(SYS_pivot_root, "/proc", "/proc"), EPERM);
}

#define FILTER "seccomp, capabilities, limits of the user namespace"
static const struct check checks[] = {
	{"userns-nested", "CVE-2022-0185, CVE-2023-0386 …: a user namespace of its own gives every capability in it",
		FILTER, unshare_user, NULL, CHECK_DEMO},
	{"unshare", "a new namespace of every kind by unshare(2)", FILTER, unshare_any, NULL, CHECK_DEMO},
	{"clone-namespaces", "a new namespace of every kind by clone(2), also with high bits set", FILTER, clone_any,
		NULL, CHECK_DEMO},
	{"clone3", "flags by pointer, where a filter cannot look", "seccomp", clone3_any, NULL, CHECK_DEMO},
	{"setns", "join a namespace of PID 1, or one's own again", "seccomp, non-dumpable init", setns_any, NULL,
		CHECK_DEMO},
	{"namespaces-own", "no namespace is one of the host's first", "namespaces", not_initial, NULL, CHECK_DEMO},
	{"namespace-parent", "NS_GET_PARENT and NS_GET_USERNS up to the host's", "user namespace", parent_namespace,
		NULL, 0},
	{"id-map-write", "CVE-2018-18955 family: a second write to uid_map that adds host root", "user namespace",
		id_map_write, NULL, 0},
	{"chroot-escape", "out of a chroot by a directory kept open", "mount namespace, own root", chroot_escape, NULL,
		0},
	{"pivot-root", "another root for the whole mount namespace", "seccomp, capabilities", pivot, NULL, CHECK_DEMO},
};
const struct check_group group_namespaces = {"namespaces", checks, ARRAY_LEN(checks)};
