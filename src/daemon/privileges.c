#include "daemon/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int privs_lookup(const char *user, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	errno = 0;
	struct passwd *pw = getpwnam(user);
	if (!pw)
		return err_set(e, ERRC_NOT_FOUND,
			"there is no user '%s' to run as; create it with 'useradd --system --user-group %s', or name "
			"another in ATOLL_USER",
			user, user);
	if (pw->pw_uid == 0)
		return err_set(e, ERRC_FORBIDDEN, "ATOLL_USER '%s' is root; name an unprivileged user", user);
	*ret_uid = pw->pw_uid;
	*ret_gid = pw->pw_gid;
	return 0;
}

static int change_user(uid_t uid, gid_t gid, struct err *e)
{
	/* Needs CAP_SETPCAP, so before the user changes. Unknown numbers past the last one end the loop. */
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap) < 0)
			return err_os(e, ERRC_INTERNAL_ERROR, errno, "drop capability %d from the bounding set", cap);
	if (setgroups(1, &gid) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "become user %u", (unsigned)uid);
	if (setresuid(0, 0, 0) == 0 || setresgid(0, 0, 0) == 0)
		return err_set(e, ERRC_INTERNAL_ERROR, "root could be had back after becoming user %u", (unsigned)uid);
	return 0;
}

int privs_drop(uid_t uid, gid_t gid, struct err *e)
{
	if (geteuid() == 0 && change_user(uid, gid, e) < 0)
		return -1;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || syscall(SYS_capset, &head, none) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "empty the capability sets");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "set no_new_privs");
	/* Tokens and secrets pass through the memory of this process: no core dump, no debugger of the same user. */
	if (setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "give up core dumps");
	return 0;
}
