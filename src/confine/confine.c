#include "confine/confine.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int confine_self(struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) < 0)
		return err_os(e, ERRC_HOST_UNSUPPORTED, errno, "give up privileges");
	return 0;
}

static int fill(scmp_filter_ctx f, const struct confine_list *list)
{
	int r = 0;
	for (size_t i = 0; i < list->calls_n && r == 0; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, list->calls[i], 0);
	for (size_t i = 0; i < list->families_n && r == 0; i++)
		r = seccomp_rule_add(
			f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)list->families[i]));
	if (r < 0 || !list->threads)
		return r;
	/* A filter does not see the flags of clone3; without it glibc uses clone. */
	r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r < 0 ? r
		     : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			       SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

int confine_calls(const struct confine_list *list, struct err *e)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = f ? fill(f, list) : -ENOMEM;
	if (r == 0)
		r = seccomp_load(f);
	if (f)
		seccomp_release(f);
	return r < 0 ? err_os(e, ERRC_HOST_UNSUPPORTED, -r, "load the seccomp filter") : 0;
}
