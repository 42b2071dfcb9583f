/*
 * The identity of a process of the box: ids, capabilities, flags, and the old ways to gain more.
 */
#include "escape/escape.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "cage/caps.h"
#include "proto/limits.h"

/* The value of "Name:\t" in /proc/PID/status, or NULL. */
static const char *status_field(const char *status, const char *name)
{
	const char *at = strstr(status, name);
	return at ? at + strlen(name) + 2 : NULL;
}

static void judge_caps(struct outcome *o, const char *path)
{
	static const struct {
		const char *name;
		uint64_t want;
	} sets[] = {{"CapInh", 0}, {"CapPrm", CAPS_BOX}, {"CapEff", CAPS_BOX}, {"CapBnd", CAPS_BOX}, {"CapAmb", 0}};
	char status[8192], want[80];
	if (slurp(path, status, sizeof(status)) <= 0) {
		errored(o, "%s cannot be read", path);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		const char *text = status_field(status, sets[i].name);
		uint64_t have = text ? strtoull(text, NULL, 16) : ~0ull;
		snprintf(want, sizeof(want), "%s %016llx", sets[i].name, (unsigned long long)sets[i].want);
		expect(o, want);
		if (have & ~sets[i].want)
			escaped(o, "%s: %s %016llx", path, sets[i].name, (unsigned long long)have);
		else if (have != sets[i].want)
			errored(o, "%s: %s %016llx is less than designed", path, sets[i].name,
				(unsigned long long)have);
	}
	refused(o, "%s: as designed", path);
}

static void capabilities(const struct check *c, struct outcome *o)
{
	(void)c;
	judge_caps(o, "/proc/self/status");
	judge_caps(o, "/proc/1/status");
}

/* CAP_SYS_ADMIN, which no box has, by every door there is. */
static void capabilities_raise(const struct check *c, struct outcome *o)
{
	(void)c;
	enum { SYS_ADMIN = 21 };
	uint32_t head[2] = {0x20080522, 0}; /* version 3, this process */
	uint32_t data[6] = {0};		    /* effective, permitted, inheritable; then their upper halves */
	if (syscall(SYS_capget, head, data) < 0) {
		errored(o, "capget: %s", errno_name(errno));
		return;
	}
	for (int i = 0; i < 3; i++)
		data[i] |= 1u << SYS_ADMIN;
	TRY(o, "capset", syscall(SYS_capset, head, data), EPERM);
	TRY(o, "ambient set", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, SYS_ADMIN, 0, 0), EPERM);
}

static void no_new_privs(const struct check *c, struct outcome *o)
{
	(void)c;
	static const struct {
		const char *name, *want;
	} fields[] = {{"NoNewPrivs", "1"}, {"Seccomp", "2"}};
	static const char *const paths[] = {"/proc/self/status", "/proc/1/status"};
	char status[8192];
	expect(o, "NoNewPrivs 1, Seccomp 2");
	for (size_t p = 0; p < ARRAY_LEN(paths); p++)
		for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
			const char *v = slurp(paths[p], status, sizeof(status)) > 0
						? status_field(status, fields[i].name)
						: NULL;
			if (!v)
				errored(o, "%s has no %s", paths[p], fields[i].name);
			else if (*v != fields[i].want[0])
				escaped(o, "%s: %s is %c", paths[p], fields[i].name, *v);
			else
				refused(o, "%s %c", fields[i].name, *v);
		}
	if (prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
		escaped(o, "prctl took no_new_privs back");
}

/* One line "0 BASE 65536", BASE high enough to be no user of the host. */
static void id_maps(const struct check *c, struct outcome *o)
{
	(void)c;
	static const char *const paths[] = {"/proc/self/uid_map", "/proc/self/gid_map"};
	char map[4096];
	expect(o, "one range 0 BASE 65536 without host root");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (slurp(paths[i], map, sizeof(map)) <= 0) {
			errored(o, "%s cannot be read", paths[i]);
			continue;
		}
		char *at = map;
		unsigned long in = strtoul(at, &at, 10), base = strtoul(at, &at, 10), n = strtoul(at, &at, 10);
		if (at[strspn(at, " \n")] || in != 0 || n != BOX_UID_RANGE)
			escaped(o, "%s: %.60s", paths[i], map);
		else if (base < 65536)
			escaped(o, "%s: root inside is host user %lu", paths[i], base);
		else
			refused(o, "%s: root is %lu outside", paths[i], base);
	}
}

struct exec_as {
	const char *path;
	char said[64];
	int pipe[2];
};

static int exec_as_user(void *arg)
{
	struct exec_as *x = arg;
	dup2(x->pipe[1], 1);
	if (setgroups(0, NULL) < 0 || setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
		return 111;
	execl(x->path, x->path, "whoami", (char *)NULL);
	return 112;
}

/* Runs a copy of this program as user 1000 and reads the ids that it got. */
static bool run_as_user(struct outcome *o, struct exec_as *x)
{
	chmod(scratch_dir(), 0755);
	if (pipe2(x->pipe, O_CLOEXEC) < 0) {
		errored(o, "pipe: %s", errno_name(errno));
		return false;
	}
	int code = in_child(exec_as_user, x);
	close(x->pipe[1]);
	ssize_t n = read(x->pipe[0], x->said, sizeof(x->said) - 1);
	close(x->pipe[0]);
	if (code != 0 || n <= 0) {
		errored(o, "the copy could not be run as user 1000 (code %d)", code);
		return false;
	}
	x->said[n] = 0;
	x->said[strcspn(x->said, "\n")] = 0;
	return true;
}

static void judge_powers(struct outcome *o, const char *what, const char *said)
{
	char *at = (char *)said;
	unsigned long uid = strtoul(at, &at, 10), gid = strtoul(at, &at, 10);
	char *caps_text = at;
	unsigned long long caps = strtoull(at, &at, 16);
	expect(o, "user 1000, no capabilities");
	if (at == caps_text || *at)
		errored(o, "%s: unreadable answer '%s'", what, said);
	else if (uid != 1000 || gid != 1000 || caps != 0)
		escaped(o, "%s: became uid %lu gid %lu capabilities %llx", what, uid, gid, caps);
	else
		refused(o, "%s: stayed user 1000 without capabilities", what);
}

static void setuid_binary(const struct check *c, struct outcome *o)
{
	(void)c;
	char path[128];
	struct exec_as x = {.path = path};
	struct stat st;
	snprintf(path, sizeof(path), "%s/suid", scratch_dir());
	int rc = copy_self(path, 06755);
	if (rc < 0 || stat(path, &st) < 0 || (st.st_mode & 06000) != 06000) {
		errored(o, "no set-user-id copy: %s", errno_name(rc < 0 ? -rc : 0));
		return;
	}
	if (run_as_user(o, &x))
		judge_powers(o, "set-user-id root", x.said);
	unlink(path);
}

static void file_capabilities(const struct check *c, struct outcome *o)
{
	(void)c;
	/* struct vfs_cap_data revision 2, effective; DAC_OVERRIDE, NET_ADMIN and SYS_ADMIN permitted */
	static const uint32_t some[5] = {0x02000001, 1u << 1 | 1u << 12 | 1u << 21};
	char path[128];
	struct exec_as x = {.path = path};
	snprintf(path, sizeof(path), "%s/fcap", scratch_dir());
	int rc = copy_self(path, 0755);
	if (rc < 0) {
		errored(o, "no copy: %s", errno_name(-rc));
		return;
	}
	if (setxattr(path, "security.capability", some, sizeof(some), 0) < 0)
		TRY(o, "setxattr(security.capability)", -1, EPERM);
	else if (run_as_user(o, &x))
		judge_powers(o, "file capabilities", x.said);
	unlink(path);
}

static const struct check checks[] = {
	{"capabilities", "the capability sets of a command and of PID 1 are exactly the designed ones",
		"capability bounding set", capabilities, NULL, CHECK_DEMO},
	{"capabilities-raise", "capset and the ambient set beyond the bounding set", "capability bounding set",
		capabilities_raise, NULL, CHECK_DEMO},
	{"no-new-privs", "no_new_privs and the system call filter are on for commands and PID 1",
		"no_new_privs, seccomp", no_new_privs, NULL, CHECK_DEMO},
	{"id-maps", "root inside must be nobody outside: one 65536 range, host root not in it", "user namespace",
		id_maps, NULL, CHECK_DEMO},
	{"setuid-binary", "a set-user-id root program run by another user", "no_new_privs, nosuid", setuid_binary, NULL,
		CHECK_DEMO},
	{"file-capabilities", "a program with file capabilities run by another user",
		"user namespace, no_new_privs, nosuid", file_capabilities, NULL, CHECK_DEMO},
};
const struct check_group group_identity = {"identity", checks, ARRAY_LEN(checks)};
